"""A publisher of /clock whose time leaps to and fro, until it is killed.

python -m campaign.leaps NUMBER
"""

from __future__ import annotations

import sys
import time

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from rosgraph_msgs.msg import Clock

from haptic_ros.middleware.context import initialise


def main(number: int) -> None:
    """Publish leaping times."""
    rng = np.random.default_rng([8, number])
    initialise(())
    publisher = rclpy.create_node("leaps").create_publisher(Clock, "/clock", 10)
    while True:
        publisher.publish(Clock(clock=Time(sec=int(rng.integers(0, 1 << 31)), nanosec=int(rng.integers(0, 10**9)))))
        time.sleep(0.001)


if __name__ == "__main__":
    main(int(sys.argv[1]))
