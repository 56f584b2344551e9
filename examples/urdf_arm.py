"""An arm from a URDF file hangs from the ceiling and is pushed sideways at its end.

It comes to rest where the torques of force and weight cancel: each link at the angle tan a = F / (W g) from the
vertical, with W the mass below it and half of its own (uniform links). With its weight balanced it stays where it is
bent to, as an arm does whose drives hold it.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import Film, save_figure
from haptic_sim import World

FORCE = 8.0  # N
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

scene = {
    "tool": "arm/lower",
    "hold": [0, 0, -0.4],  # the end of the lower link
    "files": {"arm": {"path": "arm.urdf"}},
}
world = World(scene, folder=Path(__file__).parent, rate=1000.0)
times, shoulder, lower = [], [], []
film = Film(world)
while world.time < 8.0:
    world.step([FORCE, 0, 0, 0, 0, 0])
    film.take()
    first, second = world.coordinates.values()
    times.append(world.time)
    shoulder.append(np.degrees(first))
    lower.append(np.degrees(first + second))
film.save(folder / "urdf_arm_motion.svg", "An arm is pushed sideways with 8 N")

print(f"the upper link rests at {shoulder[-1]:.3f} deg, the lower one at {lower[-1]:.3f} deg from the vertical")

balanced = World({**scene, "gravity_compensation": True}, folder=Path(__file__).parent, rate=1000.0)
balanced.reset(bent := dict(zip(balanced.coordinates, (0.8, 0.5), strict=True)))
while balanced.time < 1.0:
    balanced.step()
drift = max(abs(balanced.coordinates[name] - angle) for name, angle in bent.items())
print(f"without its weight it drifts by {np.degrees(drift):.3f} deg in a second")

curves = {"upper link": (times, shoulder), "lower link": (times, lower)}
save_figure(
    folder / "urdf_arm.svg",
    "An arm is pushed sideways with 8 N",
    curves,
    "time [s]",
    "angle from the vertical [degrees]",
)
