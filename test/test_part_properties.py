"""The properties that every part must have: ours have them, and parts that have not are found out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from conftest import sampled

from haptic_bench.analysis.base import Analysis
from haptic_bench.analysis.claims import Findings
from haptic_bench.analysis.properties import properties_of_analysis
from haptic_bench.commands import check
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running import properties as check_properties
from haptic_bench.running.properties import properties
from haptic_bench.running.runner import Interruption
from haptic_bench.trials.trial import run_trial
from haptic_drivers.force_device import SimulatedForceDeviceParameters
from haptic_drivers.inertial import InertialDevice
from haptic_drivers.operators import OperatorContext, OperatorParameters
from haptic_drivers.parameters import DeviceContext
from haptic_sim.parameters import ParameterError
from haptic_sim.parts import groups
from haptic_sim.scenes import SceneContext, SceneParameters

KEYS = {
    "constant": ("operator.wrench=[2,0.5,0,0,0,0.01]",),
    "sine": ("operator.amplitude=[1,0,0,0,0,0.01]", "operator.frequency=5"),
    "viscous": ("scene.fields.checked.damping=3",),
    "flow": ("scene.fields.checked.damping=3", "scene.fields.checked.velocity=[0.1,0,0]"),
    "spring": ("scene.fields.checked.point=[0,0.01,0]", "scene.fields.checked.stiffness=200"),
    "magnetic": (
        "scene.fields.checked.to={type: point, point: [0.01,0,0]}",
        "scene.fields.checked.largest_force=1",
    ),
    "guide": ("scene.fields.checked.along={type: curve, points: [[0,0,0],[0.01,0.01,0]]}",),
    "forbidden": ("scene.fields.checked.shape={type: sphere, radius: 0.05}",),
    "grating": tuple(
        f"scene.bodies.floor.shapes[0].texture.{key}"
        for key in ("wavelength=0.005", "amplitude=1e-4", "direction=[1,2,0]")
    ),
    "tangential": ("operator.amplitude=1", "operator.centre=[0,0.1]"),
}
WITH_FILES = ("file", "arm", "image", "triaxial", "uv")
NOT_OFFLINE = ("none", "crtk", "external", "hardware", "ros_robot")
PARTS = (
    *("controllers", "operators", "devices", "local_models", "contact_methods", "friction_models", "engines"),
    "fields",
    "textures",
)
OURS = [
    (kind, name)
    for kind in PARTS
    for name in groups()[kind].entries()
    if name not in (*WITH_FILES, *NOT_OFFLINE, "mujoco", "robot")  # Pinocchio's calls from Python allocate
]
TICKS = 20


def trial_of(kind: str, name: str, settings: Sequence[str] = ()) -> Trial:
    return check._trial(groups()[kind], name, argparse.Namespace(within=None, settings=settings)).with_ticks(TICKS)


def failed(kind: str, trial: Trial) -> dict[str, str]:
    return {one.text: one.problem for one in properties(kind, trial) if one.problem}


ORDINARY = [
    *((kind, name) for kind, name in OURS if kind in ("contact_methods", "devices", "operators", "local_models")),
    ("controllers", "virtual_coupling"),
    ("friction_models", "coulomb"),
]  # every one that may put energy into a hand by itself, and one of each other kind


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "name"), sampled(OURS, *ORDINARY))
def test_our_parts_have_all_properties(kind: str, name: str) -> None:
    assert failed(kind, trial_of(kind, name, KEYS.get(name, ()))) == {}


WITH_KEYS = ("formulas", "mujoco", "world")
SCENES_OF_EACH_KIND = ("door", "enclosure", "rolling_spheres", "strike")  # a joint, walls, constraints, impacts
SCENES = [name for name in groups()["scenes"].entries() if name not in WITH_KEYS]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sampled(SCENES, *SCENES_OF_EACH_KIND))
def test_our_scenes_have_all_properties(name: str) -> None:
    """Each in the experiment of its name, if there is one: rolling_spheres starts off its constraints."""
    assert failed("scenes", trial_of("scenes", name)) == {}


def test_a_gain_of_energy_is_a_discretisation_error_if_it_falls_with_the_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gimbal of the instrument, pushed until two of its axes align, gains energy of first order in the period."""
    trial = trial_of("scenes", "laparoscopic")
    assert check_properties._gained(trial) == ""
    gains = []
    for factor in (1, 2, 4, 8):
        finer = trial.experiment.model_copy(update={"rate": factor * trial.experiment.rate})
        gains.append(check_properties._energies(replace(trial, experiment=finer), 15, factor)[0].max())
    ratios = np.divide(gains[1:], gains[:-1])
    assert ratios[-1] == pytest.approx(0.5, abs=0.04) and np.all(ratios < check_properties.CONVERGED)
    assert "a discretisation error, 0.0" in check_properties._gained(trial, 15)

    monkeypatch.setattr(check_properties, "_energies", lambda *_: (np.array([0.0, 0.2, 0.2, 0.2]), np.ones(4)))
    assert check_properties._gained(trial) == (
        "step 1: 0.2 J, where 1 J were supplied, and 0.2 J at half the period: the world supplies it itself"
    )


@pytest.mark.parametrize("name", NOT_OFFLINE)
def test_what_takes_part_in_no_trial_offline_is_not_checked(name: str) -> None:
    kind = next(kind for kind in check.SECTIONS if name in groups()[kind].entries())
    with pytest.raises(ParameterError, match=f"part {name}: takes part in no trial offline"):
        trial_of(kind, name)


class OddSceneParameters(SceneParameters):
    """A ball in the air, and a door, with a fault."""

    made: ClassVar[int] = 0
    type: Literal["odd"] = "odd"
    fault: str = "none"

    def world(self, context: SceneContext) -> dict[str, Any]:
        OddSceneParameters.made += 1
        ball = {"joint": "free", "mass": 0.5, "shapes": [{"type": "sphere", "radius": 0.02}]}
        door = {
            "joint": "revolute",
            "parent": "world",
            "position": [1, 0, 0],
            "axis": [0, 0, 1],
            "range": [-1, 1],
            "mass": 1.0,
            "inertia": [0.1, 0.2, 0.3],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        }
        keys = {"gravity": [0, 0, 0], "bodies": {"ball": ball, "door": door}, "tool": "ball"}
        match self.fault:
            case "raises":
                raise KeyError("size")
            case "limits":
                door["angle"] = 2.0
            case "inertia":
                door["inertia"] = [0.1, 0.1, 0.9]
            case "infinite":
                ball["position"] = [float("inf"), 0, 0]
            case "overlap" | "allowed":
                door["position"] = [0.06, 0, 0]
                keys["allowed_overlap"] = 0.1 if self.fault == "allowed" else 1e-3
            case "drawn":
                ball["position"] = [1e-3 * OddSceneParameters.made, 0, 0]
            case "gains":
                del door["range"]
                flap = {"parent": "door", "position": [0.5, 0, 0], "centre_of_mass": [0.25, 0, 0], "velocity": 300.0}
                keys["bodies"]["flap"] = door | flap
        return keys


AGAIN = ("the same start when it is built again", "the same bits in a second trial")


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param("none", (), marks=pytest.mark.exhaustive),
        ("allowed", ("bodies overlap by at most 0.001 m at the start, where contacts are rigid",)),
        pytest.param("drawn", (*AGAIN, "the same bits after a reset"), marks=pytest.mark.exhaustive),
        ("gains", ("passive: its energy does not rise beyond what was supplied",)),
    ],
)
def test_a_scene_with_a_fault_is_found_out(fault: str, found: tuple[str, ...]) -> None:
    trial = trial_of("scenes", f"{__name__}:OddSceneParameters", (f"scene.fault={fault}",))
    assert tuple(failed("scenes", trial)) == found


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raises", "KeyError: 'size'"),
        ("limits", "bodies.door.angle = 2 rad: must be in range"),
        ("inertia", "bodies.door.inertia = [0.1, 0.1, 0.9]: no body has this inertia"),
        ("infinite", "bodies.ball.position[0] = inf m: must be finite"),
        ("overlap", "ball and door overlap by"),
    ],
)
def test_a_scene_whose_world_cannot_be_built_is_found_out(
    fault: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"scene.fault={fault}"]
    part = f"{__name__}:OddSceneParameters"
    assert check.check(argparse.Namespace(part=part, within=None, settings=settings, offline=True)) == FAILED
    _, verdict, problem = capsys.readouterr().out.splitlines()
    assert verdict == "  failed  its world is built"
    assert reason in problem


def test_a_name_of_two_kinds_is_checked_as_one_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"within": None, "offline": True}
    settings = ["scene.bodies.floor.shapes[0].texture={type: grating, wavelength: 0.01, amplitude: 1e-4}"]
    with pytest.raises(
        ParameterError, match=r"part grating: is one of the textures and one of the analyses; with --set"
    ):
        check.check(argparse.Namespace(part="grating", settings=settings, **keys))
    with pytest.raises(ParameterError, match=r"part texture/grating: unknown kind; did you mean textures\?"):
        check.check(argparse.Namespace(part="texture/grating", settings=settings, **keys))
    assert check.check(argparse.Namespace(part="textures/grating", settings=settings, **keys)) == DONE
    assert capsys.readouterr().out.startswith("grating, of the textures:")


def test_a_key_of_a_scene_that_is_missing_is_no_property() -> None:
    with pytest.raises(ParameterError, match=r"scene\.tool: missing"):
        check.check(argparse.Namespace(part="world", within=None, settings=(), offline=True))


class Pushing(InertialDevice):
    """A body that moves against what is rendered."""

    def step(self, operator: np.ndarray, rendered: np.ndarray, period: float) -> None:
        super().step(operator, rendered, period)
        self.pose[:3] -= 0.1 * rendered[:3] * period


class PushingParameters(SimulatedForceDeviceParameters):
    """A device that gives energy."""

    type: Literal["pushing"] = "pushing"

    def body(self, context: DeviceContext) -> tuple[Pushing, tuple[float, float]]:
        return Pushing(1.0, 0.01, self.start_pose(context.hand, context.seed), planar=False), (1.0, 0.01)


class Odd:
    """An operator with a fault."""

    made = 0

    def __init__(self, fault: str):
        type(self).made += 1
        self._fault, self._number, self._kept = fault, Odd.made, [np.zeros(6)]

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        out[:] = np.nan if self._fault == "nan" and time > 0.1 else 0.1
        if self._fault == "reset":
            out[0] = self._number
        elif self._fault == "keeps":
            self._kept.append(np.zeros(6))
        elif self._fault == "large":
            out[0] = np.zeros(3000).sum()


class OddParameters(OperatorParameters):
    """An operator with a fault."""

    type: Literal["odd"] = "odd"
    fault: str = "none"

    def build(self, context: OperatorContext) -> Any:
        return Odd(self.fault)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("none", ()),
        ("nan", ("finite under random inputs",)),
        pytest.param("reset", (AGAIN[1], "the same bits after a reset"), marks=pytest.mark.exhaustive),
        ("keeps", ("a step holds at most 4096 B of new memory, and keeps none",)),
        pytest.param(
            "large", ("a step holds at most 4096 B of new memory, and keeps none",), marks=pytest.mark.exhaustive
        ),
    ],
)
def test_an_operator_with_a_fault_is_found_out(fault: str, found: tuple[str, ...]) -> None:
    trial = trial_of("operators", f"{__name__}:OddParameters", (f"operator.fault={fault}",))
    assert tuple(failed("operators", trial)) == found


def test_a_device_that_gives_energy_is_found_out() -> None:
    said = failed("devices", trial_of("devices", f"{__name__}:PushingParameters"))
    assert tuple(said) == ("passive: it gives back no more energy than it was given",)
    assert "more than it got" in said["passive: it gives back no more energy than it was given"]


PASSIVE = "passive: contacts add no energy beyond what is booked"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("contact_methods", "foreign_methods:OwnPenaltyParameters"),
        ("friction_models", "foreign_laws:OwnDahlParameters"),
    ],
)
def test_parts_of_another_package_have_all_properties(kind: str, name: str) -> None:
    assert failed(kind, trial_of(kind, name)) == {}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("contact_methods", "foreign_methods:DrivingMethodParameters"),
        ("friction_models", "foreign_laws:DrivingParameters"),
    ],
)
def test_contacts_that_give_energy_are_found_out(kind: str, name: str) -> None:
    assert PASSIVE in failed(kind, trial_of(kind, name))


@pytest.mark.parametrize(
    ("fault", "problem"),
    sampled(
        [(0, ""), (1, "that of the height is"), (2, "must be from -0.0002 m to 0"), (3, "largest_slope = ")],
        (1, "that of the height is"),
    ),
)
def test_a_texture_that_contradicts_itself_is_found_out(fault: int, problem: str) -> None:
    texture = {"type": "foreign_laws:WavesParameters", "amplitude": 1e-4, "fault": fault}
    settings = (f"scene.bodies.floor.shapes[0].texture={json.dumps(texture)}",)
    found = failed("textures", trial_of("textures", "foreign_laws:WavesParameters", settings))
    text = "its height is from -depth to 0, and its gradient and bounds are those of the height"
    said = found.pop(text, "")
    assert problem in said and bool(said) == (fault > 0)
    assert fault > 0 or found == {}


def test_an_analysis_declares_what_it_finds() -> None:
    assert not [one for one in properties_of_analysis(trial_of("analyses", "trial")) if one.problem]


class Undeclared(Analysis):
    """An analysis that finds more than it says, and something else each time."""

    def __init__(self) -> None:
        self.made = 0.0

    def judge(self, trial: Trial, samples: Samples, references: Any) -> Findings:
        self.made += 1.0
        return Findings({"work": self.made, "share": np.nan})

    def figures(self, *_: Any) -> Any:
        raise ValueError("nothing to draw")


UNDECLARED = Undeclared()


def test_an_analysis_with_faults_is_found_out() -> None:
    found = properties_of_analysis(trial_of("analyses", f"{__name__}:UNDECLARED"))
    assert {one.text: one.problem for one in found if one.problem} == {
        "it declares its metrics and claims": "not declared: work, share",
        "metrics are finite, or None": "not finite: share",
        "the same again": "two analyses of one trial differ",
        "its figures are made": "ValueError: nothing to draw",
    }


def test_what_is_no_part_is_said_for_each_kind() -> None:
    with pytest.raises(ParameterError) as error:
        check._found("os:getcwd")
    said = [line.partition(";")[0] for line in error.value.problems]
    kinds = [kind for kind in check.SECTIONS if kind != "analyses"]
    assert said == [*(f"os:getcwd is not one of the {kind}" for kind in kinds), "os:getcwd is not an analysis"]
    with pytest.raises(ParameterError, match="part inertal: unknown; did you mean inertial"):
        check._found("inertal")


def test_a_contact_method_that_pulls_is_found_out() -> None:
    trial = check._trial(
        groups()["contact_methods"],
        "foreign_methods:PullingMethodParameters",
        argparse.Namespace(within=None, settings=()),
    )
    assert "check the signs of its impulses" in failed("contact_methods", trial)["a trial goes on to its end"]


def test_a_contact_method_that_gives_no_number_is_found_out(tmp_path: Path) -> None:
    """The contact has no impulse in these steps: the ball passes through the wall, and every number is finite."""
    trial = trial_of("contact_methods", "foreign_methods:UndefinedMethodParameters").with_ticks(100)
    found = failed("contact_methods", trial)["its impulses are finite"]
    with Interruption() as interruption:
        summary = run_trial(trial, "offline", tmp_path, interruption)
    steps = summary["invalid_contact_steps"]
    assert 60 < steps < 70  # 1 mm to the wall at 2 m/s^2 takes 32 of the 100 ticks
    assert found == f"in {steps} steps a contact had no impulse: its answer has a NaN or an infinite number"
    assert summary["notices"][-1].endswith("the contact method gave a number that is not finite")
