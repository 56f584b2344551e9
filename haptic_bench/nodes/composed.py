"""Driver, controller and the tool's side, and a relay between them, in one process, with direct calls.

    composed driver [device_relay world_relay] controller environment|local_model --ros-args ...

The nodes are the same as in separate processes, with their own names, parameters and lifecycle; all topics are still
published.
"""

from __future__ import annotations

import itertools
import pkgutil
import sys

from haptic_ros.graph import ROLES
from haptic_ros.process import answer_help, run
from haptic_ros.servo import ServoNode

KINDS: dict[str, type[ServoNode]] = {
    name: pkgutil.resolve_name(role.node) for name, role in ROLES.items() if role.composed
}


def main() -> None:
    """Entry point of the process."""
    answer_help("composed NODE...", __doc__)
    names = list(itertools.takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    if not names or not set(names) <= set(KINDS):
        sys.exit(f"composed: {' '.join(names) or 'nothing'}: must be of {', '.join(KINDS)}")
    run(*(KINDS[name] for name in names))


if __name__ == "__main__":
    main()
