"""A peg is pushed against a wall: one world, three environments with a contact method each.

A constant force F moves the mass m over the gap g: the peg meets the wall at t = sqrt(2 m g / F). A penalty lets it
rest at a depth of F / K; rigid contact at none.
"""

import sys
from pathlib import Path

from haptic_bench import Film, save_figure
from haptic_sim import Environment, World
from haptic_sim.contact.response import ContactParameters

MASS, SIDE, GAP, FORCE, STIFFNESS = 2.0, 0.04, 0.03, 0.32, 4000.0  # kg, m, m, N, N/m
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

scene = {
    "planar": True,
    "gravity": [0, 0, 0],
    "tool": "peg",
    "bodies": {
        "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -(SIDE / 2 + GAP)}]},
        "peg": {"joint": "planar", "mass": MASS, "shapes": [{"type": "box", "size": [SIDE, SIDE, SIDE]}]},
    },
}
world = World(scene).start
contact = ContactParameters(stiffness=STIFFNESS, damping=30.0, per="wall")

curves = {}
for method in ("penalty", "impulse_augmented", "constraint"):
    environment = Environment(world, contact, method, rate=1000.0)
    times, depths, touched = [], [], None
    while environment.time < 4.0:
        tool = environment.advance([FORCE, 0, 0, 0, 0, 0])
        if touched is None and environment.contacts:
            touched = environment.time
        times.append(environment.time)
        depths.append(tool.pose[0] - GAP)
    print(
        f"{method}: touches at {touched:.3f} s, deepest {1e6 * max(depths):.1f} um, rests at {1e6 * depths[-1]:.1f} um"
    )
    curves[method] = (times, [1e3 * depth for depth in depths])

save_figure(folder / "peg_at_wall.svg", "A peg meets a wall", curves, "time [s]", "depth in the wall [mm]")

pushed = World(scene, contact=contact.model_dump(), environment={"method": "penalty"})
film = Film(pushed)
while pushed.time < 3.0:
    pushed.step([FORCE, 0, 0, 0, 0, 0])
    film.take()
film.save(folder / "peg_at_wall_motion.svg", "A peg is pushed against a wall")
