"""Linkages and switched constraints in the hand: each claim holds, and fails of a trial that is wrong in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from claim_checks import Run, changed, frozen, names, scaled
from scipy.spatial.transform import Rotation

from haptic_bench.recording.samples import Samples
from haptic_experiments import constrained_contact

LINKAGES = ("crank", "door", "laparoscopic", "arm_singularity")

Mutation = Callable[[Samples], Samples]


def add(**more: float) -> Mutation:
    """Something added to columns."""
    return lambda samples: changed(samples, **more)


def turned(by: float) -> Mutation:
    """The device turned about x, the longer the more, up to `by` [rad]."""

    def mutate(samples: Samples) -> Samples:
        angle = by * samples["time"] / samples["time"][-1]
        turn = Rotation.from_rotvec(np.outer(angle, [1, 0, 0])) * Rotation.from_quat(samples.pose("hand")[:, 3:])
        return samples.with_columns({f"hand_q{axis}": turn.as_quat()[:, i] for i, axis in enumerate("xyzw")})

    return mutate


def kick(name: str, by: float) -> Mutation:
    """A velocity that is another for a tick in which nothing touches, in the midst of the trial."""

    def mutate(samples: Samples) -> Samples:
        row = int(np.flatnonzero(samples["contacts"] == 0)[np.count_nonzero(samples["contacts"] == 0) // 2])
        return changed(samples, **{name: np.where(np.arange(len(samples)) == row, by, 0.0)})

    return mutate


def leaks(samples: Samples) -> Samples:
    """The device moves where the linkage blocks: along its wrench, so that this does half the operator's work."""
    push = np.stack([samples[f"across_f{axis}"] for axis in "xyz"], axis=-1)
    square = np.where(samples["fading_directions"] == 0.0, np.sum(push * push, axis=1), 0.0)
    work = np.abs(np.sum(samples.wrench("operator") * samples.twist("hand"), axis=1)).sum()
    blocked = square > 1e-6
    along = 0.5 * work / blocked.sum() * push / np.where(blocked, square, np.inf)[:, None]
    return changed(samples, **{f"hand_v{axis}": along[:, i] for i, axis in enumerate("xyz")})


def halts(samples: Samples) -> Samples:
    """The flywheel stands still where the hand's force passes through the axle."""
    speed = np.array(samples["v0"])
    tangent = np.stack([-np.sin(samples["q0"]), np.cos(samples["q0"])], axis=-1)
    along = np.sum(tangent * np.stack([samples["pull_fx"], samples["pull_fz"]], axis=-1), axis=1)
    for row in np.flatnonzero(along[:-1] * along[1:] < 0.0):
        speed[row : row + 2] = 0.0
    return samples.with_columns({"v0": speed})


def slow_slam(samples: Samples) -> Samples:
    """The device is a tenth slower than the door."""
    return scaled(samples, 0.9, "hand_vx", "hand_vy", "hand_vz")


def tip_follows(samples: Samples) -> Samples:
    """A shaft that is shifted, not tilted: the tip goes with the handle."""
    return scaled(samples, 0.0, "hand_wx", "hand_wy", "hand_wz")


def numb(samples: Samples) -> Samples:
    """The tissue does not push."""
    return scaled(samples, 0.0, "env_fx", "env_fy", "env_fz")


def haunted(samples: Samples) -> Samples:
    """Something pushes where nothing touches."""
    return changed(samples, env_fz=np.where(samples["contacts"] == 0, 0.01, 0.0))


def jumps(samples: Samples) -> Samples:
    """What is felt changes by a fifth of its largest in a tick."""
    largest = np.linalg.norm(samples.wrench("felt")[:, :3], axis=1).max()
    step = np.where(samples["time"] > 2.5, 0.2 * largest, 0.0)
    return changed(samples, felt_fx=step, across_fx=step)


def shy(samples: Samples) -> Samples:
    """No direction is blocked where the elbow is straight."""
    return scaled(samples, 0.0, "constraint_directions")


def gone(samples: Samples) -> Samples:
    """A number is none."""
    values = np.array(samples["rendered_fy"])
    values[100] = np.nan
    return samples.with_columns({"rendered_fy": values})


TABLE: list[tuple[str, str, Mutation]] = [
    ("crank", "dead_points", halts),
    ("crank", "work_is_speed", lambda samples: scaled(samples, np.linspace(1.0, 1.5, len(samples)), "v0")),
    ("crank", "knob_stays_upright", turned(1e-5)),
    ("door", "arc", add(hand_pz=1e-3)),
    ("door", "slam_speed", slow_slam),
    ("laparoscopic", "entry_point", add(hand_px=1e-3)),
    ("laparoscopic", "fulcrum", tip_follows),
    ("laparoscopic", "feels_tissue", numb),
    ("laparoscopic", "feels_tissue", haunted),
    ("arm_singularity", "through", shy),
    ("arm_singularity", "no_jump", jumps),
    ("arm_singularity", "finite", gone),
]
for each in LINKAGES:
    TABLE += [
        (each, "blocked_directions", add(constraint_directions=1.0)),
        (each, "no_work", leaks),
        (each, "law", kick("v0", 1e-3)),
        (each, "energy", lambda samples: changed(samples, energy_numerical=0.1 * samples["time"])),
        (each, "together", lambda samples: changed(samples, drift=2e-3)),
    ]
TABLE += [("arm_singularity", "energy", lambda samples: changed(samples, energy_numerical=1.0))]
# on a tool alone
ALONE: list[tuple[str, str, Mutation]] = [
    ("crank", "knob_stays_upright", lambda samples: changed(samples, q1=1e-6 * samples["time"])),
    ("door", "arc", add(tool_pz=2e-9)),
    ("door", "slam_speed", lambda samples: scaled(samples, 0.98, "v0")),
    ("laparoscopic", "entry_point", add(tool_px=2e-9)),
    ("laparoscopic", "fulcrum", lambda samples: scaled(samples, 1.0 + 1e-4, "tool_wx", "tool_wy", "tool_wz")),
]
MADE = ("blocked_directions", "no_work", "together", "no_jump", "through")  # of columns that the analysis makes


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: Run(name) for name in LINKAGES}


@pytest.fixture(scope="module")
def alone() -> dict[str, Run]:
    settings = ("device.type=none", "controller.type=none")
    return {name: Run(name, *settings) for name in ("crank", "door", "laparoscopic")}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LINKAGES)
def test_each_claim_holds_and_has_a_mutation(name: str, runs: dict[str, Run]) -> None:
    declared = names(runs[name].analysis.CLAIMS)  # type: ignore[arg-type]
    assert {claim for linkage, claim, _ in TABLE if linkage == name} == set(declared)
    assert runs[name].holds() == dict.fromkeys(declared, True)


def verdict(run: Run, claim: str, mutation: Mutation) -> bool | None:
    """Of a mutated trial; columns that the analysis makes are not made again where it is these that are wrong."""
    wrong = mutation(run.samples)
    if claim not in MADE:
        return run.holds(wrong)[claim]
    claims = run.analysis.analyse(run.trial, wrong, compare=False).claims
    return next(one.holds for one in claims if one.name == claim)


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", range(len(TABLE)))
def test_a_trial_that_is_wrong_fails(row: int, runs: dict[str, Run]) -> None:
    name, claim, mutation = TABLE[row]
    assert verdict(runs[name], claim, mutation) is False


@pytest.mark.parametrize("row", range(len(ALONE)))
def test_a_tool_alone_that_is_wrong_fails(row: int, alone: dict[str, Run]) -> None:
    name, claim, mutation = ALONE[row]
    assert verdict(alone[name], claim, lambda samples: samples) is True
    assert verdict(alone[name], claim, mutation) is False


ADMITTANCE = ("device.type=admittance", "controller.type=admittance")


def test_on_an_admittance_device_the_hand_feels_what_its_sensor_tells() -> None:
    """Not what its drive does to move 60 kg; until the door slams, faster than the drive can stop, all holds."""
    run = Run("door", *ADMITTANCE, "duration=0.85")
    np.testing.assert_array_equal(run.samples.wrench("felt"), -run.samples.wrench("operator"))
    found = run.holds()
    assert found.pop("slam_speed") is None
    assert found == dict.fromkeys(found, True)
    slammed = Run("door", *ADMITTANCE, "duration=1.0").holds()
    assert slammed["together"] is False and slammed["no_work"] is True and slammed["slam_speed"] is True


@pytest.mark.exhaustive
def test_where_a_sensor_is_noisy_it_is_open_whether_forces_jump() -> None:
    for noise, decided in (("[0.02,5e-4]", False), ("[0,0]", True)):
        run = Run("constrained_contact", *ADMITTANCE, f"device.noise={noise}", "duration=1.0")
        claims = run.analysis.analyse(run.trial, run.samples).claims
        (claim,) = [one for one in claims if one.name == "no_jump"]
        assert (claim.holds is not None) is decided, noise
        assert claim.reason.startswith("noise of the force sensor") is not decided


# A tool under constraints that are switched


def into_the_wall(samples: Samples) -> Samples:
    """By two micrometres, where it touches."""
    return changed(samples, q0=np.where(samples["contacts"] > 0, 2e-6, 0.0))


def sticks(samples: Samples) -> Samples:
    """After the first collision it comes back with half the velocity."""
    row = int(np.flatnonzero(samples["colliding"] > 0)[0])
    return scaled(samples, np.where(np.arange(len(samples)) > row, 0.5, 1.0), "v0", "v1", "v2")


SWITCHED: list[tuple[str, Mutation]] = [
    ("constraints_hold", add(residual_holonomic=1e-9)),
    ("constraints_hold", lambda samples: frozen(samples, "tool", 3.0)),
    ("balance", lambda samples: scaled(samples, 100.0, "energy_numerical")),
    ("restitution", sticks),
    ("no_overlap", into_the_wall),
]
AT_ONCE = ("no_jump", "would_jump")


def test_each_claim_of_switched_constraints_has_a_mutation() -> None:
    assert {claim for claim, _ in SWITCHED} | set(AT_ONCE) == set(names(constrained_contact.CLAIMS))


@pytest.fixture(scope="module")
def switched() -> Run:
    return Run("constrained_contact", "duration=3.5")


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", range(len(SWITCHED)))
def test_a_switched_trial_that_is_wrong_fails(row: int, switched: Run) -> None:
    claim, mutation = SWITCHED[row]
    assert switched.holds()[claim] is True
    assert switched.holds(mutation(switched.samples))[claim] is False


def test_constraints_that_are_switched_at_once_jump() -> None:
    """Within a tick or two the slope doubles with the rate, and nothing is steeper than that."""
    fades = [f"scene.constraints.{name}.fade=1e-3" for name in ("upright", "circle")]
    found = Run("constrained_contact", "duration=1.4", *fades).holds(compare=True)
    assert {name: found[name] for name in AT_ONCE} == dict.fromkeys(AT_ONCE, False)
