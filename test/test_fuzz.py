"""Hostile input through the command line: whatever is given, the exit status is one of the contract, no traceback.

Seeded and bounded. HAPTICS_FUZZ=N tries N times as much.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conftest
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haptic_bench import experiment
from haptic_bench.commands import command_line
from haptic_drivers.operators import COLUMNS
from haptic_sim import inputs

DATA = Path(__file__).parent / "data"
STATUSES = {0, 1, 2, 130}
HANG = 600  # [s] for one command; long: it decides nothing but a hang, and kernels may be compiled in it
NAMES = ("corner_peg", "incline", "bounce_settle", "peg_friction", "two_link_circle", "constrained_contact")


def examples(count: int) -> Any:
    """So many examples, the same ones each time."""
    return settings(
        max_examples=conftest.examples(count) * int(os.environ.get("HAPTICS_FUZZ", "1")),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def call(*arguments: str) -> tuple[int, str]:
    """Exit status and error output of a command, which must be of the contract."""

    def hangs(number: int, frame: object) -> None:
        raise AssertionError(f"hangs: {arguments}")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG)
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = command_line.main(list(arguments))
            except SystemExit as exit_:  # of the parser
                status = int(exit_.code or 0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    said = err.getvalue()
    assert status in STATUSES, said
    assert "Traceback" not in said and "an error of haptics" not in said, (arguments, said)
    assert status != 2 or said.startswith("haptics: "), said
    assert len(said) < 40_000 and all(len(line) < 2000 for line in said.splitlines())
    return status, said


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of everything in a document."""
    if place:
        yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from leaves(part, (*place, key))


@functools.cache
def documents() -> dict[str, Any]:
    """Experiments of the catalogue, and one with a world of its own, as resolved."""
    found = {
        name: experiment.load(name)[0].experiment.model_dump(mode="json", exclude={"name", "analysis"})
        for name in NAMES
    }
    box, mesh = {"type": "box", "size": [1, 1, 1]}, {"type": "mesh", "path": f"{DATA}/wedge.obj"}
    found["world"] = {
        "duration": 0.1,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "device": {"type": "none"},
        "scene": {
            "type": "world",
            "tool": "ball",
            "bodies": {
                "ball": {"joint": "free", "mass": 1.0, "shapes": [{"type": "sphere", "radius": 0.1}]},
                "door": {"joint": "revolute", "density": 9.0, "axis": [0, 0, 1], "shapes": [box]},
                "wedge": {"joint": "fixed", "position": [9, 9, 9], "shapes": [mesh]},
            },
            "files": {"arm": {"path": str(DATA / "arm.urdf"), "position": [5, 5, 5]}},
            "constraints": {"held": {"type": "point_fixed", "body": "door", "point": [0, 0, 0]}},
            "ignore": [["door", "arm"]],
        },
    }  # fmt: skip
    return found


NUMBERS = "0 -1 1 1e-300 1e300 -1e300 1e-310 5e-324 .nan .inf -.inf 1e-12 1e-9 1e12 1e6 1_0 0x10 010 1e3 12:30".split()
TEXTS = ["", "x", "null", "true", "yes", "[]", "{}", "[1]", "[a, b]", "{a: 1}", "{type: x}", "{[a]: 1}", "2001-99-99"]
TEXTS += ["!!int abc", "!!python/object:os.system x", "&a [*a]", "'\N{ARABIC-INDIC DIGIT THREE}'", "9" * 5000]
TEXTS += [
    "x" * 300,
    "[" * 900 + "]" * 900,
    '"\\0"',
    "/dev/zero",
    "../../etc/passwd",
    "[[1, 2], [3, 4]]",
    "\udcff",
    "a\0b",
]
TEXTS += [
    "*x",
    "[1e300, 1e300]",
    "[1e-300, 0, 0]",
    "[0, 0, 0]",
    "[1, 2, 3, 4, 5, 6]",
    "<script>",
    "\x1b[2J",
    "~",
    "[null]",
]
HOSTILE = st.sampled_from(NUMBERS + TEXTS) | st.text(max_size=20) | st.floats().map(str) | st.integers().map(str)
VALUES = st.sampled_from(
    [None, True, 0, -1, 1e300, 1e-300, -1e300, float("nan"), float("inf"), 10**5000 // 10**4990, "x", "", [], {}, [[]]]
    + [[1e300] * 3, [1e-300, 0.0, 0.0], [1.0] * 7, {"type": "x"}, "1_0", "9" * 500, "a\nb", [1] * 1000, "/dev/zero"]
)


@pytest.mark.exhaustive
@pytest.mark.long
@examples(60)
@given(st.data())
def test_settings(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    keys = [".".join(place) for place in leaves(documents()[name]) if all(isinstance(part, str) for part in place)]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(keys) | st.text(max_size=8), HOSTILE), min_size=1, max_size=2))
    call("validate", name, *(text for key, value in pairs for text in ("--set", f"{key}={value}")))


@pytest.mark.long
@examples(60)
@given(st.data())
def test_documents(data: st.DataObject) -> None:
    document = copy.deepcopy(documents()[data.draw(st.sampled_from(sorted(documents())))])
    for _ in range(data.draw(st.integers(1, 2))):
        *parents, last = data.draw(st.sampled_from(sorted(leaves(document), key=str)))
        part = document
        for key in parents:
            part = part[key]
        if data.draw(st.booleans()):
            part[last] = copy.deepcopy(data.draw(VALUES))
        else:
            del part[last]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.yaml"
        path.write_text(yaml.safe_dump(document))
        call("validate", str(path))


def mangled(data: st.DataObject, content: bytes) -> bytes:
    """A file that is cut, or in which some bytes are others, or are there twice."""
    pieces = [b"\0", b"\xff", b"-", b"1e300", b"nan", b"<", b"[", b"{", b"&a", b"\n", b",", b"0 0 0", b"x" * 3000]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        more = data.draw(st.sampled_from(pieces) | st.binary(max_size=4))
        skip = data.draw(st.sampled_from([0, 1, len(more), 100]))
        content = content[:at] + more + content[at + skip :]
    return content[: data.draw(st.integers(0, len(content)))] if data.draw(st.integers(0, 3)) == 0 else content


TABLE = "\n".join([",".join(COLUMNS), *(f"{i / 10},0,{i},0,0,0,0.5" for i in range(20))]).encode()


@pytest.mark.exhaustive
@pytest.mark.long
@examples(80)
@given(st.data())
def test_files(data: st.DataObject) -> None:
    """Experiments, tables, URDF, MJCF and meshes in which bytes are wrong."""
    kind = data.draw(st.sampled_from(["own.yaml", "table.csv", "arm.urdf", "table.xml", "wedge.obj"]))
    document = copy.deepcopy(documents()["world"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / kind
        content = {"own.yaml": yaml.safe_dump(document).encode(), "table.csv": TABLE}.get(kind) or (
            DATA / kind
        ).read_bytes()
        path.write_bytes(mangled(data, content))
        if kind == "own.yaml":
            call("validate", str(path))
            return
        scene = document["scene"]
        if kind == "table.csv":
            document["operator"] = {"type": "file", "path": str(path)}
        elif kind == "wedge.obj":
            scene["bodies"]["wedge"]["shapes"][0]["path"] = str(path)
        else:
            scene["files"]["arm"]["path"] = str(path)
        own = Path(folder) / "experiment.yaml"
        own.write_text(yaml.safe_dump(document))
        call("validate", str(own))


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short recorded trial."""
    out = tmp_path_factory.mktemp("fuzz") / "trial"
    assert call("run", "corner_peg", "--mode", "offline", "--duration", "0.02", "--out", str(out))[0] == 0
    return out


SUMMARIES = ["{}", "[]", "null", "[" * 100_000, '{"experiment": 3}', '{"sweep": {}}', "nan", "", "\0", '"x"']


@pytest.mark.exhaustive
@pytest.mark.long
@examples(12)
@given(st.data())
def test_trials(trial: Path, data: st.DataObject) -> None:
    """Recorded trials, one of whose files is damaged."""
    names = ["summary.json", "experiment.yaml", "bag/bag_0.mcap", "bag/metadata.yaml", "samples.csv"]
    name = data.draw(st.sampled_from(names))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "trial"
        shutil.copytree(trial, target)
        content = (target / name).read_bytes()
        if name == "summary.json" and data.draw(st.booleans()):
            content = data.draw(st.sampled_from(SUMMARIES)).encode()
        else:
            content = mangled(data, content)
        (target / name).write_bytes(content)
        command = data.draw(st.sampled_from([["report"], ["replay", "--verify"], ["repair"]]))
        call(command[0], str(target), *command[1:])


@examples(60)
@given(
    st.lists(
        st.sampled_from(
            "run validate list report replay benchmark corner_peg incline --set --mode offline --duration --out "
            "--version --quiet --composed --verify --help -x -- 0.01 -1 nan '' / . .. /dev/zero nope.yaml a=1 =".split()
        )
        | st.sampled_from(["", "a\0b", "x" * 300, "\udcff", "x/" * 3000, "\n", "--" + "y" * 10_000, "title=\udcff"]),
        max_size=5,
    )
)
def test_command_lines(arguments: list[str]) -> None:
    """Words in any order; what would run something is only looked at."""
    words = ["validate" if word == "run" else word for word in arguments if word not in ("benchmark", "campaign")]
    call(*words)


@pytest.mark.parametrize("out", ["dangling", "loop", "file/x", "x" * 300, "a\0b", "\udcff", "/dev/null", ""])
def test_directories_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    status, said = call("run", "corner_peg", "--mode", "offline", "--duration", "0.01", "--out", out)
    assert status == 2 and "--out" in said


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "own.yaml"
    os.mkfifo(pipe)
    for arguments in (
        ["validate", str(pipe)],
        ["validate", "corner_peg", "--set", "operator.type=file", "--set", "operator.path=/dev/zero"],
        ["validate", "corner_peg", "--set", "operator.type=file", "--set", f"operator.path={pipe}"],
    ):
        status, said = call(*arguments)
        assert status == 2 and "must be a file" in said
    (tmp_path / "summary.json").symlink_to("/dev/zero")
    status, said = call("report", str(tmp_path))
    assert status == 2 and "summary.json: cannot be read: is a device: must be a file" in said


@pytest.mark.long
def test_every_number_of_the_schema_is_bounded() -> None:
    """Each number of each experiment refuses what is not finite, and what is too large or too small."""
    for document in copy.deepcopy(documents()).values():
        for place in list(leaves(document)):
            *parents, last = place
            part = document
            for key in parents:
                part = part[key]
            valid = part[last]
            if isinstance(valid, bool) or not isinstance(valid, int | float):
                continue
            for value in (float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 5e-324):
                part[last] = value
                with pytest.raises(ValueError) as caught:
                    experiment.Experiment.model_validate({"name": "own", **document})
                assert str(last) in str(caught.value), (place, value)
            part[last] = valid


def test_what_is_refused_is_not_repeated_at_length(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 4)}]\n" for i in range(1, 8))
    path.write_text(bomb + "rate: *a7\ntitle: " + "x" * 500_000)
    status, said = call("validate", str(path))
    assert status == 2 and len(said) < 20_000
    assert len(inputs.read_yaml(path.read_text())["a7"]) == 4
