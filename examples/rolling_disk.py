"""A disk rolls without slip, and parks sideways (FAULRING III-A).

The point of contact does not move: v + w x (0, 0, -r) = 0. So speed and heading alone tell where the disk is, although
it reaches places that it cannot move to directly.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import run, save_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

trial = run("rolling_disk")
radius = trial.experiment.scene.radius
time, position, twist = trial.samples["time"], trial.samples.pose("tool")[:, :2], trial.samples.twist("tool")

slip = np.hypot(twist[:, 0] - radius * twist[:, 4], twist[:, 1] + radius * twist[:, 3])
start = trial.experiment.scene.start[2]  # heading [rad]
aside = (position - position[0]) @ [-np.sin(start), np.cos(start)]

# Dead reckoning: the path from the spin and the rate of turning alone, by the trapezoidal rule.
step = np.diff(time)
turned = np.concatenate([[0.0], np.cumsum(0.5 * step * (twist[1:, 5] + twist[:-1, 5]))])
ahead = np.array([np.cos(start + turned), np.sin(start + turned)])
speed = radius * (-ahead[1] * twist[:, 3] + ahead[0] * twist[:, 4])  # the spin is about the axle
rate = (speed * ahead).T
reckoned = np.vstack([np.zeros((1, 2)), np.cumsum(0.5 * step[:, None] * (rate[1:] + rate[:-1]), axis=0)]) + position[0]

print(f"largest slip {slip.max():.2e} m/s at up to {np.hypot(*twist[:, :2].T).max():.3f} m/s")
print(f"parked {1e3 * aside[-1]:.2f} mm beside the start")
print(f"dead reckoning ends {1e6 * np.linalg.norm(reckoned[-1] - position[-1]):.3f} um from the disk")
curves = {
    "simulated": tuple(1e3 * position.T),
    "from rolling and turning alone": tuple(1e3 * reckoned[::250].T),
}
title, points = "A disk parks sideways, from above", ["from rolling and turning alone"]
save_figure(folder / "rolling_disk.svg", title, curves, "x [mm]", "y [mm]", points=points, equal=True)
