"""Experiments that stand in the documentation."""

from __future__ import annotations

import re
from pathlib import Path


def write_documented(document: Path, name: str, folder: Path) -> None:
    """Write the experiment of this name that a page of the documentation shows into a folder, as NAME.yaml."""
    found = re.search(rf"```yaml\n(name: {name}\n.*?)```", document.read_text(), re.DOTALL)
    assert found is not None
    (folder / f"{name}.yaml").write_text(found[1])
