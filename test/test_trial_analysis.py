"""Metrics of any trial, against what is known of simple worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from offline_runs import run_unrecorded
from world_builder import OLD

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment.analyses import names

BALL = {"joint": "free", "position": [0, 0, 0.05], "mass": 2.0, "shapes": [{"type": "sphere", "radius": 0.05}]}
FLOOR = {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1]}]}


def metrics(
    folder: Path, wrench: Any, method: str = "penalty", contact: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Of a ball of 2 kg on the floor for a second at 1 kHz, under a wrench, without gravity; contact: beside `OLD`."""
    document: dict[str, Any] = {
        "duration": 1.0,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": wrench},
        "device": {"type": "none"},
        "scene": {"type": "world", "gravity": [0, 0, 0], "tool": "ball", "bodies": {"floor": FLOOR, "ball": BALL}},
        "environment": {"method": method, "publish": 1000.0},
        "contact": OLD | (contact or {}),
        **more,
    }
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(document))
    (trial,) = experiment.load(str(path))
    analysis = analysis_of(trial.experiment)
    found = analysis.analyse(trial, run_unrecorded(trial)).metrics
    for name in found:
        quantity = analysis.quantity(name)
        assert quantity is not None, name
        assert quantity.text
    return found


def test_work_of_the_hand_is_the_energy_of_a_free_body(tmp_path: Path) -> None:
    """Upwards with 3 N for a second: v = F t / m, work m v^2 / 2, no contact."""
    found = metrics(tmp_path, [0, 0, 3.0, 0, 0, 0])
    assert found["hand_work"] == pytest.approx(0.5 * 2.0 * (3.0 * 1.0 / 2.0) ** 2, rel=1e-12)
    assert [
        found[name] for name in ("contacts", "impulses", "contact_time", "max_force", "rms_torque", "max_depth")
    ] == [
        0.0,
    ] * 6
    assert found["stick_time"] is found["slip_time"] is None  # without friction nothing sticks
    assert "max_rendered_force" not in found


def test_depth_force_and_work_are_those_of_the_motion_written_out(tmp_path: Path) -> None:
    """8 N on a spring of 4000 N/m that is damped beyond any overshoot: 2 mm in the end."""
    found = metrics(tmp_path, [0, 0, -8.0, 0, 0, 0], contact={"stiffness": 4000.0, "damping": 400.0})
    depth, speed, T, forces, depths, work = 0.0, 0.0, 1e-3, [], [], 0.0
    for tick in range(1001):
        force = 4000.0 * depth + 400.0 * speed if depth > 0.0 else 0.0
        forces.append(force)
        depths.append(depth)
        before, speed = speed, speed + T * (8.0 - force) / 2.0
        work += 8.0 * 0.5 * (before + speed) * T if tick < 1000 else 0.0
        depth += T * speed
    assert found["max_depth"] == found["max_depth[floor/ball]"] == pytest.approx(max(depths), rel=1e-9)
    material, quiet = {"stiffness": 4000.0, "damping": 400.0}, {"method": "penalty", "publish": None}
    seldom = metrics(tmp_path, [0, 0, -8.0, 0, 0, 0], contact=material, environment=quiet)
    assert seldom["max_depth"] == found["max_depth"]
    assert found["max_depth"] == pytest.approx(0.002, rel=1e-4)
    assert found["max_force"] == pytest.approx(max(forces), rel=1e-9)
    assert found["rms_force"] == pytest.approx(np.sqrt(np.mean(np.square(forces))), rel=1e-9)
    assert found["hand_work"] == pytest.approx(work, rel=1e-9)
    assert (found["contacts"], found["contact_time"]) == (1.0, pytest.approx(1.0))  # of 1001 ticks the first has none


def test_a_ball_slides_until_friction_holds_it(tmp_path: Path) -> None:
    """A block would stop after v / (mu g); pressed on the floor with 10 N and pushed sideways with less, it sticks."""
    contact = {"friction": {"model": "coulomb", "static": 0.5, "kinetic": 0.5}}
    found = metrics(tmp_path, [1.0, 0, -10.0, 0, 0, 0], "constraint", contact=contact)
    assert found["stick_time"] + found["slip_time"] == pytest.approx(found["contact_time"])
    assert found["slip_time"] == pytest.approx(0.0, abs=0.01)  # it rolls
    assert found["max_force"] == pytest.approx(np.hypot(10.0, 1.0 / 3.5), rel=0.2)


def test_trial_is_the_first_study() -> None:
    assert names()[0] == "trial"
    assert names().count("trial") == 1
    assert "analysis" not in names()
