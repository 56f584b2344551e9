"""A case in a process of its own: `python -m campaign.one PROBE NUMBER FOLDER` prints its outcome as JSON."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from campaign.cases import adopt


def main(probe: str, number: int, folder: Path) -> None:
    """Do a case."""
    adopt()
    outcome = importlib.import_module(f"campaign.{probe}").case(number, folder)
    print(json.dumps(outcome._asdict()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
