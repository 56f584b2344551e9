"""A rod that holds its place by computed torque is pulled at its end and let go: it returns, or goes on.

While it is pulled with the force F it rests where K_p I a = F r cos(a): K_p times its inertia I about the hinge is the
stiffness that the hand feels. A rod that keeps its acceleration is turned freely, as (I + m r^2) a'' = F r cos(a), with
the mass m in the hand; after the pull it keeps the a'' of the pull's last step.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import Film, save_figure
from haptic_sim import World

LENGTH, MASS, FORCE, STIFFNESS = 0.5, 1.2, 2.0, 100.0  # m, kg, N, 1/s^2
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

rod = {
    "joint": "revolute",
    "axis": [0, 0, 1],
    "mass": MASS,
    "inertia": [1e-3, MASS * LENGTH**2 / 12, MASS * LENGTH**2 / 12],
    "centre_of_mass": [LENGTH / 2, 0, 0],
}
tip = {"joint": "free", "position": [LENGTH, 0, 0], "mass": 0.05, "inertia": [1e-5, 1e-5, 1e-5]}
stay = {
    "of": "rod",
    "trajectory": {"type": "joint_line", "to": [0.0], "duration": 1.0},
    "tracking": {"type": "computed_torque", "stiffness": STIFFNESS, "damping": 20.0},
}
curves = {}
for after, ends in (("return", 2.0), ("keep", 0.3)):
    world = World(
        {
            "gravity": [0, 0, 0],
            "bodies": {"rod": rod, "tip": tip},
            "tool": "tip",
            "motions": {"stay": stay | {"after_touch": after}},
            "pulls": {"grip": {"body": "rod", "grabs": [[0.0, ends]], "stiffness": 2000.0, "damping": 20.0}},
        }
    )
    times, angles, rates, film = [], [], [], Film(world)
    while world.time < 2.0 * ends:
        world.step([0, FORCE if world.time < ends else 0.0, 0, 0, 0, 0])
        film.take()
        times.append(world.time)
        angles.append(np.degrees(world.coordinates["rod"]))
        rates.append(world.velocities["rod"])
    last = round(1000 * ends) - 1
    bends = 1000 * np.diff(rates)
    print(
        f"{after}: {angles[last]:.3f} deg at the end of the pull, {angles[-1]:.3f} deg at last, {bends[-1]:.3f} rad/s^2"
    )
    curves[after] = (times, angles)
    if after == "return":
        film.save(folder / "pulled_rod_motion.svg", "A rod is pulled aside and returns")
save_figure(folder / "pulled_rod.svg", "A rod is pulled aside", curves, "time [s]", "angle [degrees]")
