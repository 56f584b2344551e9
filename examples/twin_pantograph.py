"""The twin pantograph of THESIS D.1: its links, where its handle may be, and what its motors make there."""

import math
import sys
from pathlib import Path

import numpy as np

from haptic_bench import save_figure
from haptic_drivers.pantograph import Pantograph, PantographParameters
from haptic_sim.dynamics.pantograph import Linkage, close_loops

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
device = PantographParameters(shaped=False)
p, linkage = device.linkage, Linkage.of(device.linkage)

one = Pantograph(device, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
most = 1.0 / np.abs(one.drive[:, [0, 1, 5]]).max(axis=0)
print(f"peak along y {most[1]:.2f} N, along x {most[0]:.2f} N, about z {most[2]:.3f} N m")
print(f"peak acceleration at half the current {0.5 * most[1] / one.inertia()[1, 1] / 9.81:.2f} g")

turns = np.linspace(0.0, 2.0 * math.pi, 73)


def reaches(x: float, y: float) -> bool:
    """Whether the handle can be there at every angle."""
    return all(close_loops(linkage, np.array([x, y, turn])) == 0 for turn in turns)


edge = []
for direction in turns:
    steps = (r for r in np.arange(0.0, 0.2, 0.001) if not reaches(r * math.cos(direction), r * math.sin(direction)))
    edge.append(next(steps) - 0.001)
print(f"every angle within {1e3 * min(edge):.0f} mm of the middle")


def links(x: float, y: float, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """All links as one line [mm], which goes over some of them twice."""
    assert close_loops(linkage, np.array([x, y, angle])) == 0
    elbows = linkage.bases + p.proximal_length * linkage.u
    ends = np.array([x, y]) + linkage.r
    line = [linkage.bases[1], elbows[1], ends[0], elbows[0], linkage.bases[0], elbows[0], ends[0]]
    line += [ends[1], elbows[3], linkage.bases[3], elbows[3], ends[1], elbows[2], linkage.bases[2]]
    return tuple(1e3 * np.array(line).T)


around = np.array(
    [[r * math.cos(direction), r * math.sin(direction)] for r, direction in zip(edge, turns, strict=True)]
)
curves = {
    "in the middle": links(0.0, 0.0, 0.0),
    "at (30, \u221260) mm, turned by 120\u00b0": links(0.03, -0.06, math.radians(120.0)),
    "every angle within": tuple(1e3 * around.T),
    "motors": tuple(1e3 * linkage.bases.T),
}
title = "The twin pantograph from above"
save_figure(folder / "twin_pantograph.svg", title, curves, "x [mm]", "y [mm]", points=["motors"], equal=True)
