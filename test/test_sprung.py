"""Objects on springs that are too fast for kinematic constraints are named at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from haptic_bench import experiment
from haptic_bench.experiment import Trial

BUTTON = """<mujoco><worldbody><body name="button">
<joint name="press" type="slide" axis="1 0 0" stiffness="{stiffness}"/>
<geom type="box" size="0.01 0.02 0.02" mass="{mass}"/></body></worldbody></mujoco>"""


def trial(folder: Path, *settings: str, mass: float = 0.05, stiffness: float = 200.0) -> Trial:
    """A ball beside a button."""
    (folder / "button.xml").write_text(BUTTON.format(mass=mass, stiffness=stiffness))
    ball = {"joint": "free", "position": [-0.02, 0, 0], "mass": 0.05, "shapes": [{"type": "sphere", "radius": 0.009}]}
    document: dict[str, Any] = {
        "name": "button",
        "duration": 1.0,
        "rate": 1000.0,
        "operator": {
            "type": "arm",
            "path": [[0.1, 0, 0, 0], *([0.3 * i, 0.01 * (1 + i % 2), 0, 0] for i in (1, 2, 3))],
            "stiffness": 200.0,
            "damping": 1.0,
            "turn_stiffness": 1.0,
            "turn_damping": 0.01,
        },
        "device": {"type": "inertial", "mass": 0.05, "inertia": 3e-4},
        "controller": {"type": "direct"},
        "scene": {
            "type": "world",
            "gravity": [0, 0, 0],
            "tool": "ball",
            "bodies": {"ball": ball},
            "files": {"panel": {"path": "button.xml"}},
        },
        "contact": {"stiffness": 4000.0, "damping": 10.0},
        "environment": {"method": "penalty", "rate": 60},
        "local_model": {"type": "full"},
    }
    (one,) = experiment.load_document(document, folder / "button.yaml", settings)
    return one


def test_a_button_that_is_thrown_at_the_hand_is_named(tmp_path: Path) -> None:
    one = trial(tmp_path)
    assert one.notes == (
        "joint press: its spring and mass oscillate at 10.1 Hz, by 2.2 rad until an update is replaced, after 34 ms; "
        "above 0.5 rad local_model.constraints = kinematic may give energy to the hand; set it to dynamic, or raise "
        "environment.rate",
    )


@pytest.mark.parametrize(
    ("settings", "button"),
    [
        (["local_model.constraints=dynamic"], {}),
        (["environment.rate=500"], {}),
        ([], {"mass": 1.0}),
        ([], {"stiffness": 10.0}),
        (["local_model.type=none", "environment.rate=null"], {}),
    ],
)
def test_what_is_slow_enough_is_not_named(tmp_path: Path, settings: list[str], button: dict[str, float]) -> None:
    assert trial(tmp_path, *settings, **button).notes == ()
