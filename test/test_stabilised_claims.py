"""YUN's two examples: each claim holds, and fails of a trial that is wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from claim_checks import Run, changed, frozen, lagging, names, scaled
from offline_runs import simulated_once
from scipy.spatial.transform import Rotation

from haptic_bench.recording.samples import Samples

NAMES = {
    "rolling_spheres": ["error_decays", "regained", "settled", "rolls", "independent_motion"],
    "two_link_closed_loop": ["error_decays", "converged", "rigid_pendulum"],
}

Mutation = Callable[[Samples], Samples]


def held(time: float, ticks: int = 1) -> Mutation:
    """The solver keeps the tool where it was."""
    return lambda samples: frozen(samples, "tool", time, ticks)


def never_touches(samples: Samples) -> Samples:
    """The spheres stay a millimetre apart after the displacement."""
    return changed(samples, q0=np.where(samples["time"] > 5.0, 1e-3, 0.0))


def slower(samples: Samples) -> Samples:
    """The error decays with a rate that is a fifth less."""
    error = samples["q0"] - 0.6
    return samples.with_columns({"q0": 0.6 + np.sign(error) * np.abs(error) ** 0.8})


def slips(samples: Samples) -> Samples:
    """By a micrometre per second."""
    return changed(samples, v1=1e-6)


def spun(samples: Samples) -> Samples:
    """It turns by 10 µrad too far in the end."""
    more = Rotation.from_rotvec(np.outer(1e-6 * samples["time"], [0, 0, 1]))
    turned = (more * Rotation.from_quat(samples.pose("tool")[:, 3:])).as_quat()
    return samples.with_columns({f"tool_q{axis}": turned[:, i] for i, axis in enumerate("xyzw")})


def elsewhere(samples: Samples) -> Samples:
    """It rolls off sideways by 1 µm."""
    return changed(samples, tool_py=1e-7 * samples["time"])


def apart(samples: Samples) -> Samples:
    """The joint opens again by 20 mm, from half a second on."""
    return changed(samples, q1=np.where(samples["time"] > 0.5, 0.02, 0.0))


def folds(samples: Samples) -> Samples:
    """Link 2 creeps against link 1 by 0.1 mrad."""
    return changed(samples, q3=1e-4 * samples["time"] / samples["time"][-1])


TABLE: list[tuple[str, str, Mutation]] = [
    ("rolling_spheres", "error_decays", slower),
    ("rolling_spheres", "error_decays", held(0.1, 5)),
    ("rolling_spheres", "regained", never_touches),
    ("rolling_spheres", "settled", slower),
    ("rolling_spheres", "settled", held(2.0)),
    ("rolling_spheres", "settled", held(0.001, 200)),
    ("rolling_spheres", "rolls", slips),
    ("rolling_spheres", "independent_motion", spun),
    ("rolling_spheres", "independent_motion", elsewhere),
    ("rolling_spheres", "independent_motion", lambda samples: lagging(samples, "tool", 1)),
    ("two_link_closed_loop", "error_decays", held(0.2, 2)),
    ("two_link_closed_loop", "converged", apart),
    ("two_link_closed_loop", "converged", held(2.0)),
    ("two_link_closed_loop", "rigid_pendulum", folds),
    ("two_link_closed_loop", "rigid_pendulum", lambda samples: scaled(samples, 1.001, "q0", "q3")),
]


@pytest.fixture(scope="module", autouse=True)
def each_trial_once() -> Iterator[None]:
    with simulated_once():
        yield


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: Run(name) for name in NAMES}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_the_contract_and_each_has_a_mutation(name: str, runs: dict[str, Run]) -> None:
    assert names(runs[name].analysis.CLAIMS) == NAMES[name]  # type: ignore[arg-type]
    assert {claim for experiment, claim, _ in TABLE if experiment == name} == set(NAMES[name])
    assert runs[name].holds(compare=True) == dict.fromkeys(NAMES[name], True)


@pytest.mark.long
@pytest.mark.parametrize("row", range(len(TABLE)))
def test_a_trial_that_is_wrong_fails(row: int, runs: dict[str, Run]) -> None:
    name, claim, mutation = TABLE[row]
    # what is compared with runs of other settings needs these
    assert runs[name].holds(mutation(runs[name].samples), compare=claim == "regained")[claim] is False


def test_printed_rolling_and_a_push_leave_the_motion_undecided() -> None:
    printed = Run("rolling_spheres", "constraint.rolling=printed", "duration=0.2")
    assert printed.holds()["independent_motion"] is None
    run = Run("rolling_spheres", "duration=0.2")
    assert run.holds(changed(run.samples, operator_fy=1.0))["independent_motion"] is None


@pytest.mark.long
def test_a_device_that_renders_the_sphere_decides() -> None:
    """It cannot be displaced by 5 cm in a tick, nor begin with a velocity; pushed from rest in contact, it rolls."""
    found = Run("rolling_spheres", "device.type=admittance").holds()
    assert (found["error_decays"], found["rolls"], found["settled"]) == (False, False, True)
    rest = ("scene.start=[0.6,0.2,0.1,0.3,0.9,0.2]", "scene.velocity=[0,0,0,0,0,0]", "scene.disturbance=0")
    pushed = "operator.wrench=[0,0.3,0.2,0.01,0,0]"
    run = Run("rolling_spheres", "device.type=admittance", *rest, pushed, "duration=1")
    assert np.linalg.norm(run.samples.twist("hand")[-1, :3]) > 0.1
    found = run.holds()
    assert (found["error_decays"], found["rolls"], found["settled"]) == (True, True, True)
    assert run.holds(changed(run.samples, hand_wz=0.05))["rolls"] is False
    lifted = run.holds(scaled(run.samples, 1.02, "hand_px", "hand_py", "hand_pz"))
    assert (lifted["error_decays"], lifted["settled"]) == (False, False)


TOGETHER = ("scene.start=[0.3,1.925,1.085,1.554]", "scene.gravity=1", "constraint.gamma=1", "duration=17")
"""Links that start a few millimetres apart and swing slowly, so that a device that starts at rest can follow."""


def turned_hand(samples: Samples) -> Samples:
    """The device turns 2 mrad too far in the end, about its hand point."""
    more = Rotation.from_rotvec(np.outer(2e-3 * samples["time"] / samples["time"][-1], [0, 0, 1]))
    turned = (more * Rotation.from_quat(samples.pose("hand")[:, 3:])).as_quat()
    return samples.with_columns({f"hand_q{axis}": turned[:, i] for i, axis in enumerate("xyzw")})


def ahead_of_the_pendulum(samples: Samples) -> Samples:
    """The device goes 4 mm too far in the end, across the line from the hinge."""
    along = 4e-3 * samples["time"] / samples["time"][-1]
    x, y = samples["hand_px"], samples["hand_py"]
    return changed(samples, hand_px=-along * y / np.hypot(x, y), hand_py=along * x / np.hypot(x, y))


@pytest.fixture(scope="module")
def displayed() -> Run:
    return Run("two_link_closed_loop", "device.type=admittance", *TOGETHER)


@pytest.mark.long
def test_a_device_that_renders_link_2_decides(displayed: Run) -> None:
    """It cannot begin with a velocity, as the links of the experiment do; their tool alone is right."""
    assert displayed.holds() == dict.fromkeys(NAMES["two_link_closed_loop"], True)
    run = Run("two_link_closed_loop", "device.type=admittance")
    assert run.holds() == dict.fromkeys(NAMES["two_link_closed_loop"], False)
    claims = {claim.name: claim for claim in run.analysis.analyse(run.trial, run.samples, compare=False).claims}
    assert (claims["error_decays"].measured["tool, deviation"] or 1.0) < 1e-10
    assert (claims["converged"].measured["tool, left"] or 1.0) < 0.01


@pytest.mark.parametrize(
    "claim, mutation",
    [
        ("error_decays", lambda samples: changed(samples, hand_px=2e-4)),
        ("error_decays", turned_hand),
        ("error_decays", lambda samples: lagging(samples, "hand", 5)),
        ("converged", lambda samples: changed(samples, hand_py=np.where(samples["time"] > 2.0, 1e-3, 0.0))),
        ("converged", lambda samples: frozen(samples, "tool", 2.0)),
        ("rigid_pendulum", turned_hand),
        ("rigid_pendulum", ahead_of_the_pendulum),
        ("rigid_pendulum", lambda samples: frozen(samples, "hand", 15.5, 1000)),
    ],
)
def test_a_device_that_moves_wrongly_fails(claim: str, mutation: Mutation, displayed: Run) -> None:
    assert displayed.holds(mutation(displayed.samples))[claim] is False


def test_a_push_leaves_the_pendulum_of_a_device_undecided() -> None:
    pushed = ("operator.wrench=[0,1,0,0,0,0]", "duration=5", "constraint.gamma=5", *TOGETHER[:2])
    assert Run("two_link_closed_loop", "device.type=admittance", *pushed).holds()["rigid_pendulum"] is None
