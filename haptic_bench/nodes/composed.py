"""Driver, controller and the tool's side, and a relay between them, in one process, with direct calls.

    composed driver [device_relay world_relay] controller environment|local_model --ros-args ...

The nodes are the same as in separate processes, with their own names, parameters and lifecycle; all topics are still
published.
"""

from __future__ import annotations

import itertools
import sys

from haptic_control.nodes.controller import ControllerNode
from haptic_control.nodes.relay import DeviceRelayNode, WorldRelayNode
from haptic_drivers.nodes.driver import DriverNode
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_sim.nodes.environment import EnvironmentNode
from haptic_sim.nodes.local_model import LocalModelNode

KINDS: dict[str, type[ServoNode]] = {
    kind.NAME: kind
    for kind in (DriverNode, DeviceRelayNode, WorldRelayNode, ControllerNode, EnvironmentNode, LocalModelNode)
}


def main() -> None:
    """Entry point of the process."""
    names = list(itertools.takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    if not names or not set(names) <= set(KINDS):
        sys.exit(f"composed: {' '.join(names) or 'nothing'}: must be of {', '.join(KINDS)}")
    run(*(KINDS[name] for name in names))


if __name__ == "__main__":
    main()
