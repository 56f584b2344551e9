"""Objects on springs that are too fast for the updates of an environment, with which kinematic constraints are active.

Between two updates a kinematic constraint goes on with the object's velocity, though its spring stops and returns it.
An update acts until the next one comes, a period and a delay after the state that it was made of. What is felt then
gives energy if the object turns round in that time: with a spring k and a mass m at its joint,

    sqrt(k/m) (period + delay) > FASTEST

A button of 0.05 kg on 200 N/m, pressed at 0.07 m/s by an arm of 200 N/m that holds a tool of 0.05 kg, gave the hand 3.2
J in 3 s with 2.1 rad, 5.9 J with 1.05, 0.3 J with 0.5 rad, and none with 0.25. Dynamic constraints are felt softer, and
gave none there; they are not passive either: a mass of 0.5 kg gave up to 0.14 J at 60 Hz.
"""

from __future__ import annotations

import math

import numpy as np

from haptic_sim.worlds.world_setup import WorldSetup

FASTEST = 0.5  # [rad] of an object's oscillation that may pass until an update is replaced


def warn_of_sprung_objects(world: WorldSetup, lasts: float) -> tuple[str, ...]:
    """Texts that name the objects of a world that may give energy behind kinematic constraints, and what to do.

    Args:
        world: at its start, which decides the masses.
        lasts: time from the state of an update until another one replaces it [s].
    """
    springs = [law for law in world.laws if law.stiffness > 0.0 and law.position >= 0]
    if not springs:
        return ()
    _, D = world.hand_dynamics()
    mobility = np.diag(np.linalg.inv(D))
    held = _hand_coordinates(world)
    notes = []
    for law in springs:
        speed = math.sqrt(law.stiffness * mobility[law.velocity])  # [rad/s]
        if law.velocity not in held and speed * lasts > FASTEST:
            notes.append(
                f"joint {law.name}: its spring and mass oscillate at {speed / math.tau:.3g} Hz, by "
                f"{speed * lasts:.2g} rad until an update is replaced, after {1e3 * lasts:.3g} ms; "
                f"above {FASTEST:g} rad local_model.constraints = kinematic may give energy to the hand; "
                "set it to dynamic, or raise environment.rate"
            )
    return tuple(notes)


def _hand_coordinates(world: WorldSetup) -> range:
    """The coordinates of the tree that the hand holds."""
    first = world.model.joints[world.model.frames[world.hand].parentJoint].idx_v
    tree = int(np.searchsorted(world.tree_start, first, side="right")) - 1
    start = int(world.tree_start[tree])
    return range(start, start + int(world.tree_size[tree]))
