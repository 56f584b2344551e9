"""A hand at a wall, through a controller of the program's own: the closed loop from parts, without a file.

The operator pushes the device with the force F sin^2(w t). The controller couples device and tool by a spring k and a
damper, as an object with two methods. At the peak the tool is F / K in the wall, and the device F / k ahead of it.
"""

import math
import sys
from pathlib import Path

from haptic_bench import Loop, save_figure
from haptic_drivers.inertial import InertialParameters
from haptic_sim import Model
from haptic_sim.messages import FORCE

STIFFNESS, WALL, PUSH, PERIOD, GAP = 400.0, 4000.0, 2.0, 8.0, 0.01  # N/m, N/m, N, s, m
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
scene = {
    "planar": True,
    "gravity": [0, 0, 0],
    "tool": "peg",
    "bodies": {
        "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -(0.02 + GAP)}]},
        "peg": {"joint": "planar", "mass": 0.5, "shapes": [{"type": "box", "size": [0.04, 0.04, 0.04]}]},
    },
}


class SpringAndDamper:
    def coordinate(self, device, tool, command):  # the tool's command, before it moves
        self.force = STIFFNESS * (device.pose[:3] - tool.pose[:3]) + 10.0 * (device.twist[:3] - tool.twist[:3])
        command.stamp(device.tick, device.nanoseconds)
        command.tool_tick = tool.tick
        command.wrench[:3] = self.force

    def command(self, tool, command):  # the device's, when it has moved
        command.stamp(tool.tick, tool.nanoseconds)
        command.device_tick, command.mode = tool.tick, FORCE
        command.wrench[:3] = -self.force


loop = Loop(
    world=Model(scene, contact={"stiffness": WALL, "damping": 60.0, "per": "wall"}, environment={"method": "penalty"}),
    device=InertialParameters(mass=0.3, inertia=1e-3, damping=(5.0, 0.01)),
    controller=SpringAndDamper(),
    operator=lambda time, pose, twist: [PUSH * math.sin(math.pi * time / PERIOD) ** 2, 0, 0, 0, 0, 0],
    rate=2000.0,
)
times, hand, tool = [], [], []
while loop.time < PERIOD / 2:
    loop.step()
    times.append(loop.time)
    hand.append(1e3 * (loop.device.pose[0] - GAP))
    tool.append(1e3 * (loop.tool.pose[0] - GAP))
print(f"tool in the wall by {tool[-1]:.3f} mm, hand ahead of it by {hand[-1] - tool[-1]:.3f} mm")
print(f"felt force {-loop.command.wrench[0]:.3f} N")
curves = {"hand": (times, hand), "tool": (times, tool)}
save_figure(folder / "own_loop.svg", "A hand pushes a tool into a wall", curves, "time [s]", "depth in the wall [mm]")
