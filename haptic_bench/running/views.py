"""Configurations of RViz and Foxglove for the topics of a namespace."""

from __future__ import annotations

from pathlib import Path

from haptic_bench.catalogue import config_folder

RVIZ, FOXGLOVE = "system.rviz", "foxglove.json"
EXAMPLE = "corner_peg"  # namespace of the files in config/


def write_views(directory: Path, namespace: str) -> str:
    """Write both to a directory; the line that tells the user how to see the system.

    Args:
        directory: exists.
        namespace: of the topics, with the slash in front.
    """
    for file in (RVIZ, FOXGLOVE):
        text = (config_folder() / file).read_text(encoding="utf-8")
        (directory / file).write_text(text.replace(EXAMPLE, namespace.strip("/")), encoding="utf-8")
    name, rviz, foxglove = namespace.strip("/"), directory / RVIZ, directory / FOXGLOVE
    return f"to see {namespace}: haptics view {name}; or rviz2 -d {rviz}; or Foxglove with the layout {foxglove}"
