"""XML documents of models: read within bounds, without entities, with the line of each element."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
import xml.parsers.expat as expat
from pathlib import Path

from haptic_sim.inputs import MODEL, InputError, read_bytes
from haptic_sim.worlds.file_trees import ModelFileError

MOST_ELEMENTS = 200_000
MOST_FILES = 200  # included files
INCLUDES = 20  # nesting depth of included files
DEPTH = 1100  # of nested elements: a chain of 1000 bodies of MJCF, and some
_PART = 1 << 16  # [bytes] of a file that are parsed at once
_COMMENT = re.compile(rb"<!\[CDATA\[.*?\]\]>|<!--.*?-->", re.DOTALL)
_NOT_BLANK = re.compile(rb"[^\n]")


class Element(ElementTree.Element):
    """An element that knows its line, and the file if that is another than the one that was asked for."""

    line = 0
    file = ""


def read_xml(path: Path, file: str = "") -> Element:
    """The document of a file, of bounded size and depth.

    Args:
        path: of the file.
        file: its name for messages, if it is not the file that a user named.

    Raises:
        ModelFileError: it cannot be read, or is no XML.
    """
    try:
        return _Reader(file).read(read_bytes(path, MODEL))
    except InputError as error:
        raise ModelFileError(f": {error}") from error
    except expat.ExpatError as error:
        raise ModelFileError(f", line {error.lineno}: not XML: {error}") from error
    except (LookupError, ValueError) as error:  # its encoding
        raise ModelFileError(f": not XML: {error}") from error


def at(element: ElementTree.Element) -> str:
    """Location of an element, for messages that follow the name of the file."""
    file, line = getattr(element, "file", ""), getattr(element, "line", 0)
    return f": {file}, line {line}: " if file else f", line {line}: "


def text_of(root: ElementTree.Element) -> str:
    """The document as text."""
    return ElementTree.tostring(root, encoding="unicode")


def _as_tinyxml(content: bytes) -> bytes:
    """A document as Gazebo and MuJoCo take it, though XML forbids `--` in comments and blanks before its declaration.

    Comments become blanks and lines stay where they are, for messages.
    """
    if b"--" in content:  # `gz sim --iterations 10` stands in the comments of many worlds
        content = _COMMENT.sub(
            lambda found: found[0] if found[0][2:3] == b"[" else _NOT_BLANK.sub(b" ", found[0]), content
        )
    start = content.lstrip()
    if start.startswith(b"<?xml") and len(start) < len(content):
        content = b"<?xml" + content[: len(content) - len(start)] + start[5:]
    return content


class _Reader:
    """Builds a document of bounded size and depth from what expat reads."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._expat = expat.ParserCreate()
        self._expat.StartElementHandler, self._expat.EndElementHandler = self._start, self._end
        self._expat.CharacterDataHandler = self._text
        self._expat.EntityDeclHandler = self._entity
        self._builder = ElementTree.TreeBuilder(element_factory=Element)
        self._depth = self._count = 0

    def read(self, content: bytes) -> Element:
        """The root of the document."""
        content = _as_tinyxml(content)
        for begin in range(0, len(content), _PART):
            self._expat.Parse(content[begin : begin + _PART], False)
        self._expat.Parse(b"", True)
        root = self._builder.close()
        assert isinstance(root, Element)
        return root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth, self._count = self._depth + 1, self._count + 1
        if self._depth > DEPTH:
            raise InputError(f"has more than {DEPTH} nested elements")
        if self._count > MOST_ELEMENTS:
            raise InputError(f"has more than {MOST_ELEMENTS} elements")
        element = self._builder.start(tag, attributes)
        assert isinstance(element, Element)
        element.line, element.file = self._expat.CurrentLineNumber, self._file

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(tag)

    def _text(self, text: str) -> None:
        if self._depth:
            self._builder.data(text)

    def _entity(self, name: str, *_: object) -> None:
        raise InputError(f"line {self._expat.CurrentLineNumber}: declares the entity {name}: must declare none")
