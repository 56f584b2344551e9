"""The URDF of a device with its <ros2_control> element, by name.

./haptics shell python -m haptic_bench.experiment.ros2_control touch [NAMESPACE]
"""

from __future__ import annotations

import sys

from haptic_bench.experiment.devices import read_device
from haptic_drivers.ros2_control import urdf
from haptic_sim.parameters import ParameterError


def main(arguments: list[str]) -> int:
    """Print the description of a device; the exit status."""
    if not 1 <= len(arguments) <= 2:
        print("give a name in config/devices, or the file of a device, and a namespace", file=sys.stderr)
        return 2
    try:
        print(urdf(read_device(arguments[0]), *arguments[1:]), end="")
    except ParameterError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
