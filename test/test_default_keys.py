"""Keys that are left out suit the world: engine, rate and local model of a world of MuJoCo, and gains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment.resolution import Trial
from haptic_sim.parameters import ParameterError

BALL: dict[str, Any] = {"joint": "free", "mass": 0.02, "shapes": [{"type": "sphere", "radius": 0.01}]}
LIGHT = {"type": "world", "bodies": {"tool": BALL}, "tool": "tool", "gravity": [0, 0, 0]}


def held(mass: float) -> dict[str, Any]:
    """The same with another mass [kg]."""
    return LIGHT | {"bodies": {"tool": BALL | {"mass": mass}}}


def loaded(folder: Path, scene: dict[str, Any], **keys: Any) -> Trial:
    document = {
        "name": "own",
        "duration": 0.1,
        "rate": 1000,
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "device": {"type": "inertial", "mass": 0.5, "inertia": 0.005},
        "controller": {"type": "virtual_coupling"},
        "scene": scene,
        **keys,
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(document))
    (trial,) = experiment.load(str(folder / "own.yaml"))
    return trial


@pytest.mark.parametrize("kind", ["virtual_coupling", "four_channel", "unilateral_coupling"])
def test_gains_that_are_left_out_are_the_largest_that_suit_what_is_held(tmp_path: Path, kind: str) -> None:
    """Twice as much in translation, or rotation, is refused with a tool a fifth lighter, or is above the default."""
    found = loaded(tmp_path, LIGHT, controller={"type": kind}).experiment.controller
    gains = {name: getattr(found, name) for name in ("stiffness", "damping") if hasattr(found, name)}
    assert all(len(values) == 6 for values in gains.values())
    default = type(found).model_fields
    for part in (slice(0, 3), slice(3, 6)):
        more = {
            name: [2.0 * value if i in range(part.start, part.stop) else value for i, value in enumerate(values)]
            for name, values in gains.items()
        }
        if all(more[name][part][0] > 1.01 * default[name].default[-1 if part.start else 0] for name in more):
            continue
        with pytest.raises(ParameterError):
            loaded(tmp_path, held(0.8 * BALL["mass"]), controller={"type": kind, **more})


@pytest.mark.parametrize("kind", ["virtual_coupling", "four_channel"])
def test_gains_that_are_left_out_suit_a_tool_that_is_a_fifth_lighter_elsewhere(tmp_path: Path, kind: str) -> None:
    """The mobility of a linkage depends on its configuration; at the start h b a may be close to its limit."""
    for mass in (0.01, 0.015, 0.02, 0.025, 0.03, 0.037, 0.045):
        found = loaded(tmp_path, held(mass), controller={"type": kind}).experiment.controller
        gains = {name: list(getattr(found, name)) for name in ("stiffness", "damping")}
        loaded(tmp_path, held(0.81 * mass), controller={"type": kind, **gains})


def test_gains_that_are_given_stay(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="six"):
        loaded(tmp_path, LIGHT, controller={"type": "four_channel", "stiffness": [10, 10, 0.05]})


SLIDER = """<mujoco><worldbody><body name="tool"><freejoint/><geom size="0.02" mass="0.1"/></body>
    <body name="arm" pos="1 0 0"><joint name="j" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/>
    </body></worldbody><actuator><position name="a" joint="j" kp="10"/></actuator></mujoco>"""


@pytest.mark.parametrize("tool", ["tool", "arm"])
def test_a_world_of_mujoco_needs_no_keys_but_its_tool(tmp_path: Path, tool: str) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "slider.xml").write_text(SLIDER)
    found = loaded(tmp_path, {"type": "mujoco", "file": "slider.xml", "tool": tool}).experiment
    assert (found.environment.engine.type, found.environment.rate, found.local_model.type) == ("mujoco", 60.0, "full")
    slower = loaded(
        tmp_path, {"type": "mujoco", "file": "slider.xml", "tool": tool}, environment={"rate": 30}
    ).experiment
    assert (slower.environment.engine.type, slower.environment.rate) == ("mujoco", 30.0)


def test_a_world_of_mujoco_is_felt_with_nothing_written_but_what_is_held(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "slider.xml").write_text(SLIDER)
    keys = {"duration": 0.05, "rate": 1000, "operator": {"type": "constant", "wrench": [0.1, 0, 0, 0, 0, 0]}}
    for tool in ("tool", "arm"):  # the latter is blocked in five directions
        scene = {"type": "mujoco", "file": "slider.xml", "tool": tool}
        (tmp_path / "own.yaml").write_text(yaml.safe_dump({"scene": scene, **keys}))
        (trial,) = experiment.load(str(tmp_path / "own.yaml"))
        found = trial.experiment
        assert (found.device.type, found.controller.type) == ("inertial", "virtual_coupling")
        samples, reason = analysis_of(found).attempt(trial.in_mode("offline"))
        assert not reason
        verdict = verdict_of(trial, samples)
        assert verdict is not None
        assert not verdict.failure
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"scene": scene}))
    with pytest.raises(ParameterError) as caught:
        experiment.load(str(tmp_path / "own.yaml"))
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["duration", "rate", "operator"]


@pytest.mark.parametrize(
    ("device", "controller"), [({"type": "inertial"}, "virtual_coupling"), ({"type": "admittance"}, "admittance")]
)
def test_a_device_without_a_controller_gets_one_that_it_takes(
    tmp_path: Path, device: dict[str, Any], controller: str
) -> None:
    assert loaded(tmp_path, LIGHT, device=device, controller={}).experiment.controller.type == controller


def test_a_world_of_mujoco_without_a_device_is_told_what_it_needs(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "slider.xml").write_text(SLIDER)
    with pytest.raises(ParameterError) as caught:
        loaded(
            tmp_path,
            {"type": "mujoco", "file": "slider.xml", "tool": "tool"},
            device={"type": "none"},
            controller={"type": "none"},
        )
    assert caught.value.problems == [
        "device.type = none: what MuJoCo simulates is felt through a device and a local model; set "
        "device.type=inertial and controller.type=virtual_coupling"
    ]
