"""The energy of a bouncing ball: what is there, and where it went.

A ball with restitution e that is dropped from the height h rebounds to e^2 h. In every step
kinetic + potential + elastic = their sum at the start + injected - damping - friction - impact + numerical.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import Film, save_figure
from haptic_sim import World

MASS, RADIUS, HEIGHT, RESTITUTION = 0.2, 0.05, 0.4, 0.8  # kg, m, m
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

scene = {
    "tool": "ball",
    "bodies": {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
        "ball": {
            "joint": "free",
            "mass": MASS,
            "position": [0, 0, RADIUS + HEIGHT],
            "shapes": [{"type": "sphere", "radius": RADIUS}],
        },
    },
}
world = World(scene, contact={"restitution": RESTITUTION}, environment={"method": "hybrid"}, rate=2000.0)
times, heights, energies = [], [], []
film = Film(world)
while world.time < 2.0:
    world.step()
    film.take()
    times.append(world.time)
    heights.append(world.bodies["ball"].position[2] - RADIUS)
    energies.append(world.energy)
film.save(folder / "bouncing_ball_motion.svg", "A ball bounces")

energy = {name: np.array([one[name] for one in energies]) for name in energies[0]}
heights = np.array(heights)
tops = [h for before, h, after in zip(heights, heights[1:], heights[2:], strict=False) if before < h >= after]
print("rebounds to " + ", ".join(f"{top:.4f}" for top in tops[:3]) + " m")
taken = energy["impact"][np.flatnonzero(energy["impact"])[1]]
print(f"the first impact takes {1e3 * taken:.2f} mJ; the numerical energy is {1e3 * energy['numerical'][-1]:.3f} mJ")
curves = {
    "kinetic": (times, 1e3 * energy["kinetic"]),
    "potential, from rest on the floor": (times, 1e3 * MASS * 9.81 * heights),
    "lost in impacts": (times, 1e3 * energy["impact"]),
}
save_figure(folder / "bouncing_ball.svg", "Where the energy of a bouncing ball is", curves, "time [s]", "energy [mJ]")
