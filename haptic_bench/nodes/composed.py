"""Driver, controller and the tool's side in one process, with direct calls in the order of the tick.

    composed environment|local_model --ros-args ...

The nodes are the same as in separate processes, with their own names, parameters and lifecycle; all topics are still
published.
"""

from __future__ import annotations

import sys

from haptic_control.nodes.controller import ControllerNode
from haptic_drivers.nodes.driver import DriverNode
from haptic_ros.process import run
from haptic_ros.servo import ServoNode
from haptic_sim.nodes.environment import EnvironmentNode
from haptic_sim.nodes.local_model import LocalModelNode

TOOL_SIDES: dict[str, type[ServoNode]] = {"environment": EnvironmentNode, "local_model": LocalModelNode}


def main() -> None:
    """Entry point of the process."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TOOL_SIDES:
        sys.exit(f"composed: {name or 'nothing'}: must be one of {', '.join(TOOL_SIDES)}")
    run(DriverNode, ControllerNode, TOOL_SIDES[name])


if __name__ == "__main__":
    main()
