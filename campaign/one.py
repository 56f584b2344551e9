"""A case in a process of its own: `python -m campaign.one PROBE NUMBER FOLDER` prints its outcome as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from campaign.cases import adopt


def main(probe: str, number: int, folder: Path) -> None:
    """Do a case, whose programs find each other on this machine alone."""
    module = importlib.import_module(f"campaign.{probe}")
    if hasattr(module, "warm"):  # its programs are forks of this process, from before it has a thread
        module.warm()
    else:
        adopt()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    print(json.dumps(module.case(number, folder)._asdict()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
