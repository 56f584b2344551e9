"""The way in for files, documents, numbers and texts: what is taken, and what is said of the rest."""

from __future__ import annotations

import json
import math
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from haptic_bench import experiment
from haptic_sim import inputs
from haptic_sim.inputs import InputError


def refused(take: Any, *given: Any) -> str:
    """What is said of something that is not taken."""
    with pytest.raises(InputError) as caught:
        take(*given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1\nb: [2.5, x, null, true]", {"a": 1, "b": [2.5, "x", None, True]}),
        ("[1e3, 1., .5, +2, -0.5E-2, .inf, -.Inf]", [1000.0, 1.0, 0.5, 2, -0.005, math.inf, -math.inf]),
        # what YAML 1.1 takes for numbers, truth and dates is a text
        ("[1_0, 0x10, 12:30, 2001-99-99, yes, off]", ["1_0", "0x10", "12:30", "2001-99-99", "yes", "off"]),
        ("['5', \"5\", !!str 5, !!float 5]", ["5", "5", "5", 5.0]),
        ("010", 10),
        ("\N{ARABIC-INDIC DIGIT THREE}", "\N{ARABIC-INDIC DIGIT THREE}"),
        ("9" * 5000, "9" * 5000),
        ("{1: a, null: b, 2.0: c}", {"1": "a", "null": "b", "2.0": "c"}),
        ("x: &a {b: 1}\ny: *a\nz: {<<: *a, c: 2}", {"x": {"b": 1}, "y": {"b": 1}, "z": {"b": 1, "c": 2}}),
        ("<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nc: 3", {"a": 1, "b": 1, "c": 3}),
        ("[<<]", ["<<"]),
    ],
)
def test_yaml_is_read(text: str, value: Any) -> None:
    assert inputs.read_yaml(text) == value
    assert type(inputs.read_yaml(text)) is type(value)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1, 2\nb: 3", "line 2: not YAML: "),
        ("a: 1\na: 2", "line 2: not YAML: duplicate key a"),
        ("a: &a [*a]", "line 1: not YAML: the alias *a refers to a node that contains it"),
        ("a: *b", "line 1: not YAML: the alias *b has no anchor before it"),
        (BOMB, "line 6: not YAML: more than 200000 values"),
        ("a:\n" + "- " * 900, "line 2: not YAML: more than 32 nested lists and mappings"),
        ("{[a]: 1}", "line 1: not YAML: a key is a list or a mapping: must be a text"),
        ("x: &a [1]\n? *a\n: 2", "line 2: not YAML: a key is a list or a mapping: must be a text"),
        ("!!int abc", "line 1: not YAML: abc does not fit its tag !!int"),
        ("!!int true", "line 1: not YAML: true does not fit its tag !!int"),
        ("!!python/object/apply:os.abort []", "line 1: not YAML: the tag tag:yaml.org,2002:python/object/apply:os.abo"),
        ("!!set {a}", "line 1: not YAML: the tag tag:yaml.org,2002:set is not known"),
        ("!!binary aGVsbG8=", "line 1: not YAML: the tag tag:yaml.org,2002:binary is not known"),
        ("<<: 3", "line 1: not YAML: what << merges must be a mapping, or a list of mappings"),
        ("--- 1\n--- 2", "line 2: not YAML: a second document begins: must be one"),
        ("a\0", "must not hold the control character U+0000 (character 2)"),
        ('"\\a"', "line 1: not YAML: must not hold the control character U+0007 (character 1)"),
        ("\udcff", "must not hold a byte that is not UTF-8 (character 1)"),
        ("x" * (inputs.DOCUMENT + 1), "has 1048577 characters: must have at most 1048576"),
    ],
)
def test_yaml_that_is_refused_is_named(text: str, said: str) -> None:
    assert refused(inputs.read_yaml, text).startswith(said)


SCALARS = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False)
SCALARS |= st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4)
)


@settings(derandomize=True, deadline=None)
@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    """As YAML by PyYAML, whose YAML 1.1 quotes all that is not a text there, and as JSON; JSON is YAML."""
    assert inputs.read_yaml(yaml.safe_dump(value, allow_unicode=True)) == value
    if not any(word in json.dumps(value) for word in ("Infinity", "NaN")):
        assert inputs.read_json(json.dumps(value)) == value


@pytest.mark.parametrize("name", sorted(experiment.catalogue()))
def test_experiments_are_read_as_by_a_plain_reader(name: str) -> None:
    text = experiment.catalogue()[name].read_text(encoding="utf-8")
    assert inputs.read_yaml(text) == yaml.safe_load(text)


@settings(derandomize=True, deadline=None)
@given(st.text(st.sampled_from("[]{}:,&*!<?-\"'|>#%@ \n\tab01.eE+~"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (inputs.read_yaml, inputs.read_json, inputs.number, inputs.numbers, inputs.whole_number):
        try:
            read(text)
        except InputError as error:
            assert 0 < len(str(error)) < 400 and "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON: Expecting property name"),
        ("[" * 100_000, "not JSON: more than 32 nested lists"),
        ('{"a": 1, "a": 2}', "not JSON: duplicate key a"),
        ("[NaN]", "not JSON: NaN is not a number"),
        ("1e999", "not JSON: 1e999 is not a number"),
        ("7" * 5000, "not JSON: one of 5000 digits is not a number"),
        ('"\\ud800"', "not JSON: half of a surrogate pair is not a character"),
    ],
)
def test_json_that_is_refused_is_named(text: str, said: str) -> None:
    assert refused(inputs.read_json, text).startswith(said)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 0.1, -1e12, 2.2250738585072014e-308, 1e-300])
def test_numbers_are_read_to_the_last_bit(value: float) -> None:
    assert inputs.number(f" {value!r}\n") == value
    assert math.copysign(1.0, inputs.number(repr(value))) == math.copysign(1.0, value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a number"),
        ("1_0", "must be a number"),
        ("\N{ARABIC-INDIC DIGIT THREE}", "must be a number"),
        ("\N{FULLWIDTH DIGIT ONE}", "must be a number"),
        ("0x10", "must be a number"),
        ("1 2", "must be a number"),
        ("1e", "must be a number"),
        ("nan", "must be finite"),
        ("-Infinity", "must be finite"),
        ("1e400", "must be finite"),
        ("1e13", "is too large: must be at most 1e+12 in size"),
        ("1e-310", "is too small: must be 0 or at least 2.23e-308"),
        ("1e-400", "is too small: must be 0 or at least 2.23e-308"),
        ("1" * 500, "must be a number of at most 400 characters"),
    ],
)
def test_numbers_that_are_refused(text: str, said: str) -> None:
    assert refused(inputs.number, text) == said


def test_files_are_read_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "large").write_bytes(b"x" * 11)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for name, said in [
        ("pipe", "cannot be read: is a pipe: must be a file"),
        (".", "cannot be read: is a directory: must be a file"),
        ("dangling", "cannot be read: No such file or directory"),
        ("nothing", "cannot be read: No such file or directory"),
        ("loop", "cannot be read: Too many levels of symbolic links"),
        ("large/x", "cannot be read: Not a directory"),
        ("socket", "cannot be read: No such device or address"),
        ("large", "cannot be read: has 11 bytes: must have at most 10"),
        ("/dev/zero", "cannot be read: is a device: must be a file"),
        ("x" * 300, "cannot be read: has 300 bytes in one name: must have at most 4000, and 255 in one name"),
        ("x/" * 3000, "cannot be read: has "),
        ("a\0b", "cannot be read: must not hold the control character U+0000"),
        ("\udcff", "cannot be read: must not hold a byte that is not UTF-8"),
        ("/proc/self/maps", "cannot be read: has more than 10 bytes"),
    ]:
        assert refused(inputs.read_bytes, tmp_path / name, 10).startswith(said)
    before = len(os.listdir("/proc/self/fd"))
    refused(inputs.read_bytes, tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == before
    assert inputs.read_bytes(tmp_path / "large", 11) == b"x" * 11


def test_texts_of_files_are_utf_8(tmp_path: Path) -> None:
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbftime\r\n")
    assert inputs.read_text(tmp_path / "excel.csv") == "time\r\n"
    (tmp_path / "latin").write_bytes(b"a\nb\xfcc")
    assert refused(inputs.read_text, tmp_path / "latin") == "cannot be read: line 2 is not UTF-8"


def test_what_is_shown_is_short_and_printable() -> None:
    bomb: list[Any] = ["x"]
    for _ in range(100):
        bomb = [bomb] * 9
    endless: list[Any] = []
    endless.append(endless)
    for value in (bomb, endless, "x" * 10**7, ["y" * 10**6] * 9, 10**5000, {"k": bomb}, "\x1b[2J\n\udcff", None, -0.5):
        text = inputs.shown(value)
        assert len(text) <= 4 * inputs.SHOWN and text.isprintable()
    assert inputs.shown([1, 2.5, "a", True, None, {"b": 1e6}]) == "[1, 2.5, a, true, null, {b: 1e+06}]"
    assert inputs.shown("\x1b[2J") == "\\x1b[2J"
    assert inputs.shown(10**5000) == "a number of 5001 digits"
