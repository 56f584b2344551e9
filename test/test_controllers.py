"""Every controller in the corner with the peg, and with a ball in space; each is judged for what it is to do."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import starting
import yaml
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.recording.samples import Samples
from haptic_bench.replay import verification
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_sim.messages import DeviceState, ToolSizes
from haptic_sim.parameters import ParameterError

GENERAL = (
    "{type: four_channel, tool_damping: [80, 80, 0.4], integral: [20, 20, 0.1], integral_limit: [1, 1, 0.01], "
    "contact_damping: [60, 60, 60], contact_damping_limit: [50, 50, 0.2], local_tool_damping: [0.01, 0.01, 0], "
    "operator_wrench: observed}"
)
COUPLED = "{type: virtual_coupling, stiffness: [1000, 1000, 2.5], damping: [50, 50, 0.125]}"
CONTROLLERS = {
    "four_channel": "{type: four_channel}",
    "four_channel in general": GENERAL,
    "four_channel, scaled": "{type: four_channel, position_scale: 2}",
    "virtual_coupling": COUPLED,
    "unilateral_coupling": "{type: unilateral_coupling}",
    "direct": "{type: direct}",
    "impedance_shaping": "{type: impedance_shaping}",
    "impedance_shaping, observed": "{type: impedance_shaping, operator_wrench: observed}",
}
FX, FY, WALL = 0.32, -0.4, 4000.0  # [N, N, N/m] of corner_peg; two corners touch a wall


@cache
def corner(name: str, *settings: str) -> Samples:
    chosen = [f"controller={CONTROLLERS[name]}", "analysis=trial", *settings]
    return run_unrecorded(experiment.load("corner_peg", chosen)[0])


@pytest.mark.parametrize("name", CONTROLLERS)
def test_the_peg_reaches_the_corner_and_stays_there(name: str) -> None:
    """Through both impacts; the tool rests f / (2 k) within each wall.

    f is what the hand applies, which the unilateral coupling brings to the tool twice: as measured, and by the spring.
    """
    samples = corner(name, "duration=6")
    gap, force = np.array([0.03, -0.06]), np.array([FX, FY])
    end = samples.pose("tool")[-1, :2]
    held = force * {"four_channel, scaled": 0.5, "unilateral_coupling": 2.0}.get(name, 1.0)
    np.testing.assert_allclose(end, gap + held / (2.0 * WALL), rtol=0, atol=2e-5)
    assert np.abs(samples.twist("tool")[-1, :2]).max() < 1e-3
    assert np.abs(samples.pose("tool")[:, :2]).max() < 0.0615
    assert all(np.isfinite(samples[column]).all() for column in samples.names if column.startswith(("hand", "tool")))


@pytest.mark.long
def test_each_does_what_it_is_for() -> None:
    """Of hand and tool at rest, with one force on the hand of 0.51 N."""
    force = np.array([FX, FY])

    def apart(samples: Samples) -> np.ndarray:
        return samples.pose("hand")[-1, :2] - samples.pose("tool")[-1, :2]

    ends = {name: corner(name, "duration=6") for name in CONTROLLERS}
    for name in ("four_channel", "direct", "impedance_shaping"):
        np.testing.assert_allclose(apart(ends[name]), 0.0, atol=1e-9, err_msg=name)
    # a virtual coupling carries all force by its spring: the hand is F / K further
    np.testing.assert_allclose(apart(ends["virtual_coupling"]), force / 1000.0, rtol=0.01)
    np.testing.assert_allclose(apart(ends["unilateral_coupling"]), force / 1000.0, rtol=0.01)
    # an integral takes the rest away
    np.testing.assert_allclose(apart(ends["four_channel in general"]), 0.0, atol=2e-5)
    # at twice the scale the tool is twice as far from the start as the hand
    scaled = ends["four_channel, scaled"]
    middle = len(scaled) // 10
    moved = scaled.pose("tool")[middle, :2] / scaled.pose("hand")[middle, :2]
    np.testing.assert_allclose(moved, 2.0, rtol=0.05)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_no_controller_gives_energy_to_the_hand_in_free_motion(name: str) -> None:
    """The operator's work is never less than the kinetic energy of the device, before the first contact."""
    samples = corner(name, "duration=0.55")
    assert not samples["colliding"].any()
    motion = np.diff(samples.pose("hand")[:, :2], axis=0)
    work = np.cumsum(motion @ [FX, FY])
    kinetic = 0.5 * 2.0 * np.sum(samples.twist("hand")[1:, :2] ** 2, axis=1)
    assert np.all(work >= (1.0 - 0.03) * kinetic)  # 3 %: half a tick of semi-implicit Euler at the beginning


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_recorded_trial_is_simulated_again_bit_by_bit(tmp_path: Path, name: str) -> None:
    """Also what is remembered from tick to tick: integrals and observers."""
    chosen = [f"controller={CONTROLLERS[name]}", "duration=0.65", "analysis=trial"]
    with starting.blank_pages():
        run_trial(experiment.load("corner_peg", chosen)[0], "offline", tmp_path, Interruption())
    assert verification.verify(tmp_path) == verification.Verification()


MATRIX_OF_CORNER = np.diag([1000.0] * 3 + [2.5] * 3).ravel().tolist()


@pytest.mark.long
def test_a_coupling_of_matrices_is_analysed_with_the_damping_of_its_device() -> None:
    """Refused as what has the same gains, with a part of the matrices that is passive."""
    controllers = (
        COUPLED,
        f"{{type: virtual_coupling, stiffness: {MATRIX_OF_CORNER}, damping: [50, 50, 0.125]}}",
    )
    damping = "device.damping=[3, 0.01]"
    said = []
    for controller in controllers:
        with pytest.raises(ParameterError) as caught:
            experiment.load("corner_peg", [f"controller={controller}", damping, "analysis=trial"])
        (problem,) = caught.value.problems
        assert "the device, with damping [3, 0.01], is not passive" in problem
        said.append(problem)
    factor = float(said[1].split("; ")[1].split(" times the matrices are passive")[0])
    for part, passive in ((factor, True), (1.05 * factor, False)):
        scaled = (
            f"{{type: virtual_coupling, stiffness: {[part * value for value in MATRIX_OF_CORNER]}, "
            f"damping: {[part * value for value in (50, 50, 0.125)]}}}"
        )
        if passive:
            experiment.load("corner_peg", [f"controller={scaled}", damping, "analysis=trial"])
        else:
            with pytest.raises(ParameterError, match="is not passive"):
                experiment.load("corner_peg", [f"controller={scaled}", damping, "analysis=trial"])


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_controller_runs_with_a_device_that_states_its_damping(name: str) -> None:
    """At rest in the corner as without damping; what the analysis finds active is allowed here."""
    samples = corner(name, "duration=6", "device.damping=[2, 0.01]", "controller.allow_active=true")
    assert np.abs(samples.twist("tool")[-1, :2]).max() < 1e-3
    assert np.linalg.norm(samples.pose("tool")[-1, :2] - [0.03, -0.06]) < 3e-4


def ball(folder: Path, controller: dict[str, Any]) -> str:
    document = {
        "duration": 0.6,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": [0.3, -0.2, -0.5, 0.001, -0.002, 0.001]},
        "device": {"type": "inertial", "mass": 0.6, "inertia": 0.003},
        "controller": controller,
        "analysis": "trial",
        "contact": {"stiffness": 2000.0, "damping": 2.0},
        "environment": {"method": "penalty"},
        "scene": {
            "type": "world",
            "gravity": [0, 0, 0],
            "bodies": {
                "floor": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1]}]},
                "ball": {
                    "joint": "free",
                    "mass": 0.5,
                    "inertia": [0.002, 0.003, 0.004],
                    "position": [0, 0, 0.035],
                    "shapes": [{"type": "sphere", "radius": 0.03}],
                },
            },
            "tool": "ball",
        },
    }
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(file)


SIX = {"stiffness": [100.0] * 3 + [0.5] * 3, "damping": [20.0] * 3 + [0.1] * 3}
MATRIX = np.diag(SIX["stiffness"])
MATRIX[0, 4] = MATRIX[4, 0] = 3.0
IN_SPACE: dict[str, dict[str, Any]] = {
    "four_channel": SIX,
    "virtual_coupling": SIX | {"stiffness": MATRIX.ravel().tolist()},
    "unilateral_coupling": SIX,
    "direct": {},
    "impedance_shaping": SIX | {"device_matrix": np.diag([0.6] * 3 + [0.003] * 3).ravel().tolist()},
}


@pytest.mark.parametrize("source", ["measured", "observed"])
@pytest.mark.parametrize("kind", IN_SPACE)
def test_every_controller_works_in_space(tmp_path: Path, kind: str, source: str) -> None:
    """The ball is pushed down to the floor and on along it, turning about all axes, and stays close to the hand."""
    own = {} if kind == "virtual_coupling" else {"operator_wrench": source}
    samples = run_unrecorded(experiment.load(ball(tmp_path, {"type": kind} | IN_SPACE[kind] | own))[0])
    assert samples.pose("tool")[-1, 2] < 0.031
    assert samples.pose("tool")[-1, 0] > 0.02 and samples.pose("tool")[-1, 1] < -0.015
    apart = np.linalg.norm(samples.pose("hand")[:, :3] - samples.pose("tool")[:, :3], axis=1).max()
    assert apart < (0.05 if kind == "direct" else 0.012)
    turned = samples.pose("tool")[-1, 3:6]
    assert np.abs(turned).min() > 1e-3


@pytest.mark.parametrize("kind", IN_SPACE)
def test_every_controller_is_checked_with_its_device(tmp_path: Path, kind: str) -> None:
    """And runs at rest without a command of its own."""
    (trial,) = experiment.load(ball(tmp_path, {"type": kind} | IN_SPACE[kind]))
    parameters: Any = trial.experiment.controller
    assert parameters.stability_problem(trial.coupled_inertias, 1000.0) == ""
    if "damping" in type(parameters).model_fields:
        more = {"damping": tuple(1e4 * np.array(parameters.damping))}
        assert "diverges" in parameters.model_copy(update=more).stability_problem(trial.coupled_inertias, 1000.0)
    core: Any = parameters.build(1000.0)
    core.warm_up(ToolSizes(7, 6))
    assert isinstance(core.remembers, bool) and DeviceState().is_finite()
