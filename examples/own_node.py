"""A node of one's own beside the graph of a trial (needs ROS 2; in a checkout: `./haptics shell python own_node.py`).

It listens to the device of corner_peg and shows how its speed grows. Until the peg meets the wall, hand and tool are
pushed side by side, each of 2 kg with 0.32 N: the acceleration is F / m.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import rclpy
from haptics.msg import DeviceState
from rclpy.qos import QoSProfile, ReliabilityPolicy

from haptic_bench import save_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
namespace = f"own_node_{np.random.default_rng().integers(1_000_000)}"
rows = []

rclpy.init()
node = rclpy.create_node("listener")
qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
node.create_subscription(
    DeviceState,
    f"/{namespace}/device_state",
    lambda state: rows.append((state.tick, state.pose.position.x, state.twist.linear.x)),
    qos,
)
command = "-m haptic_bench run corner_peg --mode lockstep --duration 1 --quiet"
arguments = [*command.split(), "--namespace", namespace, "--out", str(folder / "own_node_trial")]
trial = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
while trial.poll() is None:
    rclpy.spin_once(node, timeout_sec=0.1)
rclpy.shutdown()

tick, position, speed = np.array(rows).T
time = tick / 512.0
free = (time > 0.1) & (time < 0.6)
acceleration = np.polyfit(time[free], speed[free], 1)[0]
print(f"trial ended with {trial.returncode}; {len(rows)} messages, acceleration {acceleration:.4f} m/s^2")
every = np.arange(0.0, 0.61, 0.05)
curves = {"measured by the node": (time, 1e3 * speed), "F t / m": (every, 1e3 * 0.32 / 2.0 * every)}
title = "Speed of the hand, which meets a wall"
save_figure(folder / "own_node.svg", title, curves, "time [s]", "speed [mm/s]", points=["F t / m"])
