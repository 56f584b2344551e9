"""Lower bound of the number of triangles in a mesh file, from its own counts, before any parser of meshes reads it.

A few bytes can stand for any number of triangles: a node of DAE or glTF that names another ten times, which names the
next ten times. Parsers follow such nodes one by one, and by recursion.
"""

from __future__ import annotations

import re
import xml.parsers.expat as expat
from typing import Any

from haptic_sim.errors import HapticsError
from haptic_sim.inputs import shown

DEPTH = 100  # elements or nodes in each other; pycollada goes down them by recursion
_PRIMITIVES = ("triangles", "tristrips", "trifans", "polylist", "polygons")
_PART = 1 << 16  # [bytes] of a file that are parsed at once
_FACES = re.compile(rb"\nf\s")
_OFF = re.compile(rb"\s*OFF\s+(?:#[^\n]*\n\s*)*\d+\s+(\d+)")
_PLY = re.compile(rb"element face (\d+)")


class BoundError(HapticsError, ValueError):
    """A file must not be given to a parser; the text follows its name."""


def triangles_at_least(content: bytes, ending: str) -> int:
    """Number of triangles in an STL file of text, an OBJ, PLY or OFF file, or fewer; 0 for others.

    Args:
        content: of the file.
        ending: of its name, as `.stl`.
    """
    match ending:
        case ".stl":
            return content.count(b"endfacet") + content.count(b"ENDFACET")
        case ".obj":
            return sum(1 for _ in _FACES.finditer(content))
        case ".off":
            found = _OFF.match(content)
        case ".ply":
            found = _PLY.search(content[: content.find(b"end_header") + 1])
        case _:
            found = None
    return int(found[1][:18]) if found else 0


def drawn_by_dae(content: bytes) -> tuple[int, int]:
    """Triangles and instances of geometries that a DAE file draws, or fewer of the first.

    Raises:
        BoundError: it is no XML, its elements are too deep, or nodes are instances of each other in a circle.
    """
    return _Dae().drawn(content)


def drawn_by_nodes(nodes: list[Any], weights: list[int]) -> tuple[int, int]:
    """Triangles and instances of meshes that the nodes of a glTF file draw.

    Args:
        nodes: of the file.
        weights: triangles of each mesh.

    Raises:
        BoundError: a node has two parents or itself below it, which glTF forbids, or nodes are too deep.
    """
    parents: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for child in node.get("children", []):
            if not isinstance(child, int) or not 0 <= child < len(nodes):
                raise BoundError(f"node {i}: has the child {shown(child)}: must be the number of a node")
            if child in parents:
                raise BoundError(f"node {child}: is the child of two nodes: must be that of one")
            parents[child] = i
    depth: dict[int, int] = {}
    for i in range(len(nodes)):
        chain = [i]
        while chain[-1] not in depth and chain[-1] in parents:
            chain.append(parents[chain[-1]])
            if len(chain) > DEPTH + 1:
                raise BoundError(f"node {i}: is below itself, or in more than {DEPTH} others")
        above = depth.get(chain[-1], 0)
        depth[chain[-1]] = above
        for k, one in enumerate(reversed(chain[:-1]), 1):
            depth[one] = above + k
        if depth[i] > DEPTH:
            raise BoundError(f"node {i}: is below itself, or in more than {DEPTH} others")
    drawn = [weights[node["mesh"]] for node in nodes if "mesh" in node]
    return sum(drawn), len(drawn)


class _Dae:
    """Counts what nodes draw: each names geometries and other nodes."""

    def __init__(self) -> None:
        self._path: list[str] = []  # tags of the open elements
        self._geometry = ""
        self._triangles: dict[str, int] = {}  # of each geometry
        self._nodes: list[list[tuple[str, str]]] = [[]]  # what each open node names; the first: the scenes
        self._known: dict[str, list[tuple[str, str]]] = {}  # what each node with a name names
        self._ids: list[str] = []  # of the open nodes

    def drawn(self, content: bytes) -> tuple[int, int]:
        """Triangles, instances."""
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        try:
            for begin in range(0, len(content), _PART):
                parser.Parse(content[begin : begin + _PART], False)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise BoundError(f"not XML: {error}") from error
        return self._count(self._nodes[0], {}, [])

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._path.append(tag)
        if len(self._path) > DEPTH:
            raise BoundError(f"has more than {DEPTH} nested elements")
        if tag == "geometry":
            self._geometry = attributes.get("id", "")
            self._triangles.setdefault(self._geometry, 0)
        elif tag in _PRIMITIVES and self._geometry:
            count = attributes.get("count", "0")
            self._triangles[self._geometry] += int(count) if count.isdecimal() and len(count) < 18 else 0
        elif tag == "node":
            self._ids.append(attributes.get("id", ""))
            self._nodes.append([])
        elif tag in ("instance_geometry", "instance_node"):
            self._nodes[-1].append((tag, attributes.get("url", "").removeprefix("#")))

    def _end(self, _: str) -> None:
        tag = self._path.pop()
        if tag == "geometry":
            self._geometry = ""
        elif tag == "node":
            named, name = self._nodes.pop(), self._ids.pop()
            if name:
                self._known[name] = named
            if "node" in self._path or "library_nodes" not in self._path:  # a library draws nothing by itself
                self._nodes[-1] += named

    def _count(
        self, named: list[tuple[str, str]], done: dict[str, tuple[int, int]], path: list[str]
    ) -> tuple[int, int]:
        """Numbers of triangles and parts that these names stand for, each node counted once."""
        triangles = parts = 0
        for tag, name in named:
            if tag == "instance_geometry":
                triangles, parts = triangles + self._triangles.get(name, 0), parts + 1
                continue
            if name not in done:
                if name in path or len(path) > DEPTH:
                    raise BoundError(f"node {shown(name)}: is an instance of itself, or in more than {DEPTH} others")
                done[name] = self._count(self._known.get(name, []), done, [*path, name])
            below = done[name]
            triangles, parts = triangles + below[0], parts + below[1]
        return triangles, parts
