"""Worlds and models of SDF documents (Gazebo)."""

from __future__ import annotations

from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_trees import FileTree, Meshes, ModelFileError
from haptic_sim.worlds.xml_files import Element


def load_sdf(source: ModelSource, root: Element, meshes: Meshes | None) -> tuple[list[FileTree], list[str]]:
    """The trees."""
    raise ModelFileError(": SDF")
