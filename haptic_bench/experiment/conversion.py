"""Files of robots and worlds as experiments that can be edited: a YAML file, and meshes beside it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from haptic_bench.experiment.loading import name_of
from haptic_bench.experiment.system import VIEWED, find_world_file
from haptic_sim.geometry.mesh_files import MeshError
from haptic_sim.parameters import ParameterError
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.building import build
from haptic_sim.worlds.conversion import Converted, convert, mesh_text
from haptic_sim.worlds.file_trees import Meshes, ModelFileError
from haptic_sim.worlds.model_files import last_link, load_trees
from haptic_sim.worlds.parameters import FileParameters, WorldParameters

ANY_OVERLAP = 1e6  # [m]


class Conversion(NamedTuple):
    """Result of the conversion of a file.

    Attributes:
        document: an experiment.
        meshes: texts of mesh files, by their names beside it.
        notes: what the file says that is not simulated.
    """

    document: dict[str, Any]
    meshes: dict[str, str]
    notes: tuple[str, ...]

    def text(self, source: str) -> str:
        """The experiment's file; `source`: what it was converted from."""
        head = [f"# Converted from {source}.", *(f"# Not simulated: {note}" for note in self.notes)]
        body = yaml.safe_dump(self.document, sort_keys=False, default_flow_style=None, width=120)
        return "\n".join([*head, body])


def convert_file(
    world: str, out: Path, *, args: Mapping[str, str] | None = None, packages: tuple[str, ...] = (),
    meshes: Meshes = "either", error: float | None = None,
) -> Conversion:  # fmt: skip
    """The experiment of a model file, to be written to `out`.

    Args:
        world: the file, or the name of one of `config/worlds`.
        out: the YAML file; its meshes go to a folder beside it.
        args: of a xacro file.
        packages: folders in which packages are looked for first.
        meshes, error: how meshes are taken, see `FileParameters`.

    Raises:
        ParameterError: it cannot be read or converted; one line for each problem.
    """
    path = find_world_file(world)
    source = ModelSource(path, dict(args or {}), tuple(map(Path, packages)))
    folder = f"{out.stem}_meshes"
    try:
        trees, unread = load_trees(source, meshes, error)
        held = last_link(source)
        converted = convert(trees, folder)
    except ModelFileError as refusal:
        raise ParameterError([f"{path}{problem}" for problem in refusal.problems]) from refusal
    if not held:
        raise ParameterError([f"{path}: none of its links moves; there is nothing to hold"])
    texts = {f"{folder}/{name}": "\n".join(mesh_text(*mesh)) + "\n" for name, mesh in converted.meshes.items()}
    scene = {**converted.scene, "tool": converted.names[held], "gravity_compensation": True}
    file = FileParameters(path=str(path), args=dict(args or {}), packages=packages, meshes=meshes, error=error)
    scene = _with_ignored(scene, converted, held, file, texts)
    document = {
        "name": name_of(out),
        "rate": 1000.0,
        **VIEWED,
        "scene": scene,
        "contact": {"friction": {"model": "coulomb"}},
        "environment": {"method": "constraint"},
    }
    # Pinocchio has the largest number where a file of SDF gives no limit
    limited = any((tree.model.upperEffortLimit < np.finfo(float).max).any() for tree in trees)
    return Conversion(document, texts, (*unread, *(["limits of the forces of drives"] if limited else [])))


def _with_ignored(
    scene: dict[str, Any], converted: Converted, held: str, file: FileParameters, texts: Mapping[str, str]
) -> dict[str, Any]:
    """The scene with those pairs that do not collide in the file's world, as links that overlap in it."""
    loose = {"allowed_overlap": ANY_OVERLAP}
    original = WorldParameters(files={"f": file}, tool=f"f/{held}")
    with tempfile.TemporaryDirectory(prefix="haptics-convert-") as scratch:
        for name, text in texts.items():
            place = Path(scratch, name)
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
        try:
            ours = build(WorldParameters.model_validate({**scene, **loose}), Path(scratch))
        except MeshError as error:
            raise ParameterError([f"meshes: {error}"]) from error
    theirs = build(original, Path(os.curdir))
    known = {frozenset(converted.names[name.removeprefix("f/")] for name in pair) for pair in theirs.touching}
    ignored = {tuple(sorted(pair)) for pair in ours.touching if frozenset(pair) not in known}
    return scene | ({"ignore": [list(pair) for pair in sorted(ignored)]} if ignored else {})
