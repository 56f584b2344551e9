"""guided_path: a hand among fields, against closed forms; that each claim can fail; the same bits in lockstep."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trimesh
from claim_checks import Run, names
from conftest import Haptics, answer, wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks
from graph_checks import check_lockstep_is_offline
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue, SetParametersResult
from rcl_interfaces.srv import SetParameters

from haptic_bench.experiment.shown import build_scene
from haptic_bench.recording.frames import SampledFrames
from haptic_experiments import guided_path
from haptic_sim import World
from haptic_sim.parameters import ParameterError
from haptic_view.drawing import picture


@pytest.fixture(scope="module")
def run() -> Run:
    return Run("guided_path")


@pytest.mark.exhaustive
def test_the_guide_leads_past_the_ball_and_the_energies_are_those_of_closed_forms(run: Run) -> None:
    assert run.holds(compare=True) == dict.fromkeys(names(guided_path.ANALYSIS.CLAIMS), True)


@pytest.mark.exhaustive
def test_claims_fail_for_other_trials(run: Run) -> None:
    samples = run.samples
    straight = samples.with_columns({"tool_py": 0.0 * samples["tool_py"], "tool_pz": 0.0 * samples["tool_pz"]})
    assert run.holds(straight, compare=True)["guides"] is False
    assert (
        run.holds(samples.with_columns({"energy_damping": 1.05 * samples["energy_damping"]}))["oil_dissipates"] is False
    )
    numerical = samples["energy_numerical"] + 0.05 * samples["energy_injected"].max()
    assert run.holds(samples.with_columns({"energy_numerical": numerical}))["fixtures_conserve"] is False
    soft = Run("guided_path", "scene.fields.ball.stiffness=20").holds(compare=True)
    assert soft["keeps_out"] is False
    unguided = Run("guided_path", "environment.fields={guide: 0}").holds(compare=True)
    assert unguided["guides"] is None


def test_unknown_fields_are_not_switched() -> None:
    with pytest.raises(ValueError, match=r"environment\.fields\.guid: unknown field; did you mean guide\?"):
        Run("guided_path", "environment.fields={guid: 0}")
    with pytest.raises(ValueError, match=r"environment\.fields\.guide = 2: must be <= 1"):
        Run("guided_path", "environment.fields={guide: 2}")


@pytest.mark.exhaustive
def test_a_local_model_lets_the_fields_of_the_tool_act_at_the_servo_rate(run: Run) -> None:
    """Among no other bodies it is the world itself: the same motion, but for the representation of its inertia."""
    settings = ("analysis=trial", "local_model={type: full, dynamics: current}", "environment.rate=60")
    local = Run("guided_path", *settings).samples
    for name in ("tool_px", "tool_py", "env_fy", "energy_damping"):
        assert np.abs(local[name] - run.samples[name]).max() < 1e-6 + 1e-6 * np.abs(run.samples[name]).max()


@pytest.mark.exhaustive
def test_fields_are_drawn(run: Run) -> None:
    scene = build_scene(run.trial)
    assert {name for name, _ in scene.fields} == {"guide", "oil", "ball"}
    (oil,) = [shape for name, shape in scene.fields if name == "oil"]
    assert np.ptp(oil.vertices, axis=0) == pytest.approx([0.06, 0.3, 0.3])
    assert oil.vertices.mean(axis=0) == pytest.approx([0.1, 0.0, 0.0], abs=1e-12)
    line = np.concatenate([shape.vertices for name, shape in scene.fields if name == "guide"])
    assert line[:, 0].min() < 0.001 and line[:, 0].max() > 0.199


@pytest.mark.exhaustive
def test_a_region_that_is_not_convex_is_drawn_with_its_hole(tmp_path: Path) -> None:
    """In the view its triangles, in the pictures of a report its outline within and without."""
    trimesh.creation.torus(0.02, 0.006).export(tmp_path / "torus.stl")
    ring = f"scene.fields.ball.shape={{type: mesh, path: {tmp_path / 'torus.stl'}, position: [0.1, -0.03, 0]}}"
    run = Run("guided_path", ring, "analysis=trial")
    frames = SampledFrames(run.trial, run.samples, run.samples.world)
    (shape,) = [shape for name, shape in frames.scene.fields if name == "ball"]
    assert np.ptp(shape.vertices, axis=0) == pytest.approx([0.052, 0.052, 0.012], abs=1e-6)
    assert np.hypot(*(shape.vertices[:, :2] - [0.1, -0.03]).T).min() == pytest.approx(0.014, abs=1e-4)
    outlines = re.findall(r'fill-opacity="0.15"[^>]* d="([^"]*)"', picture(frames, 0, "start"))
    assert sum(path.count("M") == 2 for path in outlines) == 1


@pytest.mark.exhaustive
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    check_lockstep_is_offline(haptics, tmp_path, "guided_path", "--set", "analysis=trial", "--set", "duration=0.5")


@pytest.mark.exhaustive
def test_fields_are_switched_while_a_trial_runs_which_is_repeated_bit_by_bit(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    settings = ("--duration", "3000", "--set", "analysis=trial")
    run = haptics("run", "guided_path", "--mode", "lockstep", *settings, "--out", str(out))
    wait_until(graph_checks.started(out), "the first chunk")
    with graph_checks.observer() as node:
        names = node.get_topic_names_and_types
        wait_until(lambda: any(name.endswith("/tool_state") for name, _ in names()), "the topic tool_state")
        (namespace,) = {name.rpartition("/")[0] for name, _ in names() if name.endswith("/tool_state")}

        def change(text: str) -> SetParametersResult:
            value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=text)
            request = SetParameters.Request(parameters=[Parameter(name="environment.fields", value=value)])
            return graph_checks.ask(node, SetParameters, f"{namespace}/environment/set_parameters", request).results[0]

        assert change('{"guide": 0.25}').successful
        refused = change('{"guid": 0}')
        assert not refused.successful
        assert "environment.fields.guid: unknown field; did you mean guide?" in refused.reason
    run.interrupt()
    assert run.wait() == 130, run.err
    graph_checks.check_interrupted(out, changed=1)
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out + verify.err


def test_engines_without_fields_are_refused() -> None:
    scene = {"bodies": {"ball": {"joint": "free", "mass": 1.0, "inertia": [1, 1, 1]}}, "tool": "ball"}
    scene["fields"] = {"oil": {"type": "viscous", "damping": 1.0}}
    with pytest.raises(ParameterError, match=r"environment\.engine"):
        World(scene, environment={"engine": "external"})
