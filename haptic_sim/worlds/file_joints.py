"""Joint properties in URDF and MJCF files, and the content of these files that is not simulated.

Pinocchio reads limits, damping and friction too, but of MJCF not all as MuJoCo does (4.1 takes the range of a slide for
degrees, and uses one that `limited` switches off), and it does not read springs. So they are read here.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.inputs import LARGEST, InputError, number, shown

_APPEARANCE = {"material", "visual", "statistic", "custom", "asset", "default", "compiler", "worldbody", "size"}
_CONTACT = {"contype", "conaffinity", "condim", "friction", "solref", "solimp", "solmix", "margin", "gap", "priority"}
_SOFT = {"solreflimit", "solimplimit", "solreffriction", "solimpfriction", "margin", "springdamper"}
_NUMERICS = {"timestep", "integrator", "cone", "jacobian", "solver", "iterations", "tolerance", "impratio", "apirate"}
_NUMERICS |= {f"{kind}_iterations" for kind in ("ls", "noslip", "mpr", "ccd", "sdf")}
_NUMERICS |= {f"{kind}_tolerance" for kind in ("ls", "noslip", "mpr", "ccd")}


class ModelFileError(ValueError):
    """A file that cannot be used; `problems` holds one reason a line, each to go after the name of the file."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


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
    """The same with their places in the model of the file."""
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
    """What a URDF file says that is not simulated."""
    others = Counter(child.tag for child in root if child.tag not in {"link", "joint", "material"})
    notes = [_times(f"<{tag}>", count) for tag, count in sorted(others.items())]
    for tag, what in (("mimic", "<mimic>"), ("safety_controller", "<safety_controller>")):
        names = [joint.get("name", "") for joint in root.findall("joint") if joint.find(tag) is not None]
        if names:
            notes.append(f"{what} of {_list(names)}")
    planar = [j.get("name", "") for j in root.findall("joint") if j.get("type") in ("planar", "floating")]
    held = [
        name
        for name in planar
        for joint in root.findall("joint")
        if joint.get("name") == name and (joint.find("limit") is not None or joint.find("dynamics") is not None)
    ]
    if held:
        notes.append(f"limits and damping of {_list(held)}, which are no hinges or slides")
    return notes


# MJCF


def _defaults(root: ElementTree.Element) -> dict[str, dict[str, str]]:
    """Attributes that joints have by default, by class."""
    classes: dict[str, dict[str, str]] = {"main": {}}
    stack = [(section, "main") for section in reversed(root.findall("default"))]
    while stack:
        section, parent = stack.pop()
        name = section.get("class") or "main"
        given = classes.setdefault(name, dict(classes[parent]) if name != parent else {})
        for joint in section.findall("joint"):
            given.update(joint.attrib)
        stack += [(child, name) for child in reversed(section.findall("default"))]
    return classes


def _joints(root: ElementTree.Element) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Name and joints of each body, the attributes of these with their defaults."""
    classes = _defaults(root)
    stack = [(world, "main") for world in reversed(root.findall("worldbody"))]
    while stack:
        body, inherited = stack.pop()
        inherited = body.get("childclass") or inherited
        joints = []
        for joint in body:
            if joint.tag == "joint":
                defaults = classes.get(joint.get("class") or inherited, {})
                joints.append({**defaults, **joint.attrib})
            elif joint.tag == "freejoint":
                joints.append({"type": "free", "name": joint.get("name", "")})
        yield body.get("name", ""), joints
        stack += [(child, inherited) for child in reversed(body.findall("body"))]


def mjcf_laws(root: ElementTree.Element, model: pin.Model) -> tuple[JointLaw, ...]:
    """The laws of an MJCF document's joints; gives `model` their armature too, and takes efforts that do not count.

    Raises:
        ModelFileError: a lower limit above the upper one, or a negative coefficient.
    """
    compiler = {key: value for element in root.findall("compiler") for key, value in element.attrib.items()}
    turn = math.radians(1.0) if compiler.get("angle", "degree") == "degree" else 1.0
    automatic = compiler.get("autolimits", "true") == "true"
    laws = []
    for body, joints in _joints(root):
        if not joints or not model.existBodyName(body):
            continue
        number = model.frames[model.getBodyId(body)].parentJoint
        q, v = model.idx_qs[number], model.idx_vs[number]
        for joint in joints:
            kind = joint.get("type", "hinge")
            if kind == "free":
                continue
            name = joint.get("name", "")
            size = 3 if kind == "ball" else 1
            single = kind in ("hinge", "slide")
            unit = turn if kind == "hinge" else 1.0
            lower, upper = _range(name, joint, automatic) if single else (-math.inf, math.inf)
            stiffness, reference, damping, friction, armature = (
                _value(name, joint, key) for key in ("stiffness", "springref", "damping", "frictionloss", "armature")
            )
            model.armature[v : v + size] = armature
            limited = joint.get("actuatorfrclimited", "auto")
            if limited == "false" or (limited == "auto" and not automatic):  # which Pinocchio does not look at
                model.lowerEffortLimit[v : v + size], model.upperEffortLimit[v : v + size] = -math.inf, math.inf
            for i in range(size):
                laws.append(
                    JointLaw(
                        name,
                        velocity=v + i,
                        position=q if single else -1,
                        lower=unit * lower,
                        upper=unit * upper,
                        damping=damping,
                        friction=friction,
                        stiffness=stiffness if single else 0.0,
                        reference=unit * reference,
                    )
                )
            q, v = q + (4 if kind == "ball" else 1), v + size
    return tuple(law for law in laws if not law.idle)


def _value(name: str, joint: dict[str, str], key: str) -> float:
    (value,) = _read(name, key, joint.get(key, "0"), 1)
    if not abs(value) < math.inf:
        raise ModelFileError(f": joint {name}: {key} = {joint[key]}: must be finite")
    if key != "springref" and not value >= 0.0:
        raise ModelFileError(f": joint {name}: {key} = {value:g}: must be >= 0")
    return value


def _range(name: str, joint: dict[str, str], automatic: bool) -> tuple[float, float]:
    """The range of a joint as written; infinite if it is not limited."""
    limited = joint.get("limited", "auto")
    if limited not in ("true", "false", "auto"):
        raise ModelFileError(f": joint {name}: limited = {limited}: must be true, false or auto")
    values = _read(name, "range", joint.get("range", "0 0"), 2)
    if limited == "false" or (limited == "auto" and (not automatic or values == [0.0, 0.0])):
        return -math.inf, math.inf
    _ordered(name, *values)
    return values[0], values[1]


def mjcf_notes(root: ElementTree.Element) -> list[str]:
    """What an MJCF file says that is not simulated."""
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
    joints = [joint for _, some in _joints(root) for joint in some]
    soft = sorted({key for joint in joints for key in set(joint) & _SOFT})
    if soft:
        notes.append(f"{', '.join(soft)} of joints")
    balls = [j.get("name", "") for j in joints if j.get("type") == "ball" and ("range" in j or "stiffness" in j)]
    if balls:
        notes.append(f"limits and springs of ball joints {_list(balls)}")
    free = [j for j in joints if j.get("type") == "free" and {"damping", "frictionloss", "armature"} & set(j)]
    if free:
        notes.append("damping, friction and armature of free bodies")
    bodies = sorted({key for body in root.iter("body") for key in {"gravcomp", "mocap"} & set(body.attrib)})
    if bodies:
        notes.append(f"{', '.join(bodies)} of bodies")
    return sorted(set(notes), key=notes.index)


def _times(what: str, count: int) -> str:
    return what if count == 1 else f"{what} ({count})"


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"
