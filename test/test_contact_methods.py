"""Contact methods of other packages: they act as ours do, and the energy balance judges them as it judges ours."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_methods import AnswerMethodParameters
from world_builder import Response, some_bodies, some_rows

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import load
from haptic_bench.recording.samples import Samples
from haptic_sim.contact.methods import CONTACT_METHODS, contact_method
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import World
from haptic_sim.tool.parameters import EnvironmentParameters

PENALTY = "foreign_methods:OwnPenaltyParameters"
DRIVING = "foreign_methods:DrivingMethodParameters"
SOFT = "lab_parts.contact_method:SoftContactParameters"
LONE_BALL = {
    "tool": "ball",
    "bodies": {"ball": {"joint": "free", "mass": 1, "shapes": [{"type": "sphere", "radius": 0.1}]}},
}
OURS = ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid")


@pytest.fixture(autouse=True)
def _example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "examples" / "own_parts"))


def box(method: Any, steps: int = 1500, **contact: Any) -> World:
    """A box that is thrown onto the floor, turned."""
    bodies = {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1], "offset": 0.0}]},
        "box": {
            "joint": "free",
            "mass": 1.0,
            "position": [0, 0, 0.0725],
            "rotation": [0.3, 0.2, 0.1],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        },
    }
    world = World({"tool": "box", "bodies": bodies}, environment={"method": method}, contact=contact)
    for _ in range(steps):
        world.step([2.0, 0, 0, 0, 0, 0.01])
    return world


def attempt(*settings: str) -> tuple[Samples, str]:
    (trial,) = load("corner_peg", ("duration=2", "analysis=trial", *settings))
    return analysis_of(trial.experiment).attempt(trial.in_mode("offline"))


def test_our_methods_are_parts_and_are_written_by_their_names() -> None:
    assert tuple(CONTACT_METHODS.entries()) == OURS
    for name in OURS:
        parameters = EnvironmentParameters.model_validate({"method": name})
        assert parameters.method == contact_method(name) == contact_method(parameters.method)
        assert parameters.model_dump()["method"] == name
        assert EnvironmentParameters().with_method(name).method == parameters.method


def test_a_method_of_another_package_gives_what_ours_gives() -> None:
    one, other = (box(m, penalty="explicit", friction={"model": "none"}) for m in ("penalty", PENALTY))
    np.testing.assert_allclose(other.pose, one.pose, atol=1e-9)
    for name, energy in one.energy.items():
        assert other.energy[name] == pytest.approx(energy, abs=1e-9), name


def test_the_example_rests_sticks_and_adds_no_energy() -> None:
    world = box(SOFT, 2500, friction={"static": 0.4, "kinetic": 0.4})
    height = world.pose[2]
    assert height == pytest.approx(0.05 - 9.81 / (4 * 4000.0), abs=1e-5)  # each corner bears a quarter
    assert np.abs(world.twist).max() < 1e-6
    assert world.energy["numerical"] <= 1e-9 and world.energy["friction"] > 0.0
    slides = box(SOFT, 2500, friction={"static": 0.1, "kinetic": 0.1})
    assert slides.twist[0] > 0.1  # 2 N beyond mu m g = 1 N


@pytest.mark.parametrize("method", [PENALTY, SOFT])
def test_a_trial_with_a_method_of_another_package_is_stable(method: str) -> None:
    samples, reason = attempt(f"environment.method={method}")
    assert not reason and (samples["contacts"] > 0).any()
    again, _ = attempt(f"environment.method={method}")
    assert all(samples[name].tobytes() == again[name].tobytes() for name in samples.names)


PROGRAM = """
from test_contact_methods import SOFT, box
world = box(SOFT, 30, friction={"static": 0.4, "kinetic": 0.3})
print(world.pose.tobytes().hex(), len(world.contacts))
"""


@pytest.mark.exhaustive
def test_a_method_gives_the_same_bits_in_python() -> None:
    """Where a debugger can step through it."""
    found = []
    for disabled in ("0", "1"):
        here = Path(__file__).resolve().parent
        folders = (here.parent, here, here.parent / "examples" / "own_parts")
        environment = os.environ | {"NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        command = [sys.executable, "-c", PROGRAM]
        found.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert found[0] == found[1] and not found[0].endswith(" 0\n")


def test_a_method_serves_a_local_model_and_a_world_behind_one() -> None:
    settings = ("local_model.type=full", "environment.rate=60", "local_model.constraints=static")
    samples, reason = attempt(f"environment.method={SOFT}", *settings)
    assert not reason and (samples["contacts"] > 0).any()


@pytest.mark.parametrize("claimed", [1.0, 0.0, -10.0, 10.0])
def test_the_energy_of_a_method_that_drives_is_numerical(claimed: float) -> None:
    """Whatever it says that it stores."""
    with pytest.raises(UnstableError):
        box({"type": DRIVING, "claimed": claimed}, 3000)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"normal": 0.2, "tangent": -0.1}, [0.2, -0.1, 0.0]),
        ({"normal": -0.2}, [-0.2, 0.0, 0.0]),
        ({"normal": math.nan}, [0.0, 0.0, 0.0]),
        ({"normal": 0.2, "tangent": math.inf}, [0.0, 0.0, 0.0]),
        ({"normal": 0.2, "stored": math.nan}, [0.0, 0.0, 0.0]),
        ({"normal": 0.2, "stored": -1.0, "loosened": -1.0}, [0.2, 0.0, 0.0]),
    ],
)
def test_what_is_not_finite_is_not_taken(keys: dict[str, float], expected: list[float]) -> None:
    """Energy that is owed would hide what is added."""
    rng = np.random.default_rng(20310)
    body, rows = some_bodies(rng, 1), some_rows(rng, 1, 3)
    response = Response(body, AnswerMethodParameters.model_construct(**keys))
    response.respond(rows)
    np.testing.assert_array_equal(response.impulses(rows), [expected] * 3)
    assert response.method.stored == 0.0 and not response.method.impulses.loosened.any()
    assert np.isfinite(response.method.u).all()


def test_a_contact_keeps_its_memory_wherever_its_row_is() -> None:
    rng = np.random.default_rng(20311)
    body, rows = some_bodies(rng, 1), some_rows(rng, 1, 4)
    response = Response(body, AnswerMethodParameters(normal=0.1))
    memory = response.method._method.contacts.lent.memory
    for count in range(1, 4):
        rows.id[:4] = np.roll(rows.id[:4], 1)
        rows.id[0] = 100 + count  # a contact that begins
        response.respond(rows)
    assert memory[:4, 0].tolist() == [1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("environment", "contact", "said"),
    [
        ({"method": {"type": "penalt"}}, {}, "penalt"),
        ({"method": "penalt"}, {}, "must be one of 'penalty'"),
        ({"method": {"type": "penalty", "turns": 3}}, {}, "turns"),
        ({"method": {"type": SOFT, "turns": 0}}, {}, "turns = 0: must be >= 1"),
        ({"method": "os:getcwd"}, {}, "not one of the contact_methods"),
        ({"method": SOFT}, {"self_collision": "printed"}, "not soft_contact; use consistent"),
    ],
)
def test_a_method_is_refused_as_ours_are(environment: Any, contact: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        World(LONE_BALL, environment=environment, contact=contact)


def test_a_name_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ParameterError, match="magic is not one of the contact_methods; must be one of penalty, "):
        contact_method("magic")


def test_the_error_of_a_method_that_pulls_names_the_method() -> None:
    """The stiffness is not to blame: no smaller one would do."""
    name = "foreign_methods:PullingMethodParameters"
    with pytest.raises(UnstableError) as error:
        box(name)
    said = str(error.value)
    assert f"contacts of environment.method = {name} added" in said and "check the signs of its impulses" in said
    assert "contact.stiffness" not in said
