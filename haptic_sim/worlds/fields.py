"""Fields of a world, built from their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pinocchio as pin

from haptic_sim.fields.acting import Field
from haptic_sim.fields.distances import shape_numbers
from haptic_sim.fields.law import Drawn, FieldParameters
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.motions import body_joint


def build_fields(
    model: pin.Model,
    fields: Mapping[str, FieldParameters],
    *,
    hand: int,
    tool: str,
    centre: Callable[[str], np.ndarray],
    folder: Path,
    prefix: str = "",
) -> tuple[Field, ...]:
    """The fields of a world.

    Args:
        model: whose BODY frames are the bodies of the world.
        fields: parameters by name.
        hand: frame at the hold point of the tool, which is the body `tool`.
        centre: centre of mass of a body by its name, in the axes of its joint [m], (3,).
        folder: where the paths of meshes start from.
        prefix: what goes before the keys in messages.

    Raises:
        ParameterError: one line for each problem.
    """
    built, problems = [], []
    for name, given in fields.items():
        try:
            built.append(_build(model, name, given, hand, tool, centre, folder))
        except ParameterError as error:
            problems += [f"{prefix}fields.{name}{problem}" for problem in error.problems]
    if problems:
        raise ParameterError(problems)
    return tuple(built)


def _build(
    model: pin.Model,
    name: str,
    given: FieldParameters,
    hand: int,
    tool: str,
    centre: Callable[[str], np.ndarray],
    folder: Path,
) -> Field:
    law, title = type(given).LAW, tool if given.body is None else given.body
    if law is None:
        raise TypeError(f"{type(given).__name__}: has no LAW")
    joint, pose, _ = body_joint(model, title, ".body")
    if joint == 0:
        raise ParameterError([f".body = {title}: is fixed; must be a body that moves"])
    if given.at is not None:
        point = pose.act(np.array(given.at))
    else:
        point = model.frames[hand].placement.translation if given.body is None else centre(title)
    region, drawn = given.region, given.drawn()
    return Field(
        name=name,
        kind=given.type,
        title=title,
        joint=joint,
        point=np.array(point, float),
        law=law,
        keys=np.asarray(given.numbers(folder), float),
        region=np.zeros(0) if region is None else shape_numbers(region, folder, ".region", outside=False),
        edge=given.edge,
        active=given.active,
        fade=given.fade,
        stiffness=given.largest_stiffness,
        drawn=Drawn((*([] if region is None else [region]), *drawn.shapes), drawn.points),
    )
