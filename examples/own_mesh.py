"""A mesh of one's own in a world from a dictionary: a tetrahedron falls on an edge, tips over, and comes to rest.

A regular tetrahedron of side a has the volume a^3 / (6 sqrt 2), its centre of mass lies a / (2 sqrt 6) above its faces.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from haptic_bench import Film, save_figure
from haptic_sim import World

SIDE, DENSITY = 0.1, 1200.0  # m, kg/m^3
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

corners = SIDE / np.sqrt(8) * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
faces = [(1, 2, 3), (1, 4, 2), (1, 3, 4), (2, 4, 3)]
with tempfile.TemporaryDirectory() as directory:
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {a} {b} {c}" for a, b, c in faces]
    (Path(directory) / "tetrahedron.obj").write_text("\n".join(lines) + "\n")
    world = World(
        {
            "tool": "tetrahedron",
            "bodies": {
                "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
                "tetrahedron": {
                    "joint": "free",
                    "density": DENSITY,
                    "position": [0, 0, SIDE],
                    "rotation": [0.1, 0, 0],
                    "shapes": [{"type": "mesh", "path": "tetrahedron.obj"}],
                },
            },
        },
        contact={"friction": {"model": "coulomb", "static": 0.5, "kinetic": 0.5}},
        environment={"method": "constraint"},
        folder=directory,
    )
times, heights, loads = [], [], []
film = Film(world)
while world.time < 0.5:
    world.step()
    film.take()
    times.append(world.time)
    heights.append(world.bodies["tetrahedron"].position[2])
    loads.append(sum(contact.force[2] for contact in world.contacts))

film.save(folder / "own_mesh_motion.svg", "A tetrahedron falls and tips over")
print(
    f"rests {1e3 * heights[-1]:.3f} mm above the floor on {len(world.contacts)} contacts, which carry {loads[-1]:.4f} N"
)
level = np.full(len(times), 1e3 * SIDE / (2 * np.sqrt(6)))
curves = {"centre of mass": (times, 1e3 * np.array(heights)), "on a face": (times, level)}
save_figure(folder / "own_mesh.svg", "A tetrahedron falls and tips over", curves, "time [s]", "height [mm]")
