"""A node of one's own beside the graph of a trial (needs ROS 2; in a checkout: `./haptics shell python own_node.py`).

It listens to the device of corner_peg for a second, shows how its speed grows, and ends the trial. The walls are far
away: hand and tool are pushed side by side, each of 2 kg with 0.32 N, so the acceleration is F / m.
"""

import signal
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
    lambda state: rows.append((state.tick, state.twist.linear.x)),
    qos,
)
command = "-m haptic_bench run corner_peg --mode lockstep --duration 3000 --quiet --set scene.gap=[1e3,1e3]"
arguments = [*command.split(), "--namespace", namespace, "--out", str(folder / "own_node_trial")]
trial = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
while len(rows) < 512 and trial.poll() is None:
    rclpy.spin_once(node, timeout_sec=0.1)
trial.send_signal(signal.SIGINT)
rclpy.shutdown()
if trial.wait() != 130 or not rows:  # that of an interrupted program
    sys.exit(f"own_node: the trial ended by itself, with {trial.returncode}; {len(rows)} messages were heard")

tick, speed = np.array(rows).T
time = tick / 512.0
acceleration = np.polyfit(time, speed, 1)[0]
print(f"{len(rows)} messages from {time[0]:.1f} s on, acceleration {acceleration:.4f} m/s^2")
ends = time[[0, -1]]
curves = {"measured by the node": (time, 1e3 * speed), "F t / m": (ends, 1e3 * 0.32 / 2.0 * ends)}
save_figure(folder / "own_node.svg", "Speed of the hand", curves, "time [s]", "speed [mm/s]", points=["F t / m"])
