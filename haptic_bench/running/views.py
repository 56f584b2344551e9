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
    for name in (RVIZ, FOXGLOVE):
        text = (config_folder() / name).read_text(encoding="utf-8")
        (directory / name).write_text(text.replace(EXAMPLE, namespace.strip("/")), encoding="utf-8")
    return (
        f"to see {namespace}: haptics view {namespace.strip('/')}; or rviz2 -d {directory / RVIZ}; or Foxglove with the "
        f"layout {directory / FOXGLOVE}"
    )
