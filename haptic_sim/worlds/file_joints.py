"""Joint properties in URDF files, and the content of URDF and MJCF files that is not simulated."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.inputs import LARGEST, InputError, number, shown
from haptic_sim.parameters import did_you_mean
from haptic_sim.worlds.file_trees import ModelFileError

_APPEARANCE = {
    "material",
    "visual",
    "statistic",
    "custom",
    "asset",
    "default",
    "compiler",
    "worldbody",
    "size",
    "equality",
}
_CONTACT = {"contype", "conaffinity", "condim", "friction", "solref", "solimp", "solmix", "margin", "gap", "priority"}
_SOFT = {"solreflimit", "solimplimit", "solreffriction", "solimpfriction", "margin"}
_NUMERICS = {"timestep", "integrator", "cone", "jacobian", "solver", "iterations", "tolerance", "impratio", "apirate"}
_NUMERICS |= {f"{kind}_iterations" for kind in ("ls", "noslip", "mpr", "ccd", "sdf")}
_NUMERICS |= {f"{kind}_tolerance" for kind in ("ls", "noslip", "mpr", "ccd")}


# URDF


def urdf_laws(root: ElementTree.Element) -> list[JointLaw]:
    """The laws of a URDF file's joints, without their places in a model.

    Raises:
        ModelFileError: a lower limit above the upper one, or a number that is none or negative.
    """
    laws = []
    for joint in root.findall("joint"):
        name, kind = joint.get("name", ""), joint.get("type")
        if kind not in ("revolute", "prismatic", "continuous"):
            continue
        limit, dynamics = joint.find("limit"), joint.find("dynamics")
        lower, upper, speed = -math.inf, math.inf, math.inf
        if limit is not None:
            speed = _number(name, limit, "velocity", 0.0) or math.inf  # 0 stands for none given
            if kind != "continuous":
                lower = _number(name, limit, "lower", 0.0, -math.inf)
                upper = _number(name, limit, "upper", 0.0, -math.inf)
        _ordered(name, lower, upper)
        law = JointLaw(
            name,
            velocity=0,
            position=-1 if kind == "continuous" else 0,
            lower=lower,
            upper=upper,
            speed=speed,
            damping=0.0 if dynamics is None else _number(name, dynamics, "damping", 0.0),
            friction=0.0 if dynamics is None else _number(name, dynamics, "friction", 0.0),
        )
        if not law.idle:
            laws.append(law)
    return laws


def placed(laws: list[JointLaw], model: pin.Model) -> tuple[JointLaw, ...]:
    """Laws with the indices of their joints in the model of the file."""
    found = []
    for law in laws:
        if model.existJointName(law.name):
            number = model.getJointId(law.name)
            position = model.idx_qs[number] if law.position >= 0 else -1
            found.append(replace(law, velocity=model.idx_vs[number], position=position))
    return tuple(found)


def _number(joint: str, element: ElementTree.Element, key: str, default: float, least: float = 0.0) -> float:
    if key not in element.attrib:
        return default
    (value,) = _read(joint, key, element.attrib[key], 1)
    if not value >= least:
        raise ModelFileError(f": joint {joint}: {key} = {value:g}: must be >= {least:g}")
    return value


def _read(joint: str, key: str, text: str, count: int) -> list[float]:
    """The numbers of an attribute; what is larger than anything stands for no limit."""
    values = []
    try:
        for word in text.split():
            sign, size = (-1.0, word[1:]) if word[:1] == "-" else (1.0, word.removeprefix("+"))
            endless = size.lower() in ("inf", "infinity") or (size[:1].isdigit() and _endless(size))
            values.append(sign * math.inf if endless else number(word))
        if len(values) != count:
            raise InputError(f"has {len(values)} numbers: must have {count}")
    except InputError as error:
        raise ModelFileError(f": joint {joint}: {key} = {shown(text)}: {error}") from error
    return values


def _endless(word: str) -> bool:
    try:
        number(word)
    except InputError:
        return bool(re.fullmatch(r"[0-9.]{1,60}([eE][+]?[0-9]{1,3})?", word)) and float(word) > LARGEST
    return False


def _ordered(joint: str, lower: float, upper: float) -> None:
    if not lower <= upper:
        raise ModelFileError(f": joint {joint}: its lower limit, {lower:g}, is above its upper one, {upper:g}")


def urdf_notes(root: ElementTree.Element) -> list[str]:
    """Notes on the content of a URDF file that is not simulated."""
    others = Counter(child.tag for child in root if child.tag not in {"link", "joint", "material"})
    notes = [_times(f"<{tag}>", count) for tag, count in sorted(others.items())]
    names = [joint.get("name", "") for joint in root.findall("joint") if joint.find("safety_controller") is not None]
    if names:
        notes.append(f"<safety_controller> of {listed(names)}")
    planar = [j.get("name", "") for j in root.findall("joint") if j.get("type") in ("planar", "floating")]
    held = [
        name
        for name in planar
        for joint in root.findall("joint")
        if joint.get("name") == name and (joint.find("limit") is not None or joint.find("dynamics") is not None)
    ]
    if held:
        notes.append(f"limits and damping of {listed(held)}, which are neither hinges nor slides")
    return notes


# MJCF


def mjcf_notes(root: ElementTree.Element) -> list[str]:
    """Notes on the content of an MJCF file that is not simulated."""
    notes = []
    for section in root:
        if section.tag == "option":
            flags = sorted(set(section.attrib) - _NUMERICS) + [child.tag for child in section]
            notes += [f"<option {key}>" for key in flags]
        elif section.tag not in _APPEARANCE:
            count = len(section)
            notes.append(_times(f"<{section.tag}>", count) if count else f"<{section.tag}>")
    geoms = sorted({key for geom in root.iter("geom") for key in set(geom.attrib) & _CONTACT})
    if geoms:
        notes.append(f"{', '.join(geoms)} of geoms")
    soft = sorted({key for joint in root.iter("joint") for key in set(joint.attrib) & _SOFT})
    if soft:
        notes.append(f"{', '.join(soft)} of joints")
    equalities = [one for section in root.findall("equality") for one in section]
    if soft := sorted({key for one in equalities for key in set(one.attrib) & {"solref", "solimp"}}):
        notes.append(f"{', '.join(soft)} of equality constraints, which are exact here")
    if any("mocap" in body.attrib for body in root.iter("body")):
        notes.append("mocap of bodies")
    return sorted(set(notes), key=notes.index)


def _times(what: str, count: int) -> str:
    return what if count == 1 else f"{what} ({count})"


def check_leaders(leaders: Mapping[str, tuple[str, str]], known: Collection[str]) -> None:
    """Whether each joint that follows another one (<mimic>) can.

    Args:
        leaders: by the joints that follow: the joint that is followed, and where the file says so, for messages.
        known: the hinges and slides of the file.

    Raises:
        ModelFileError: one of both is no hinge or slide, or follows itself, be it by way of others.
    """
    for name, (leader, where) in leaders.items():
        others = [one for one in known if one != name]
        if name not in known:
            raise ModelFileError(f"{where}: must be of a hinge or slide{did_you_mean(name, others, 8)}")
        if leader not in others:
            itself = leader == name
            why = (
                "is the joint itself: must be another hinge or slide"
                if itself
                else "must be a hinge or slide of the file"
            )
            hint = did_you_mean("" if itself else leader, others, 8)
            raise ModelFileError(f"{where} joint = {shown(leader)}: {why}{hint}")
    for name, (leader, where) in leaders.items():
        path = [name, leader]
        while path[-1] in leaders and path[-1] not in path[:-1]:
            path.append(leaders[path[-1]][0])
        if path[-1] == name:
            circle = ", ".join(path[:-1])
            raise ModelFileError(
                f"{where} joint = {shown(leader)}: follows {name} in turn: take out <mimic> of one of {circle}"
            )


def listed(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"
