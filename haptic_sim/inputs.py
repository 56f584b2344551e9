"""Input of files, documents, numbers and texts: all are bounded and checked here.

Behind this module every document is a tree of a few types and limited depth, every number is finite and not denormal,
and every text can be printed. It needs the standard library, and PyYAML for YAML only.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from haptic_sim.errors import HapticsError

DOCUMENT = 1 << 20  # [bytes] of an experiment, a summary, a setting
MODEL = 1 << 24  # [bytes] of a URDF or MJCF file
DATA = 1 << 28  # [bytes] of a table or a mesh
DEPTH = 32  # of nested lists and mappings; an experiment has 8
NODES = 200_000  # of a document, its aliases expanded
PATH = 4000  # [bytes]; Linux takes 4095
NAME = 255  # [bytes] of each part of a path, as of Linux's file systems
LARGEST = 1e12  # of any number, in SI units
SHOWN = 200  # characters of what an error message repeats

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NOT_FINITE = re.compile(r"[-+]?\.?(?:inf|infinity|nan)", re.IGNORECASE)
_DIGITS = 400  # characters of a number: more than any has that was written by a program
# What no text holds: controls but tab and line ends, halves of surrogate pairs, and what is no character.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


class InputError(HapticsError, ValueError):
    """An input is not accepted; the text follows its name, as in "cannot be read: is a directory"."""


class ParameterError(HapticsError, ValueError):
    """One or more parameters are not acceptable; `problems` holds one line for each."""

    def __init__(self, problems: Iterable[str]):
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


# -- texts and paths ---------------------------------------------------------------------------------------------------


def require_mapping(name: str, value: Any) -> None:
    """Raise a ParameterError if an argument of a program is no mapping."""
    if not isinstance(value, Mapping):
        raise ParameterError([f"{name} = {shown(value)}: must be a mapping of keys to values"])


def require_path(name: str, value: Any) -> None:
    """Raise a ParameterError if an argument of a program is no path."""
    if not isinstance(value, str | os.PathLike):
        raise ParameterError([f"{name} = {shown(value)}: must be a path, as text or a pathlib.Path"])


def shown(value: Any, limit: int = SHOWN) -> str:
    """A value as an error message repeats it: on one line, printable, of bounded length whatever the value.

    Numbers and truth as in YAML, lists in brackets.
    """
    text = "".join(_pieces(value, limit))
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def _pieces(value: Any, limit: int, depth: int = 0) -> Iterator[str]:
    """The text of a value piece by piece, a little more than `limit` characters of it at most."""
    if isinstance(value, str):
        yield value[: limit + 1]
    elif value is None:
        yield "null"
    elif isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, float):
        yield f"{value:g}"
    elif isinstance(value, int):
        yield str(value) if abs(value) < 10**30 else f"a number of {int(math.log10(abs(value))) + 1} digits"
    elif isinstance(value, list | tuple | dict):
        if depth > 8:
            yield "..."
            return
        yield "{" if isinstance(value, dict) else "["
        length = 0
        for i, item in enumerate(value):
            pair = [item, ": ", value[item]] if isinstance(value, dict) else [item]
            for piece in [", " * (i > 0), *pair]:
                for text in [piece] if piece == ": " else _pieces(piece, limit, depth + 1):
                    yield text
                    length += len(text)
            if length > limit:
                return
        yield "}" if isinstance(value, dict) else "]"
    else:
        yield str(value)[: limit + 1]


def check_text(text: str) -> str:
    """The text itself.

    Raises:
        InputError: it holds control characters other than tabs and line ends, or bytes that are no UTF-8.
    """
    found = _UNPRINTABLE.search(text)
    if found:
        code = ord(found[0])
        kind = "a byte that is not UTF-8" if 0xD800 <= code < 0xE000 else f"the control character U+{code:04X}"
        raise InputError(f"must not hold {kind} (character {found.start() + 1})")
    return text


def check_path(name: str) -> Path:
    """A path that the operating system can take; whether there is something is not asked.

    Raises:
        InputError: empty, too long, or with characters that no text holds.
    """
    if not name:
        raise InputError("must not be empty")
    if "\n" in name or "\r" in name:
        raise InputError("must be on one line")
    check_text(name)
    size, longest = len(os.fsencode(name)), max(len(os.fsencode(part)) for part in name.split(os.sep))
    if size > PATH or longest > NAME:
        found = f"{size} bytes" if size > PATH else f"{longest} bytes in one name"
        raise InputError(f"has {found}: must have at most {PATH}, and {NAME} in one name")
    return Path(name)


# -- numbers -----------------------------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A decimal number as programs write it: ASCII digits, a point, an exponent; blanks around it do not matter.

    Raises:
        InputError: something else, not finite, or of a size that nothing here has: see `check_number`.
    """
    text = text.strip(" \t\r\n")
    if len(text) > _DIGITS:
        raise InputError(f"must be a number of at most {_DIGITS} characters")
    if _NOT_FINITE.fullmatch(text):
        raise InputError("must be finite")
    if not _NUMBER.fullmatch(text):
        raise InputError("must be a number")
    value = float(text)
    if value == 0.0 and text.lower().partition("e")[0].strip("+-0."):
        raise InputError(f"is too small: must be 0 or at least {sys.float_info.min:.3g}")
    return check_number(value)


def whole_number(text: str) -> int:
    """A whole number in decimal digits.

    Raises:
        InputError: something else.
    """
    text = text.strip(" \t\r\n")
    if not _WHOLE.fullmatch(text):
        raise InputError("must be a whole number")
    if len(text) > _DIGITS:
        raise InputError(f"must be a whole number of at most {_DIGITS} digits")
    return int(text)


def check_number(value: float) -> float:
    """The number itself.

    Raises:
        InputError: not finite, denormal, or beyond LARGEST.
    """
    if not math.isfinite(value):
        raise InputError("must be finite")
    if abs(value) > LARGEST:
        raise InputError(f"is too large: must be at most {LARGEST:g} in size")
    if 0.0 < abs(value) < sys.float_info.min:
        raise InputError(f"is too small: must be 0 or at least {sys.float_info.min:.3g}")
    return value


def numbers(text: str) -> list[float]:
    """Numbers separated by blanks, as in XML attributes.

    Raises:
        InputError: see `number`.
    """
    return [number(word) for word in text.split()]


# -- files -------------------------------------------------------------------------------------------------------------


def read_bytes(path: str | os.PathLike[str], limit: int = DOCUMENT) -> bytes:
    """The content of a regular file of at most `limit` bytes; never waits for a pipe or a device.

    Raises:
        InputError: missing, not a regular file, too large, not readable.
    """
    try:
        check_path(os.fspath(path))
        with open(path, "rb", opener=_open) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise InputError(f"has {size} bytes: must have at most {limit}")
            content = file.read((size or limit) + 1)  # files of /proc have no size
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    except InputError as error:
        raise InputError(f"cannot be read: {error}") from error
    if len(content) > (size or limit):
        raise InputError(f"cannot be read: has more than {size or limit} bytes")
    return content


def _open(path: str, flags: int) -> int:
    """A descriptor of a regular file."""
    handle = os.open(path, flags | os.O_NONBLOCK)  # else a pipe without a writer would be waited for
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise InputError(f"is {_kind(mode)}: must be a file")
    return handle


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def read_text(path: str | os.PathLike[str], limit: int = DOCUMENT) -> str:
    """The text of a file in UTF-8, without the mark that some programs put in front.

    Raises:
        InputError: see `read_bytes`; or not UTF-8.
    """
    content = read_bytes(path, limit)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"cannot be read: line {line} is not UTF-8") from error


# -- documents ---------------------------------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """The content of a JSON document; NaN and infinities are no JSON.

    Raises:
        InputError: not JSON, or too deep or large.
    """
    depth = 0
    for mark in re.finditer(r'"(?:[^"\\]|\\.)*"|[][{}]', text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > DEPTH:
            raise InputError(f"not JSON: more than {DEPTH} nested lists")
    try:
        value = json.loads(
            text, parse_int=_whole, parse_float=_real, parse_constant=_no_number, object_pairs_hook=_unique
        )
    except InputError as error:
        raise InputError(f"not JSON: {error}") from error
    except ValueError as error:
        raise InputError(f"not JSON: {shown(str(error))}") from error
    if "\\ud" in text.lower() and any("\ud800" <= c < "\ue000" for c in json.dumps(value, ensure_ascii=False)):
        raise InputError("not JSON: half of a surrogate pair is not a character")
    return value


def _no_number(name: str) -> float:
    raise InputError(f"{name} is not a number")


def _whole(digits: str) -> int:
    return int(digits) if len(digits) <= _DIGITS else int(_no_number(f"one of {len(digits)} digits"))


def _real(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(shown(text, 30))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise InputError(f"duplicate key {shown(twice)}")
    return found


def read_yaml(text: str, tags: Mapping[str, Callable[[str], Any]] | None = None, *, repeated: bool = False) -> Any:
    """The content of a YAML document: mappings with texts as keys, lists, texts, numbers, true, false and null.

    Scalars are those of YAML 1.2: `1e3` is a number; `1_0`, `0x10`, `12:30`, `2001-01-01`, `yes` and `on` are texts, as
    is a whole number of more than 400 digits. Tags other than those of these types are refused. Anchors and merge
    keys (`<<`) are understood; what an alias stands for is not copied, and counts as often as it is used.

    Args:
        text: of the document.
        tags: further tags of scalars, and what makes their values of their texts.
        repeated: whether a mapping may repeat a key, of which the last counts; else this is an error.

    Raises:
        InputError: not YAML, or too deep or large; names the line.
    """
    import yaml

    from haptic_sim.libyaml import LOADER  # with PyYAML, which is not needed for JSON

    if len(text) > DOCUMENT:
        raise InputError(f"has {len(text)} characters: must have at most {DOCUMENT}")
    reader = _YamlReader(tags or {}, repeated)
    line = 0
    try:
        check_text(text)
        event: Any
        for event in yaml.parse(text, LOADER):
            line = event.start_mark.line + 1
            reader.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise InputError(f"{where}not YAML: {shown(problem)}") from error
    except InputError as error:
        raise InputError(f"line {line}: not YAML: {error}" if line else str(error)) from error
    return reader.document


def read_mapping(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The keys and values of a YAML file.

    Raises:
        ParameterError: unreadable, not YAML (names the line), or not a mapping.
    """
    try:
        document = read_yaml(read_text(path))
    except InputError as error:
        raise ParameterError([f"{shown(os.fspath(path))}: {error}"]) from error
    if not isinstance(document, dict):
        raise ParameterError([f"{path}: must be a mapping of keys to values"])
    return document


class _YamlReader:
    """Builds the values from the parser's events, without recursion."""

    def __init__(self, tags: Mapping[str, Callable[[str], Any]], repeated: bool) -> None:
        self.document: Any = None
        self._tags, self._repeated = tags, repeated
        self._documents = 0
        self._open: list[_Container] = []
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # value and number of its nodes; None: not complete yet

    def take(self, event: Any) -> None:
        """The next event."""
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                raise InputError("a second document begins: must be one")
        elif kind == "ScalarEvent":
            merges = event.value == "<<" and event.implicit[0]
            of_tag = self._tags.get(event.tag)
            value = _scalar(event) if of_tag is None else of_tag(check_text(event.value))
            self._complete(_MERGE if merges else value, 1, event.anchor, event.value)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            self._begin(kind == "MappingStartEvent", event)
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            container = self._open.pop()
            self._complete(container.content(), container.nodes, container.anchor)
        elif kind == "AliasEvent":
            name = shown(event.anchor)
            if event.anchor not in self._anchors:
                raise InputError(f"the alias *{name} has no anchor before it")
            found = self._anchors[event.anchor]
            if found is None:
                raise InputError(f"the alias *{name} refers to a node that contains it")
            self._complete(*found, None, found[0] if isinstance(found[0], str) else None)

    def _begin(self, mapping: bool, event: Any) -> None:
        if event.tag not in (None, "!", f"tag:yaml.org,2002:{'map' if mapping else 'seq'}"):
            raise InputError(f"the tag {shown(event.tag)} is not known")
        if len(self._open) == DEPTH:
            raise InputError(f"more than {DEPTH} nested lists and mappings")
        if self._open and self._open[-1].wants_key:
            raise InputError("a key is a list or a mapping: must be a text")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Container(mapping, event.anchor, self._repeated))

    def _complete(self, value: Any, nodes: int, anchor: str | None, key: str | None = None) -> None:
        """A value of so many nodes is complete, `key` as a key: keep it under its anchor and where it belongs."""
        if anchor is not None:
            self._anchors[anchor] = (value, nodes)
        if self._open:
            self._open[-1].add(value, nodes, key)
        else:
            self.document = None if value is _MERGE else value


class _Container:
    """A list or a mapping that is being read."""

    def __init__(self, mapping: bool, anchor: str | None, repeated: bool):
        self.anchor, self.nodes, self.wants_key, self._repeated = anchor, 1, mapping, repeated
        self._items: list[Any] = []
        self._mapping: dict[str, Any] | None = {} if mapping else None
        self._merged: list[dict[str, Any]] = []  # mappings whose keys count where this one has none
        self._key: Any = None

    def content(self) -> Any:
        """The list or mapping."""
        if self._mapping is None:
            return self._items
        merged: dict[str, Any] = {}
        for other in self._merged:
            merged = other | merged
        return merged | self._mapping

    def add(self, value: Any, nodes: int, key: str | None) -> None:
        """Take the next item, key or value; `key` is what it is as a key."""
        self.nodes += nodes
        if self.nodes > NODES:
            raise InputError(f"more than {NODES} values")
        if self._mapping is None:
            self._items.append("<<" if value is _MERGE else value)
        elif self.wants_key:
            if key is None:
                raise InputError("a key is a list or a mapping: must be a text")
            self._key, self.wants_key = value if value is _MERGE else key, False
        else:
            value, self.wants_key = "<<" if value is _MERGE else value, True
            if self._key is _MERGE:
                self._merge(value)
            elif self._key in self._mapping and not self._repeated:
                raise InputError(f"duplicate key {shown(self._key)}")
            else:
                self._mapping[self._key] = value

    def _merge(self, value: Any) -> None:
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in mappings):
            raise InputError("what << merges must be a mapping, or a list of mappings")
        self._merged += mappings


_MERGE = object()  # the plain scalar <<
_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_TAGS = {f"tag:yaml.org,2002:{name}": name for name in ("str", "int", "float", "bool", "null")}


def _scalar(event: Any) -> Any:
    """The value of a scalar, by its tag or, where it is plain and has none, by its form."""
    text = check_text(event.value)
    if event.tag is None or event.tag == "!":
        return _plain(text) if event.implicit[0] else text
    tag = _TAGS.get(event.tag)
    if tag is None:
        raise InputError(f"the tag {shown(event.tag)} is not known")
    if tag == "str":
        return text
    value: Any = _plain(text)
    kinds: Any = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}[tag]
    if not isinstance(value, kinds) or (isinstance(value, bool) and tag != "bool"):
        raise InputError(f"{shown(text)} does not fit its tag !!{tag}")
    return float(value) if tag == "float" else value


def _plain(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) <= _DIGITS:
        if _WHOLE.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text) or (text.lstrip("+-")[:1] == "." and _NOT_FINITE.fullmatch(text)):
            return float(text.replace(".i", "i").replace(".I", "I").replace(".n", "n").replace(".N", "N"))
    return text
