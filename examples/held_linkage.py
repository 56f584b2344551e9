"""A linkage of two rods is held by its end, or by the middle of its first rod: what mass does the hand feel?

Along the direction n it is 1 / (n . A n). The hand's mobility A (inverse operational-space inertia) is measured: from
rest, without gravity, one step with the force f changes the velocity of the hand by A f h.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import Film, save_figure
from haptic_sim import World

LENGTH, MASS, RATE = 1.0, 1.0, 20000.0  # m, kg, Hz
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

rod = {
    "joint": "revolute",
    "axis": [0, 0, 1],
    "mass": MASS,
    "inertia": [1e-4, MASS * LENGTH**2 / 12, MASS * LENGTH**2 / 12],
    "centre_of_mass": [LENGTH / 2, 0, 0],
}
bodies = {
    "first": rod | {"angle": np.pi / 4},
    "second": rod | {"parent": "first", "position": [LENGTH, 0, 0], "angle": np.pi / 3},
}
holds = {"end of the second rod": ("second", LENGTH), "middle of the first rod": ("first", LENGTH / 2)}

directions = np.linspace(0.0, 2.0 * np.pi, 721)
n = np.array([np.cos(directions), np.sin(directions)])
curves = {}
for label, (link, at) in holds.items():
    scene = {"planar": True, "gravity": [0, 0, 0], "tool": link, "hold": [at, 0, 0], "bodies": bodies}
    mobility = np.zeros((2, 2))
    for axis in range(2):
        world = World(scene, rate=RATE)
        world.step(np.eye(6)[axis])
        mobility[:, axis] = world.twist[:2] * RATE
    across = np.maximum(np.einsum("in,ij,jn->n", n, mobility, n), 1e-9)
    felt = np.where(across > 1 / 6.0, 1.0 / across, np.nan)  # without bound where the linkage blocks the hand
    print(f"{label}: mobility {mobility.round(4).tolist()} 1/kg")
    curves[label] = tuple(felt * n)

film = Film(world := World(scene | {"tool": "second", "hold": [LENGTH, 0, 0]}))
while world.time < 1.0:
    world.step([1, 0, 0, 0, 0, 0])
    film.take()
film.save(folder / "held_linkage_motion.svg", "A linkage is pulled by its end, with 1 N to the right")
title = "Mass that the hand feels, by the direction of its pull"
save_figure(folder / "held_linkage.svg", title, curves, "along x [kg]", "along y [kg]", equal=True)
