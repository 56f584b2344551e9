"""A nut on a bolt, both by their fields: the closed form of a screw without friction."""

from __future__ import annotations

import numpy as np
import pytest
from collision_scenes import at
from field_scenes import FieldScene
from test_field_contacts import wrench

from haptic_sim.geometry.generate import bolt, nut

PITCH = 0.0025  # [m]
STIFFNESS, FORCE = 1e5, 20.0  # of a row [N/m], along the axis [N]


@pytest.mark.exhaustive
def test_a_nut_advances_by_its_pitch_and_a_force_along_it_turns_it():
    """The nut is pushed along the bolt with a force F and rests at a height z(turn).

    dz/dturn = pitch / (2 pi); without friction F dz + torque dturn = 0, so that the thread turns the nut by
    F pitch / (2 pi).
    """
    scene = FieldScene(bolt(head=0.0, length=0.02), nut(height=0.0075), accuracy=1.5e-4)
    lead = PITCH / (2.0 * np.pi)
    turns = np.linspace(0.0, 2.0 * np.pi, 9)
    for sign in (1.0, -1.0):
        heights, torques = [], []
        for turn in turns:
            low, high = 0.0055 + lead * turn - 0.3 * PITCH, 0.0055 + lead * turn + 0.3 * PITCH
            for _ in range(30):
                middle = 0.5 * (low + high)
                scene.detector.forget()
                found = wrench(scene.contacts(at(), at(z=middle, turn=(0.0, 0.0, turn))), STIFFNESS)
                # below its rest the thread pushes the nut up with more than what pushes it down
                low, high = (middle, high) if found[2] > sign * FORCE else (low, middle)
            heights.append(middle)
            torques.append(found[5])
        slope, start = np.polyfit(turns, heights, 1)
        assert slope == pytest.approx(lead, rel=0.01)
        assert np.abs(heights - start - slope * turns).max() < 0.002 * PITCH
        # the nut is held on the axis, by up to 4 N at some turns, and rows leave out the moments along their normals
        assert np.mean(torques) == pytest.approx(-sign * FORCE * lead, rel=0.1)
