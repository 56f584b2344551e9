"""Engines are parts: those of this package, and one of another, which answers controllers as ours do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import Haptics

from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment import load_document
from haptic_bench.trials.recorded import run
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.engines import ENGINES, HapticsParameters
from haptic_sim.tool.parameters import EnvironmentParameters

POINT_MASS = "point_mass:PointMassParameters"
RATE, MASS, STIFFNESS, FORCE = 1000.0, 0.5, 800.0, 2.0
PUSHED: dict[str, Any] = {
    "name": "pushed",
    "duration": 0.3,
    "rate": RATE,
    "scene": {
        "type": "world",
        "gravity": [0, 0, 0],
        "bodies": {"ball": {"joint": "free", "mass": MASS, "shapes": [{"type": "sphere", "radius": 0.02}]}},
        "tool": "ball",
    },
    "device": {"type": "none"},
    "operator": {"type": "constant", "wrench": [FORCE, 0, 0, 0, 0, 0]},
    "environment": {"engine": {"type": POINT_MASS, "stiffness": STIFFNESS}},
}
HELD = PUSHED | {
    "device": {"type": "inertial", "mass": 0.5, "inertia": 0.005},
    "controller": {"type": "virtual_coupling", "stiffness": [300] * 3 + [1] * 3, "damping": [10] * 3 + [0.01] * 3},
}


def refusal(document: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ParameterError) as error:
        load_document(document | changes, Path("pushed.yaml"))
    return str(error.value)


def test_a_name_is_an_engine_with_its_defaults() -> None:
    for given in ("haptics", {"type": "haptics"}):
        assert EnvironmentParameters.model_validate({"engine": given}).engine == HapticsParameters()
    assert set(ENGINES.entries()) == {"haptics", "mujoco", "external", "robot", "ros_robot"}


def test_an_engine_of_another_package_moves_the_tool() -> None:
    """From rest, under a constant force F: x = F/k (1 - cos w t), w^2 = k/m; Euler's error is below w T / 2."""
    trial = run(PUSHED)
    t, x = trial.samples["time"], trial.samples["tool_px"]
    w = np.sqrt(STIFFNESS / MASS)
    np.testing.assert_allclose(x, FORCE / STIFFNESS * (1.0 - np.cos(w * t)), atol=w / RATE * FORCE / STIFFNESS)
    assert trial.experiment.packages == {"point_mass": ""}
    assert trial.experiment.model_dump(mode="json")["environment"]["engine"]["type"] == POINT_MASS
    assert trial.status == "done"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"environment": {"engine": {"type": POINT_MASS, "stifness": 3}}}, "stifness: unknown key; did you mean stiff"),
        (
            {"environment": {"engine": "haptic"}},
            "environment.engine = haptic: must be one of 'haptics', 'mujoco', 'external', 'robot', 'ros_robot'",
        ),
        ({"environment": {"engine": 3}}, "environment.engine"),
        ({"environment": {"engine": "mujoco"}}, "the scene world is simulated by haptics; set environment.engine=hap"),
        (
            {"scene": {"type": "rolling_disk"}},
            "environment.engine = point_mass: the scene rolling_disk is simulated by haptics; set environment.engine=h",
        ),
        (
            {"local_model": {"type": "full"}, **{key: HELD[key] for key in ("device", "controller")}},
            "local_model.type = full: environment.engine = point_mass answers at the servo rate, and feeds no l",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], said: str) -> None:
    assert said in refusal(PUSHED, **changes)


def test_an_engine_that_gives_energy_fails_the_trial() -> None:
    """A wall that pushes the hand away with its own energy: the verdict is about what is felt, whoever simulates it."""
    engine = {"type": "point_mass:JumpingParameters", "stiffness": STIFFNESS}
    (trial,) = load_document(HELD | {"environment": {"engine": engine}}, Path("held.yaml"))
    trial = trial.in_mode("offline")
    verdict = verdict_of(trial, analysis_of(trial.experiment).run_unrecorded(trial))
    assert verdict is not None and verdict.failure, verdict


@pytest.mark.exhaustive
@pytest.mark.long
def test_an_engine_of_another_package_has_the_same_bits_offline_and_in_lockstep(
    haptics: Callable[..., Haptics], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "held.yaml"
    file.write_text(yaml.safe_dump(HELD))
    monkeypatch.setenv("HAPTICS_PYTHONPATH", str(Path(__file__).parent))
    for mode in ("offline", "lockstep"):
        ran = haptics("run", str(file), "--mode", mode, "--out", str(tmp_path / mode))
        assert ran.wait() == 0, ran.err
    offline, lockstep = ((tmp_path / mode / "samples.csv").read_bytes() for mode in ("offline", "lockstep"))
    assert offline == lockstep
    replay = haptics("replay", str(tmp_path / "lockstep"), "--verify")
    assert replay.wait() == 0 and "identical" in replay.out
