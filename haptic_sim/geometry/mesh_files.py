"""Files of meshes: STL, OBJ, PLY, OFF, glTF and DAE, read within bounds, in metres.

A file is read as a whole, and only then given to trimesh's parsers, which neither open a file nor follow a reference:
materials and pictures are not read, and of a glTF file only buffers in it or beside it. glTF is in metres; a DAE file
says its unit, which counts. The axes are those of the file: its y may be what is up.
"""

from __future__ import annotations

import io
import json
import re
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from haptic_sim import inputs
from haptic_sim.errors import HapticsError
from haptic_sim.geometry import mesh_bounds
from haptic_sim.parameters import listed

if TYPE_CHECKING:
    import trimesh

KINDS = {".stl": "STL", ".obj": "OBJ", ".ply": "PLY", ".off": "OFF", ".gltf": "glTF", ".glb": "glTF", ".dae": "DAE"}
"""Kinds of files by their endings."""
MOST_TRIANGLES_READ = 2_000_000
MOST_PARTS_READ = 10_000  # instances of meshes in a file, each of which takes a parser as long as hundreds of triangles
MERGED = 1e-8  # [m] vertices that are as close are one, as trimesh merges them
LARGEST_COORDINATE = 1000.0  # of an image; more is no coordinate, and loses digits
_BEGINNINGS = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"%PDF": "a PDF document",
    b"\x7fELF": "a program",
    b"glTF": "a binary glTF file (.glb)",
    b"ply\n": "a PLY file (.ply)",
    b"ply\r": "a PLY file (.ply)",
    b"OFF\n": "an OFF file (.off)",
    b"OFF\r": "an OFF file (.off)",
    b"ISO-10303": "a STEP file; export it as a mesh, to STL for example",
    b"<?xml": "an XML document, as DAE is",
    b"version https://git-lfs": "a pointer of Git LFS, not the file; run git lfs pull",
}
_OWN = {".glb": b"glTF", ".ply": b"ply", ".off": b"OFF", ".dae": b"<?xml"}
_COMPRESSED = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")


class MeshError(HapticsError, ValueError):
    """A mesh that cannot be used; the text gives the reason and goes after the name of the mesh."""


def read_mesh(path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> trimesh.Trimesh:
    """A triangle mesh, its equal vertices merged, in an order that depends on the surface alone (`in_order`).

    Args:
        path: a file of one of KINDS.
        scale: factors along x, y and z; to metres.

    Raises:
        MeshError: missing, of another kind, not a mesh, too large, empty or not finite.
    """
    found, mesh = _parsed(path)
    check_count(len(mesh.faces))
    mirrored = np.prod(np.sign(scale)) < 0.0
    triangles = mesh.faces[:, ::-1] if mirrored else mesh.faces
    return in_order(merged(mesh.vertices * (np.asarray(scale) * _unit(found)), triangles))


def read_coordinates(path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> tuple[np.ndarray, np.ndarray]:
    """The triangles of a mesh with the coordinates of an image (UV).

    Of OBJ files `vt`, of glTF files TEXCOORD_0, of PLY files texture_u and texture_v, u and v, or s and t of vertices,
    or texcoord of faces, and of DAE files TEXCOORD of primitives with a material.

    Args:
        path: a file of one of KINDS.
        scale: factors along x, y and z; to metres.

    Returns:
        Corners of the triangles [m] (n, 3, 3), and their coordinates (n, 3, 2), (0, 0) on the left below in the image.

    Raises:
        MeshError: as `read_mesh`, or without coordinates in a part, or with some that are not finite or too large.
    """
    found, _ = _parsed(path, coordinates=True)
    corners, uv, without, triangles = [], [], 0, 0
    for node in found.graph.nodes_geometry:
        X, name = found.graph[node]
        mesh = found.geometry[name]
        given = getattr(mesh.visual, "uv", None)
        triangles += len(mesh.faces)
        if given is None or np.ndim(given) != 2 or len(given) != len(mesh.vertices) or np.shape(given)[1] < 2:
            without += len(mesh.faces)
            continue
        corners.append((mesh.vertices @ X[:3, :3].T + X[:3, 3])[mesh.faces])
        uv.append(np.asarray(given, float)[mesh.faces, :2])
    check_count(triangles)
    if without:
        raise MeshError(
            f"lacks coordinates of an image (UV) in parts with {without} of its {triangles} triangles: unwrap it and "
            "export it with them as OBJ, glTF or PLY, with Blender for example, or use type: triaxial, which needs none"
        )
    x, at = np.concatenate(corners) * (np.asarray(scale) * _unit(found)), np.concatenate(uv)
    _check_vertices(x.reshape(-1, 3))
    if not np.all(np.isfinite(at)):
        count = int((~np.isfinite(at)).any(axis=2).sum())
        raise MeshError(f"has coordinates of an image that are not finite at {count} corners; unwrap it again")
    if np.abs(at).max() > LARGEST_COORDINATE:
        raise MeshError(
            f"has coordinates of an image up to {np.abs(at).max():g}: must be from -{LARGEST_COORDINATE:g} to "
            f"{LARGEST_COORDINATE:g}; from 0 to 1 is the image once. Divide them by its size, if they are in pixels"
        )
    return x, at


def _parsed(path: Path, *, coordinates: bool = False) -> tuple[Any, trimesh.Trimesh]:
    """A file as a scene of trimesh, and all of that as one mesh.

    Raises:
        MeshError: missing, of another kind, not a mesh, too large or empty.
    """
    import trimesh

    if path.is_dir():
        raise MeshError(f"is a folder: must be a file, whose name ends in one of {listed(KINDS)}")
    if path.suffix.lower() not in KINDS:
        raise MeshError(f"cannot be read as a mesh: its name must end in one of {listed(KINDS)}")
    try:
        content = inputs.read_bytes(path, inputs.DATA)
    except inputs.InputError as error:
        raise MeshError(str(error)) from error
    kind = path.suffix.lower().removeprefix(".")
    _check_beginning(content, path.suffix.lower())
    _check_size(content, path.suffix.lower())
    beside: dict[str, bytes] = {}
    if KINDS[path.suffix.lower()] == "glTF":
        content, beside = _plain_gltf(content, path, coordinates=coordinates)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of coordinates that are missing or not finite
            found = trimesh.load_scene(
                io.BytesIO(content), file_type=kind, resolver=beside, process=False, **_options(kind, coordinates)
            )
            mesh = found.to_mesh()
    except ImportError as error:
        raise MeshError(f"cannot be read: {error.name} is missing; run pip install pycollada") from error
    except Exception as error:  # the parsers of trimesh's formats raise whatever they stumble over
        raise MeshError(f"cannot be read as a mesh: {_first_line(error)}") from error
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise MeshError("cannot be read as a mesh: it has no triangles")
    return found, mesh


def merged(vertices: np.ndarray, faces: np.ndarray) -> trimesh.Trimesh:
    """A mesh from vertices (n, 3) [m] and triangles (m, 3), equal vertices merged.

    Raises:
        MeshError: not finite, or a triangle names a vertex that is not there.
    """
    import trimesh

    _check_vertices(vertices)
    if len(faces) and not 0 <= np.min(faces) <= np.max(faces) < len(vertices):
        raise MeshError("has triangles with vertices that are not there")
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    mesh.merge_vertices(merge_tex=True, merge_norm=True)
    mesh.update_faces(mesh.nondegenerate_faces(height=0.0))
    return mesh


def in_order(mesh: trimesh.Trimesh) -> trimesh.Trimesh:
    """The same mesh, vertices in the order of x, y and z, triangles in that of their vertices, the least one first.

    The vertices of an STL file are numbered as its triangles come, those of others as a program has written them.
    Points of shells and convex pieces follow from the order.
    """
    import trimesh

    # as coarse as vertices are merged: so that a decimal and a single-precision file mostly agree
    x, y, z = np.round(mesh.vertices.T / MERGED)
    order = np.lexsort((z, y, x))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    faces = number[mesh.faces]
    first = faces.argmin(axis=1)[:, None]
    faces = np.take_along_axis(faces, (first + np.arange(3)) % 3, axis=1)
    return trimesh.Trimesh(mesh.vertices[order], faces[np.lexsort(faces.T[::-1])], process=False)


def check_count(triangles: int) -> None:
    """Refuse a mesh that is too large to be looked at.

    Raises:
        MeshError: it has too many triangles.
    """
    if triangles > MOST_TRIANGLES_READ:
        raise MeshError(
            f"has {triangles} triangles: must have at most {MOST_TRIANGLES_READ} triangles; simplify it, with MeshLab "
            "or Blender for example"
        )


def check_file(path: Path) -> None:
    """Refuse a file that draws more than is read, before a parser that is not ours follows its nodes.

    Raises:
        MeshError: it does, or its nodes are too deep or go around. What is wrong with it otherwise, its parser says.
    """
    ending = path.suffix.lower()
    if ending in KINDS:
        try:
            content = inputs.read_bytes(path, inputs.DATA)
        except inputs.InputError as error:
            raise MeshError(str(error)) from error
        if KINDS[ending] == "glTF":
            _plain_gltf(content, path)
        else:
            _check_size(content, ending)


def check_parts(parts: int) -> None:
    """Refuse a file with too many instances of meshes.

    Raises:
        MeshError: it has.
    """
    if parts > MOST_PARTS_READ:
        raise MeshError(
            f"has {parts} instances of meshes: must have at most {MOST_PARTS_READ}; join them, with Blender for example"
        )


def _check_size(content: bytes, ending: str) -> None:
    """Refuse a file that says, by its first or all of its lines, that it is too large or no mesh; glTF apart."""
    if not content:
        raise MeshError("is empty; export it again")
    if ending == ".obj":
        _check_lines(content, rb"v")
    if ending == ".stl":
        _check_stl(content)
    if ending == ".dae":
        if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
            raise MeshError(
                "cannot be read as a mesh: it defines entities of XML, which no program that writes DAE does"
            )
        try:
            triangles, parts = mesh_bounds.drawn_by_dae(content)
        except mesh_bounds.BoundError as error:
            raise MeshError(f"cannot be read as a mesh: {error}") from error
        check_count(triangles)
        check_parts(parts)
    check_count(mesh_bounds.triangles_at_least(content, ending))


def _first_line(error: Exception) -> str:
    return inputs.shown(str(error).splitlines()[0] if str(error) else repr(error))


def _options(kind: str, coordinates: bool) -> dict[str, Any]:
    """Options of the parser of a kind; where it keeps their order, vertices are not split at seams."""
    return {"skip_materials": True, "maintain_order": not coordinates} if kind == "obj" else {}


def _unit(scene: Any) -> float:
    """Length of a file's unit [m]; only DAE has one that is not a metre, as "0.0254 * meters"."""
    text = str(scene.units or "").partition(" * meters")
    unit = float(text[0]) if text[1] else 1.0
    if not 0.0 < unit < np.inf:
        raise MeshError(f"<unit meter> = {unit:g}: must be > 0")
    return unit


def _check_beginning(content: bytes, ending: str) -> None:
    """Refuse content that is of another kind than the name says."""
    own = _OWN.get(ending, b"")
    for beginning, kind in _BEGINNINGS.items():
        if content.startswith(beginning) and not (own and beginning.startswith(own)):
            raise MeshError(f"cannot be read as a mesh: its name ends in {ending}, but it is {kind}")
    if ending in (".glb", ".ply") and not content.startswith(own):
        raise MeshError(f"cannot be read as a mesh: it does not begin as {KINDS[ending]} does")


def is_text_stl(content: bytes) -> bool:
    """Whether the content of an STL file, or its beginning, is text with triangles."""
    return content[:5].lower() == b"solid" and b"facet" in content[:1000].lower()


def _check_stl(content: bytes) -> None:
    """Refuse a binary STL file whose length does not go with the number of triangles that it says."""
    if is_text_stl(content):
        _check_lines(content, rb"vertex")
        return
    if re.fullmatch(rb"\s*solid\b[^\n]*\s*endsolid\b.*\s*", content[:1000], re.IGNORECASE):
        raise MeshError("cannot be read as a mesh: it is text STL without a facet; export it again")
    if len(content) < 84:
        raise MeshError("cannot be read as a mesh: it is neither text nor binary STL")
    (count,) = struct.unpack_from("<I", content, 80)
    check_count(count if len(content) >= 84 + 50 * count else 0)
    if len(content) < 84 + 50 * count:
        raise MeshError(
            f"cannot be read as a mesh: its header gives {count} triangles, it has {(len(content) - 84) // 50}: it is "
            "cut off, or not STL"
        )
    facet = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    bad = ~np.isfinite(np.frombuffer(content, facet, count, 84)["corners"]).all(axis=2)
    if bad.any():
        raise _not_finite(int(bad.sum()), f"triangle {int(bad.any(axis=1).argmax())}")


def _check_lines(content: bytes, key: bytes) -> None:
    """Refuse a text of which a line that begins with the key has a number that is not finite."""
    text = content.lower()
    if b"nan" in text or b"inf" in text:  # which is seldom, and quick to find
        bad = [
            found.start(1) for found in re.finditer(rb"^[ \t]*(%s)[ \t][^\n]*\b(?:nan|inf)" % key, text, re.MULTILINE)
        ]
        if bad:
            above = content.count(b"\n", 0, bad[0])
            raise _not_finite(len(bad), f"line {above + 1}")


def _check_vertices(vertices: np.ndarray) -> None:
    """Refuse vertices (n, 3) that are not finite."""
    bad = ~np.isfinite(vertices).all(axis=1)
    if bad.any():
        raise _not_finite(int(bad.sum()), f"vertex {int(bad.argmax())}")


def _not_finite(count: int, first: str) -> MeshError:
    """Error text of vertices that are not finite; `first`: location of the first one, counted from 0, but for lines."""
    which = "vertices that are" if count > 1 else "vertex that is"
    return MeshError(
        f"has {count} {which} not finite, the first in {first}: export it again, or repair it, with MeshLab or Blender "
        "for example"
    )


def _plain_gltf(content: bytes, path: Path, *, coordinates: bool = False) -> tuple[bytes, dict[str, bytes]]:
    """A glTF file without materials and pictures, and the buffers beside it that it names, by name.

    trimesh reads coordinates of an image only of what has a material: with `coordinates` all have an empty one.

    Raises:
        MeshError: malformed, compressed, or with a buffer that is elsewhere or too large.
    """
    binary = path.suffix.lower() == ".glb"
    text, rest = content, b""
    if binary:
        if len(content) < 20:
            raise MeshError("cannot be read as a mesh: it is cut off")
        _, version, total, length, chunk = struct.unpack_from("<4sIIII", content)
        if version != 2 or chunk != 0x4E4F534A or total > len(content) or 20 + length > total:
            raise MeshError("cannot be read as a mesh: it is cut off, or not glTF 2.0")
        text, rest = content[20 : 20 + length], content[20 + length : total]
    try:
        tree = inputs.read_json(text.decode())
    except (UnicodeDecodeError, inputs.InputError) as error:
        raise MeshError(f"cannot be read as a mesh: {_first_line(error)}") from error
    if not isinstance(tree, dict):
        raise MeshError("cannot be read as a mesh: it is not glTF")
    required = tree.get("extensionsRequired", [])
    for one in _COMPRESSED:
        if one in required:
            raise MeshError(f"is compressed by {one}, which is not read; export it without compression")
    _check_counts(tree)
    beside, size = {}, 0
    for buffer in tree.get("buffers", []):
        length, uri = (buffer.get("byteLength"), buffer.get("uri")) if isinstance(buffer, Mapping) else (None, None)
        if not isinstance(length, int) or length < 0:
            raise MeshError(f"cannot be read as a mesh: byteLength = {inputs.shown(length)} of a buffer")
        size += length
        if size > inputs.DATA:
            raise MeshError(f"has buffers of {size} bytes: must have at most {inputs.DATA}")
        if isinstance(uri, str) and not uri.startswith("data:"):
            beside[uri] = _buffer_beside(path, uri)
    for key in ("materials", "textures", "images", "samplers", "animations", "skins", "cameras"):
        tree.pop(key, None)
    for mesh in tree.get("meshes", []):
        for primitive in mesh.get("primitives", []) if isinstance(mesh, dict) else []:
            if isinstance(primitive, dict):
                primitive.pop("material", None)
                if coordinates:
                    primitive["material"] = 0
    if coordinates:
        tree["materials"] = [{}]
    text = json.dumps(tree).encode()
    if not binary:
        return text, beside
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text) + len(rest), len(text), 0x4E4F534A)
    return head + text + rest, beside


def _check_counts(tree: dict[str, Any]) -> None:
    """Refuse a glTF file that names more triangles than can be looked at: a few bytes may stand for any number.

    Raises:
        MeshError: it does, or is malformed.
    """
    try:
        counts = [int(accessor["count"]) for accessor in tree.get("accessors", [])]
        meshes = [
            sum(counts[one.get("indices", one["attributes"]["POSITION"])] for one in mesh["primitives"])
            for mesh in tree.get("meshes", [])
        ]
        drawn, parts = mesh_bounds.drawn_by_nodes(tree.get("nodes", []), meshes)
    except mesh_bounds.BoundError as error:
        raise MeshError(f"cannot be read as a mesh: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise MeshError(f"cannot be read as a mesh: it is not glTF: {_first_line(error)}") from error
    check_count(max(drawn, *counts, 0) // 3)
    check_parts(parts)


def _buffer_beside(path: Path, uri: str) -> bytes:
    """A buffer that a glTF file names, which must be in its folder or below.

    Raises:
        MeshError: it is elsewhere, or cannot be read.
    """
    folder = path.resolve().parent
    where = f"its buffer {inputs.shown(uri)}"
    if ":" in uri or "\0" in uri or not (folder / uri).resolve().is_relative_to(folder):
        raise MeshError(f"{where}: must be a file in the folder of the mesh")
    try:
        return inputs.read_bytes(folder / uri, inputs.DATA)
    except inputs.InputError as error:
        raise MeshError(f"{where}: {error}") from error
