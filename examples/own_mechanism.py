"""A mechanism of one's own, as formulas: a bead on a rotating hoop, and where it comes to rest.

The hoop of radius r turns about its vertical diameter at w. Below sqrt(g / r) the bead stays at the bottom; above it
climbs to cos(theta) = g / (r w^2). Nothing is derived by hand: the equations of motion come from the energies.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import save_figure
from haptic_sim.constraints import System

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
r, g = 0.1, 9.81
curves = {}
for ratio in (0.8, 1.2, 2.0):
    w = ratio * np.sqrt(g / r)
    hoop = System.from_formulas(
        ["x", "y", "z"],  # in the axes of the hoop, which turns: its centrifugal force is a potential
        "m*(x_dot**2 + y_dot**2 + z_dot**2)/2",
        parameters={"m": 0.05, "g": g, "r": r, "w": w, "b": 0.1},
        potential="m*g*z - m*w**2*x**2/2",
        forces={"x": "-b*x_dot", "z": "-b*z_dot"},
        positions=["(x**2 + z**2 - r**2)/(2*r)", "y"],
        hand={"position": ["x", "y", "z"]},
        start={"x": "r*sin(0.05)", "z": "-r*cos(0.05)"},
    )
    angles = []
    for _ in range(8000):
        hoop.step()
        angles.append(np.degrees(np.arctan2(hoop.q[0], -hoop.q[2])))
    rest = np.degrees(np.arccos(min(1.0, g / (r * w**2))))
    print(f"hoop at {ratio:.1f} sqrt(g / r): the bead rests at {angles[-1]:.2f} degrees, {rest:.2f} by the closed form")
    curves[f"{ratio:.1f} sqrt(g / r)"] = (1e-3 * np.arange(8000), np.array(angles))

save_figure(folder / "own_mechanism.svg", "Bead on a rotating hoop", curves, "time [s]", "angle from the bottom [deg]")
