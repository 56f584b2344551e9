"""Models of SDF documents: includes inserted, and the frames of links, joints, models and frames resolved.

The poses are those of SDFormat 1.7 and later: each is given in a frame, by the attribute `relative_to`, or in the one
that its element has by default (a link's in the model, a joint's in its child, a frame's in what it is attached to).
Documents before 1.7 have no such attribute; they use the default ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import pinocchio as pin

from haptic_sim.inputs import InputError, numbers, shown
from haptic_sim.parameters import did_you_mean
from haptic_sim.rotations import from_roll_pitch_yaw
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.packages import Packages, remedy
from haptic_sim.worlds.parameters import WORLD
from haptic_sim.worlds.xml_files import INCLUDES, MOST_FILES, at, read_xml
from haptic_sim.worlds.xml_files import Element as PlacedElement

MODEL = "__model__"
NESTED = 20  # nested models
_TRUE = {"1", "true", "True", "TRUE"}
_FALSE = {"0", "false", "False", "FALSE", ""}


@dataclass(eq=False)
class Scope:
    """A model or a world: what has a name in it.

    Attributes:
        element: of the document.
        version: of the document that it came from.
        folder: of its file.
        path: names of the models around it and its own, joined by ::; empty for a world, or a model alone.
        outside: the scope around it.
        static: whether it does not move.
    """

    element: Element
    version: tuple[int, int]
    folder: Path
    path: str = ""
    outside: Scope | None = None
    static: bool = False
    inside: dict[str, Scope] = field(default_factory=dict)
    named: dict[str, Element] = field(default_factory=dict)
    _poses: dict[str, pin.SE3] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    @property
    def is_world(self) -> bool:
        """Whether the scope is the world, no model."""
        return self.element.tag == "world"

    def full(self, name: str) -> str:
        """The name of something in it for all of the file."""
        return f"{self.path}::{name}" if self.path else name

    def scopes(self) -> Iterator[Scope]:
        """Iterate over this scope and those inside of it."""
        yield self
        for scope in self.inside.values():
            yield from scope.scopes()

    def pose(self, name: str) -> pin.SE3:
        """Pose of a frame by its name in this scope."""
        if name in ("", MODEL) or (name == WORLD and self.is_world):
            return pin.SE3.Identity()
        if name == WORLD:
            return self.in_file().inverse()
        if name not in self.named and name not in self.inside:
            first, _, rest = name.partition("::")
            if rest and first in self.inside:
                return self.pose(first) * self.inside[first].pose(rest)
            self._split(name)  # which refuses it
        if name not in self._poses:
            if name in self._open:
                chain = " -> ".join([*self._open, name])
                raise ModelFileError(f"{at(self.element)}{self.element.tag} {self._name}: frames go around: {chain}")
            self._open.append(name)
            self._poses[name] = self._find(name)
            self._open.pop()
        return self._poses[name]

    def in_outside(self) -> pin.SE3:
        """Pose of this model in the scope around it."""
        scope = self.outside
        pose = self.element.find("pose")
        relative = "" if pose is None else pose.get("relative_to", "")
        return self.placed() if scope is None else scope.pose(relative) * self.placed()

    def placed(self) -> pin.SE3:
        """Pose of this model in the frame that its pose is relative to."""
        X, placed = pose_of(self.element.find("pose")), self.element.get("placement_frame", "")
        return X * self.pose(placed).inverse() if placed else X

    def in_file(self) -> pin.SE3:
        """Pose of this scope in the file."""
        if self.is_world:
            return pin.SE3.Identity()
        return self.in_outside() if self.outside is None else self.outside.in_file() * self.in_outside()

    def body(self, name: str, element: Element) -> tuple[Scope, str] | None:
        """The link that a name in this scope belongs to, with its scope; None of the world.

        Args:
            element: that names it, for messages.
        """
        seen: set[tuple[int, str]] = set()
        scope: Scope = self
        while True:
            if name == WORLD:
                return None
            if name in ("", MODEL):
                if scope.is_world:
                    return None
                name = scope.canonical()
            scope, name = scope._split(name, element)
            if name == MODEL:
                continue
            if (id(scope), name) in seen:
                raise ModelFileError(f"{at(element)}frame {name}: is attached to itself")
            seen.add((id(scope), name))
            if name in scope.inside:
                scope, name = scope.inside[name], MODEL
                continue
            found = scope.named[name]
            if found.tag == "link":
                return scope, name
            name = child_of(found) if found.tag == "joint" else found.get("attached_to", MODEL)

    @property
    def _name(self) -> str:
        return self.element.get("name", "")

    def canonical(self) -> str:
        """The link that stands for the model."""
        if given := self.element.get("canonical_link"):
            return given
        for child in self.element:
            if child.tag == "link":
                return child.get("name", "")
        for name, scope in self.inside.items():
            if any(one.tag == "link" for one in scope.element.iter()):
                return name
        raise ModelFileError(f"{at(self.element)}model {self._name}: has no link")

    def _split(self, name: str, element: Element | None = None) -> tuple[Scope, str]:
        """The scope in which the last part of a name with :: is, and this part."""
        if name in self.named or name in self.inside:
            return self, name
        first, _, rest = name.partition("::")
        if rest and first in self.inside:
            scope = self.inside[first]
            return (scope, MODEL) if rest == MODEL else scope._split(rest, element)
        where = at(element if element is not None else self.element)
        known = [*self.named, *self.inside]
        raise ModelFileError(
            f"{where}{self.element.tag} {self._name}: no frame {shown(name)}{did_you_mean(name, known, 8)}"
        )

    def _find(self, name: str) -> pin.SE3:
        if name in self.inside:
            return self.inside[name].in_outside()
        element = self.named[name]
        pose = element.find("pose")
        relative = "" if pose is None else pose.get("relative_to", "")
        if not relative:
            relative = {"joint": child_of(element), "frame": element.get("attached_to", "")}.get(element.tag, "")
        return self.pose(relative) * pose_of(pose)


def child_of(joint: Element) -> str:
    """Link that a joint moves."""
    return (joint.findtext("child") or "").strip()


def read_scopes(root: Element, path: Path, packages: Packages) -> list[Scope]:
    """The worlds and models of a document, with what they include.

    Raises:
        ModelFileError: a file that is included is not found or wrong, or names are.
    """
    if not list(root.iter("model")) and root.find("world") is None and root.find(".//include") is None:
        raise ModelFileError(": has no <world> and no <model>")
    reader = _Reader(packages)
    top = [child for child in root if child.tag in ("world", "model", "include")]
    tops: list[Scope] = []
    if sum(child.tag == "world" for child in root) > 1:
        raise ModelFileError(f"{at(top[1])}has several <world>: must have one")
    for child in top:
        tops.append(reader.scope(child, version_of(root), path.parent, None, path="" if len(top) == 1 else None))
    return tops


def version_of(root: Element) -> tuple[int, int]:
    """The version of a document; the last one that is read where none is given.

    Raises:
        ModelFileError: it is none.
    """
    found = re.fullmatch(r"(\d+)\.(\d+)", root.get("version", "1.12").strip())
    if found is None:
        raise ModelFileError(f"{at(root)}version = {shown(root.get('version'))}: must be as 1.9")
    return int(found[1]), int(found[2])


class _Reader:
    """Reads models and what they include."""

    def __init__(self, packages: Packages):
        self._packages, self._files, self._open = packages, 0, list[Path]()

    def scope(
        self,
        element: Element,
        version: tuple[int, int],
        folder: Path,
        outside: Scope | None,
        *,
        path: str | None = None,
    ) -> Scope:
        """A model or world, or the model that an include stands for; `path`: what it has before its names."""
        if element.tag == "include":
            if _is_merged(element):
                raise ModelFileError(f"{at(element)}<include merge>: must be in a model or a world")
            return self._include(element, folder, outside, path)
        name = element.get("name", "")
        if not name or (name in (MODEL, WORLD) and element.tag == "model"):
            raise ModelFileError(f"{at(element)}<{element.tag}> needs a name of its own")
        if path is None:
            path = "" if element.tag == "world" else outside.full(name) if outside is not None else name
        static = (outside is not None and outside.static) or flag(element, "static")
        made = Scope(element, version, folder, path, outside, static)
        if path.count("::") > NESTED:
            raise ModelFileError(f"{at(element)}more than {NESTED} nested models")
        for child in list(element):
            if child.tag == "include" and _is_merged(child):
                self._merge(made, child)
            elif child.tag in ("model", "include"):
                inner = self.scope(child, version, folder, made)
                self._add(made, inner.element, inner)
            elif child.tag in ("link", "joint", "frame"):
                self._add(made, child, None)
        return made

    def _add(self, scope: Scope, element: Element, inner: Scope | None) -> None:
        name = element.get("name", "")
        if not name or name in scope.named or name in scope.inside or "::" in name:
            reason = "needs a name" if not name else f"{shown(name)}: must be a name without :: that nothing else has"
            raise ModelFileError(f"{at(element)}<{element.tag}> {reason}")
        if inner is None:
            scope.named[name] = element
        else:
            scope.inside[name] = inner

    def _merge(self, scope: Scope, include: Element) -> None:
        """Put the content of a model into the scope that includes it by `merge`.

        A frame `_merged__MODEL__model__` stands for the model's own, as in libsdformat (Model::PrepareForMerge): it is
        where the model would be, and what was placed in the model, without a frame or in `__model__`, is placed in it.
        """
        inner = self._include(include, scope.folder, scope.outside, scope.path)
        element, proxy = inner.element, f"_merged__{inner.element.get('name', '')}__model__"
        frame = PlacedElement("frame", {"name": proxy, "attached_to": inner.canonical()})
        frame.line, frame.file = getattr(include, "line", 0), getattr(include, "file", "")
        pose, X = element.find("pose"), inner.placed()
        relative = "" if pose is None else pose.get("relative_to", "")
        placed = PlacedElement("pose", {"relative_to": relative or MODEL, "rotation_format": "quat_xyzw"})
        placed.text = " ".join(repr(float(value)) for value in pin.SE3ToXYZQUAT(X))
        frame.append(placed)
        content = [child for child in element if child.tag in ("link", "joint", "frame", "model")]
        if scope.is_world and any(child.tag == "link" for child in content):
            raise ModelFileError(
                f"{at(include)}<include merge>: the model has links of its own: a world has models alone"
            )
        for child in content:
            _place_in(child, proxy, inner)
        place = list(scope.element).index(include)
        scope.element[place : place + 1] = [frame, *content]
        self._add(scope, frame, None)
        for named in inner.named.values():
            self._add(scope, named, None)
        for nested in inner.inside.values():
            nested.outside = scope
            for one in nested.scopes():
                one.static = one.static or scope.static
            _place_in(nested.element, proxy, inner)
            self._add(scope, nested.element, nested)

    def _include(self, include: Element, folder: Path, outside: Scope | None, scope_path: str | None) -> Scope:
        uri = (include.findtext("uri") or "").strip()
        where = f"{at(include)}<include> {shown(uri)}: "
        found = self._packages.locate(uri) or _beside(folder, uri) if uri else None
        name = uri.removeprefix("file://")  # as Gazebo looks for both among its models
        if found is None and name and "://" not in name:
            found = self._packages.locate(f"model://{name}")
        path = self._model_file(found, where, uri)
        self._files += 1
        if len(self._open) > INCLUDES or path in self._open:
            raise ModelFileError(f"{where}files include each other")
        if self._files > MOST_FILES:
            raise ModelFileError(f"{where}more than {MOST_FILES} files")
        try:
            root = read_xml(path, str(path))
        except ModelFileError as error:
            raise ModelFileError(f"{where}{path}{error}") from error
        if root.tag != "sdf":
            raise ModelFileError(f"{where}{path}: must have the root element <sdf>, has <{root.tag}>")
        model = root.find("model")
        if model is None:
            raise ModelFileError(f"{where}{path}: has no <model>")
        for key in ("name", "pose", "static"):
            if (given := include.find(key)) is None:
                continue
            if key == "name":
                model.set("name", (given.text or "").strip())
                continue
            for old in model.findall(key):
                model.remove(old)
            model.insert(0, given)
        placed = (include.findtext("placement_frame") or include.get("placement_frame") or "").strip()
        if placed or include.find("pose") is not None:
            model.attrib.pop("placement_frame", None)
        if placed:
            model.set("placement_frame", placed)
        self._open.append(path)
        made = self.scope(model, version_of(root), path.parent, outside, path=scope_path)
        self._open.pop()
        return made

    @staticmethod
    def _model_file(path: Path | None, where: str, uri: str) -> Path:
        """The file of a model: it, or that in its folder."""
        if path is None:
            raise ModelFileError(f"{where}there is no such model; {remedy(uri)}")
        if not path.is_dir():
            return path.absolute()
        if (config := path / "model.config").is_file():
            files = [
                (tuple(int(part) for part in re.findall(r"\d+", one.get("version", "0"))), (one.text or "").strip())
                for one in read_xml(config).findall("sdf")
            ]
            if files:
                return (path / max(files)[1]).absolute()
        return (path / "model.sdf").absolute()


def _is_merged(include: Element) -> bool:
    return include.get("merge", "") in _TRUE or flag(include, "merge")


def _place_in(element: Element, proxy: str, inner: Scope) -> None:
    """Place what was placed in a model in the frame that stands for it; its files stay where they are."""
    if element.tag in ("link", "model", "include"):
        pose = element.find("pose")
        if pose is None:
            pose = PlacedElement("pose", {})
            element.insert(0, pose)
        if not pose.get("relative_to"):
            pose.set("relative_to", proxy)
    if element.tag == "frame" and not element.get("attached_to"):
        element.set("attached_to", proxy)
    if element.tag == "joint" and (inner.version < (1, 5) or flag(element, "axis/use_parent_model_frame")):
        for xyz in element.findall("axis/xyz") + element.findall("axis2/xyz"):
            xyz.set("expressed_in", xyz.get("expressed_in") or proxy)
    if element.tag == "model":
        return  # what is in it is placed in it
    for part in element.iter():
        for key in ("relative_to", "attached_to", "expressed_in"):
            if part.get(key) == MODEL:
                part.set(key, proxy)
        if part.tag in ("parent", "child") and (part.text or "").strip() == MODEL:
            part.text = proxy
        if (
            part.tag == "uri"
            and "://" not in (part.text or "")
            and (found := _beside(inner.folder, (part.text or "").strip()))
        ):
            part.text = str(found.absolute())


def _beside(folder: Path, uri: str) -> Path | None:
    path = folder / uri
    return path if "://" not in uri and uri and path.exists() else None


def flag(element: Element, key: str, default: bool = False) -> bool:
    """A child element that says true or false."""
    found = element.find(key)
    if found is None:
        return default
    text = (found.text or "").strip()
    if text not in _TRUE | _FALSE:
        raise ModelFileError(f"{at(found)}<{key}> {shown(text)}: must be true or false")
    return text in _TRUE


def values(element: Element | None, count: int, default: tuple[float, ...]) -> tuple[float, ...]:
    """Numbers in an element.

    Raises:
        ModelFileError: something else, or too many or too few.
    """
    if element is None or not (element.text or "").strip():
        return default
    text = (element.text or "").strip()
    try:
        found = numbers(text)
        if len(found) != count:
            raise InputError(f"has {len(found)} numbers: must have {count}")
    except InputError as error:
        raise ModelFileError(f"{at(element)}<{element.tag}> {shown(text)}: {error}") from error
    return tuple(found)


def number_in(element: Element | None, key: str, default: float) -> float:
    """A number in a child element."""
    return values(None if element is None else element.find(key), 1, (default,))[0]


def pose_of(element: Element | None) -> pin.SE3:
    """A pose: position [m], and roll, pitch, yaw [rad, or degrees] or a quaternion x y z w."""
    if element is None or not (element.text or "").strip():
        return pin.SE3.Identity()
    if element.get("rotation_format", "euler_rpy") == "quat_xyzw":
        *position, x, y, z, w = values(element, 7, ())
        size = math.sqrt(x * x + y * y + z * z + w * w)
        if not size > 1e-9:
            raise ModelFileError(f"{at(element)}<pose> {shown(element.text)}: its quaternion must not be zero")
        return pin.XYZQUATToSE3(np.array([*position, x / size, y / size, z / size, w / size]))
    *position, roll, pitch, yaw = values(element, 6, ())
    factor = math.pi / 180.0 if element.get("degrees", "") in _TRUE else 1.0
    return pin.XYZQUATToSE3(np.array([*position, *from_roll_pitch_yaw(*(factor * a for a in (roll, pitch, yaw)))]))
