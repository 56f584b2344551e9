"""Acceptance of a hardware device's readings: real motions always, a field that is wrong not for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from fake_hardware import RATE, TICK, Bench, Fake
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

from haptic_drivers.bound import JUMP, Bound, BoundParameters
from haptic_drivers.devices.life import Request
from haptic_drivers.driver import REJECTED
from haptic_drivers.readings import DISAGREES, GRACE, LAG, REST, WINDOW, Readings, forget, judge
from haptic_sim.messages import FAULT, Reason
from haptic_sim.packed import Packed

SPEED = np.array([1.5, 20.0])  # limits [m/s, rad/s]
STEP = 1e-4  # [s] of the true motion
DURATION = 1.5  # [s]
WATCHDOG = 0.005  # [s] of readings, as of each device in config/devices


def judged(period: float = 1e-3) -> tuple[Readings, Packed]:
    """What has believed no reading yet."""
    bound = BoundParameters(wrench=(1.0,) * 6, rate=(1.0,) * 6, velocity=(float(SPEED[0]), float(SPEED[1])))
    kept = Readings.of(Bound.of(bound), period)
    return kept, Packed(kept)


# What a device measures of real motions is believed


def minimum_jerk(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Strokes to random places with rests between them, of a highest speed of 1: place and velocity (n, size)."""
    t = np.arange(0.0, DURATION, STEP)
    x, v, here, begin = np.zeros((len(t), size)), np.zeros((len(t), size)), np.zeros(size), rng.uniform(0.0, 0.1)
    while begin < DURATION:
        there, length = rng.normal(0.0, 1.0, size), rng.uniform(0.05, 0.5)
        s = np.clip((t - begin) / length, 0.0, 1.0)[:, None]
        x += (10 * s**3 - 15 * s**4 + 6 * s**5) * (there - here)
        v += (30 * s**2 - 60 * s**3 + 30 * s**4) * (there - here) / length
        here, begin = there, begin + length + rng.choice([0.0, 0.0, 0.1])
    fastest = np.linalg.norm(v, axis=1).max()
    return x / fastest, v / fastest


def hand_motion(rng: np.random.Generator, size: int, fastest: float) -> tuple[np.ndarray, np.ndarray]:
    """With tremor, and with impacts on a stiff wall, from which it rebounds or at which it stops at once."""
    x, v = minimum_jerk(rng, size)
    t = np.arange(len(x))[:, None] * STEP
    w, phase = 2 * np.pi * rng.uniform(8.0, 12.0, size), rng.uniform(0.0, 6.0, size)
    tremor = rng.uniform(0.0, 1e-3) * (1.0 if size == 3 else 20.0)
    x, v = fastest * x + tremor * np.sin(w * t + phase), fastest * v + tremor * w * np.cos(w * t + phase)
    wall = rng.uniform(x[:, 0].min(), x[:, 0].max())
    behind = x[:, 0] > wall
    if rng.random() < 0.5:
        x[behind, 0], v[behind, 0] = 2.0 * wall - x[behind, 0], -v[behind, 0]
    else:
        x[behind, 0], v[behind, 0] = wall, 0.0
    return x, v


def fast_start(rng: np.random.Generator, size: int, fastest: float) -> tuple[np.ndarray, np.ndarray]:
    """From rest to the whole speed at once, back and forth, and to rest at once."""
    t = np.arange(0.0, DURATION, STEP)
    along = np.zeros(size)
    along[0] = fastest
    speed = np.repeat(rng.choice([-1.0, 0.0, 1.0], 15), len(t) // 15)[:, None]
    speed[: len(t) // 5] = 0.0
    v = speed * along
    return np.vstack([np.zeros(size), np.cumsum(v, axis=0)[:-1] * STEP]), v


def smoothed(v: np.ndarray, lag: float, kind: str) -> np.ndarray:
    """As a vendor's estimator tells it: as it is, through a filter of first order, or the mean of a window."""
    if kind == "filter" and lag > STEP:
        part = -np.expm1(-STEP / lag)
        return np.asarray(lfilter([part], [1.0, part - 1.0], v, axis=0))
    if kind == "mean" and lag > STEP:
        n = round(lag / STEP)
        return np.asarray(lfilter(np.ones(n) / n, [1.0], v, axis=0))
    return v


def read(rng: np.random.Generator, motion: Callable[..., tuple[np.ndarray, np.ndarray]], how: dict[str, Any]) -> int:
    """Judge what is measured of a motion in each tick; how many readings were rejected."""
    fastest = SPEED * rng.uniform(0.2, 1.0)
    (x, v), (angle, spin) = motion(rng, 3, fastest[0]), motion(rng, 1, fastest[1])
    axis = rng.normal(0.0, 1.0, 3)
    axis /= np.linalg.norm(axis)
    resolution = how["resolution"] * np.array([1.0, 20.0])
    x, angle = (step * np.rint(one / step) if step else one for one, step in zip((x, angle), resolution, strict=True))
    told = np.hstack([smoothed(v, how["lag"], how["kind"]), smoothed(spin, how["lag"], how["kind"]) * axis])
    pose = np.hstack([x, Rotation.from_rotvec(angle * axis).as_quat()])
    taken, arrived = exchanges(rng, how)
    rows = np.rint(taken / STEP).astype(int)
    poses, twists = pose[rows], told[rows]
    if how["kind"] == "difference":
        twists = differences(poses, arrived, arrived - taken > WATCHDOG, how["lag"])
    period = 1.0 / how["rate"]
    kept, packed = judged(period)
    ticks = np.arange(arrived[0], arrived[-1], period) + rng.uniform(0.0, 0.2 * period)
    newest = np.searchsorted(arrived, ticks, side="right") - 1
    rejected = 0
    for t, j in zip(ticks, newest, strict=True):
        wrong = judge(packed, poses[j], twists[j], round(1e9 * t), t - arrived[j])
        rejected += wrong != 0
        if t - arrived[j] > WATCHDOG:  # no force is let through, and the next reading is the first
            forget(kept)
    return rejected


def exchanges(rng: np.random.Generator, how: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """When each reading is taken, and when it arrives [s]: the next is asked for then."""
    taken, arrived, now = [], [], 0.0
    while now < DURATION - 2 * STEP:
        taken.append(now)
        stalls = rng.random() < 5.0 / how["reading_rate"]  # five in a second
        arrived.append(now + rng.uniform(0.0, how["jitter"]) + how["stall"] * stalls)
        now = max(now + 1.0 / how["reading_rate"], arrived[-1])
    return np.array(taken), np.array(arrived)


def differences(poses: np.ndarray, arrived: np.ndarray, late: np.ndarray, lag: float) -> np.ndarray:
    """Filtered differences of what was read by the times of arrival, as a driver makes them; not of what was late."""
    found, before = np.zeros((len(poses), 6)), 0
    turned = (Rotation.from_quat(poses[1:, 3:]) * Rotation.from_quat(poses[:-1, 3:]).inv()).as_rotvec()
    for k in range(1, len(poses)):
        found[k] = found[k - 1]
        elapsed = arrived[k] - arrived[before]
        if late[before]:
            found[k], before = 0.0, k
        elif elapsed > 1e-5:
            way = np.hstack([poses[k, :3] - poses[before, :3], turned[before:k].sum(axis=0)])
            found[k] += elapsed / (elapsed + lag) * (way / elapsed - found[k - 1])
            before = k
    return found


def random_way(rng: np.random.Generator) -> dict[str, Any]:
    """How a device is read: its rate and that of the servo, smoothing, resolution, delays."""
    rate = float(rng.choice([200.0, 500.0, 1000.0, 2000.0, 4000.0]))
    reading_rate = float(rng.choice([250.0, 500.0, 1000.0, 1100.0, 4000.0]))
    kind = str(rng.choice(["exact", "filter", "mean", "difference"]))
    return {
        "rate": rate,
        "reading_rate": reading_rate,
        "kind": kind,
        "lag": float(rng.choice([0.0, 2e-3, 5e-3, LAG])) if kind != "difference" else float(rng.choice([2e-3, LAG])),
        "resolution": float(rng.choice([0.0, 1e-5, 1e-4])),
        "jitter": float(rng.choice([0.0, 2e-4, 2e-3])),
        "stall": float(rng.choice([0.0, 5e-3, 30e-3])),
    }


@pytest.mark.parametrize("motion", [hand_motion, fast_start])
def test_real_motions_are_always_believed(motion: Any) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        how = random_way(rng)
        assert read(rng, motion, how) == 0, (seed, how)


@pytest.mark.exhaustive
@pytest.mark.parametrize("motion", [hand_motion, fast_start])
@pytest.mark.parametrize("block", range(10))
def test_many_real_motions_are_always_believed(motion: Any, block: int) -> None:
    for seed in range(100 * block + 10, 100 * block + 50):
        rng = np.random.default_rng(seed)
        how = random_way(rng)
        assert read(rng, motion, how) == 0, (seed, how)


# A field that is wrong alone is found in time, whatever the others are


class Swinging(Fake):
    """A hand that swings to and fro, and a device that spoils one field of what it reads.

    Attributes:
        spoil: changes a reading that is right; None: nothing is wrong.
    """

    spoil: Callable[[Swinging, Any], None] | None = None
    sway, turning = 0.2, 1.5  # amplitudes [m, rad]
    pace = 2.0 * np.pi  # [rad/s]

    def read(self, reading: Any) -> bool:
        """As of Fake."""
        t, axis = 1e-9 * self.now, np.array([0.6, 0.0, 0.8])
        self.pose[:3] = self.sway * np.sin(self.pace * t) * axis
        self.twist[:3] = self.sway * self.pace * np.cos(self.pace * t) * axis
        self.pose[3:] = Rotation.from_rotvec(self.turning * np.sin(self.pace * t) * axis).as_quat()
        self.twist[3:] = self.turning * self.pace * np.cos(self.pace * t) * axis
        told = super().read(reading)
        if self.spoil is not None:
            self.spoil(reading)  # type: ignore[call-arg, arg-type]
        return told


def of_pose(change: Callable[[np.ndarray], Any], part: slice) -> Callable[[Any], None]:
    """What replaces a part of the pose by a function of it."""

    def spoil(reading: Any) -> None:
        reading.pose[part] = change(reading.pose[part])

    return spoil


def of_twist(change: Callable[[np.ndarray], Any], part: slice) -> Callable[[Any], None]:
    """What replaces a part of the twist by a function of it."""

    def spoil(reading: Any) -> None:
        reading.twist[part] = change(reading.twist[part])

    return spoil


LINEAR, ANGULAR, QUATERNION = slice(0, 3), slice(3, 6), slice(3, 7)
VALUES = {
    "nan": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "1e30": 1e30,
    "-1e30": -1e30,
    "1e300": 1e300,
    "huge": 1e5,
    "largest": np.finfo(float).max,
}


def wrong_fields() -> dict[str, Callable[[Any], None]]:
    """Each field wrong in value, sign, unit and age, by name."""
    found: dict[str, Callable[[Any], None]] = {}
    for name, value in VALUES.items():
        for i in range(3):
            found[f"position {'xyz'[i]} {name}"] = of_pose(lambda _, v=value: v, slice(i, i + 1))
            found[f"velocity {'xyz'[i]} {name}"] = of_twist(lambda _, v=value: v, slice(i, i + 1))
            found[f"angular velocity {'xyz'[i]} {name}"] = of_twist(lambda _, v=value: v, slice(3 + i, 4 + i))
        for i in range(4):
            found[f"quaternion {'xyzw'[i]} {name}"] = of_pose(lambda _, v=value: v, slice(3 + i, 4 + i))
    for name, change in {
        "of the wrong sign": lambda v: -v,
        "in mm/s": lambda v: 1e3 * v,
        "in km/s": lambda v: 1e-3 * v,
        "that is none": lambda v: 0.0 * v,
        "with exchanged axes": lambda v: v[[1, 0, 2]],
    }.items():
        found[f"velocity {name}"] = of_twist(change, LINEAR)
    for name, change in {
        "of the wrong sign": lambda v: -v,
        "in degrees": np.degrees,
        "of degrees": np.radians,
        "that is none": lambda v: 0.0 * v,
        "in another frame": lambda v: v[[1, 2, 0]],
    }.items():
        found[f"angular velocity {name}"] = of_twist(change, ANGULAR)
    found |= {
        "position in mm": of_pose(lambda p: 1e3 * p, LINEAR),
        "position of the wrong sign": of_pose(lambda p: -p, LINEAR),
        "position that is frozen": of_pose(lambda p: 0.0 * p, LINEAR),
        "quaternion of zeros": of_pose(lambda q: 0.0 * q, QUATERNION),
        "quaternion twice as long": of_pose(lambda q: 2.0 * q, QUATERNION),
        "quaternion in degrees": of_pose(np.degrees, QUATERNION),
        "quaternion that is conjugate": of_pose(lambda q: q * (-1, -1, -1, 1), QUATERNION),
        "quaternion w first": of_pose(lambda q: q[[3, 0, 1, 2]], QUATERNION),
        "quaternion that is frozen": of_pose(lambda q: (0.0, 0.0, 0.0, 1.0), QUATERNION),
    }
    return found


WRONG = wrong_fields()
SAMPLE = [
    "velocity x 1e30",
    "velocity of the wrong sign",
    "velocity that is none",
    "angular velocity y nan",
    "angular velocity in degrees",
    "position in mm",
    "position that is frozen",
    "quaternion of zeros",
    "quaternion that is conjugate",
]
PUSH = (1.0, -2.0, 3.0, 0.1, 0.0, 0.0)
SIX = ["x", "y", "z", "rx", "ry", "rz"]
WRIST: dict[str, Any] = {"sensed": SIX, "actuated": SIX, "wrench_limit": [8.0] * 3 + [1.0] * 3}
WRIST["bound"] = {"wrench": [10.0] * 3 + [1.0] * 3, "rate": [1e5] * 6, "velocity": [1.5, 20.0]}
IN_TIME = 400  # ticks of 1 ms, in which the hand turns round


def swinging(**keys: Any) -> Bench:
    """A device in the hand that has force."""
    bench = Bench(kind=Swinging, **WRIST, **keys)
    bench.fake.limit = np.array(WRIST["bound"]["wrench"]) * (1 + 1e-12)
    bench.step(PUSH, 500)
    assert bench.fake.force.any() and bench.driver.rejected == 0
    return bench


def check_wrong(name: str) -> None:
    """The device has a fault that names the field in time, no force, finite states; and it is usable again."""
    bench = swinging()
    bench.fake.spoil = WRONG[name]  # type: ignore[attr-defined]
    for _ in range(IN_TIME):
        state = bench.step(PUSH)
        assert state.is_finite() and np.abs(state.twist[:3]).max() <= JUMP * SPEED[0]
        if state.state == FAULT:
            break
    fault = bench.link.life.fault
    assert state.state == FAULT and not bench.fake.force.any(), name
    assert bench.driver.rejected >= REJECTED and fault.startswith("device: readings rejected from tick "), fault
    assert any(word in fault for word in ("not finite", "no orientation", "too fast", "further from", "against"))
    bench.step(PUSH, 20)
    assert not bench.fake.force.any() and state.reason == Reason.FAILED
    bench.fake.spoil = None  # type: ignore[attr-defined]
    assert bench.link.ask(Request.ENABLE) == ""
    bench.settle()
    bench.step(PUSH, 10)
    assert bench.fake.force.any()
    bench.replay()


@pytest.mark.parametrize("name", SAMPLE)
def test_a_field_that_is_wrong_alone_ends_the_force(name: str) -> None:
    check_wrong(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(set(WRONG) - set(SAMPLE)))
def test_each_field_that_is_wrong_alone_ends_the_force(name: str) -> None:
    check_wrong(name)


def test_what_is_wrong_is_said_with_what_was_found_and_what_is_allowed() -> None:
    bench = swinging()
    bench.fake.spoil = WRONG["velocity x 1e30"]  # type: ignore[attr-defined]
    bench.step(PUSH, 6)
    wanted = "too fast: velocity 1e+30 m/s, at most 7.5 m/s, 5 times device.bound.velocity"
    assert bench.link.life.fault.endswith(wanted)
    assert any(wanted in text for text in bench.said)


def test_a_single_velocity_that_is_wrong_is_replaced_and_forgotten() -> None:
    bench = swinging()
    before = bench.step(PUSH).twist.copy()
    bench.fake.spoil = WRONG["velocity x 1e30"]  # type: ignore[attr-defined]
    state = bench.step(PUSH)
    np.testing.assert_array_equal(state.twist, before)
    assert state.reading_tick == bench.tick - 1 and bench.fake.force.any()
    bench.fake.spoil = None  # type: ignore[attr-defined]
    assert bench.step(PUSH, 100).reading_tick == bench.tick and bench.driver.rejected == 1
    bench.replay()


@pytest.mark.parametrize(
    "speed", sampled([0.02, 0.1, 1.0, 7.0], 0.1, 7.0)
)  # [m/s]; the first is 2.7 times what is never found
def test_what_a_phantom_velocity_does_to_a_hand_at_rest_is_bounded(speed: float) -> None:
    """By the impulse of a damping that is derived in haptic_drivers/readings.py."""
    bench = swinging()
    bench.fake.sway = bench.fake.turning = 0.0  # type: ignore[attr-defined]
    bench.fake.now += 10 * TICK  # a pause, as the hand is put down
    bench.step(PUSH, 3000)
    bench.fake.spoil = of_twist(lambda _: (speed, 0.0, 0.0), LINEAR)  # type: ignore[attr-defined]
    damping, given = 1.0, 0.0  # [N s/m], [N s]
    push = np.zeros(6)
    while (state := bench.step(push)).state != FAULT:
        push[0] = -damping * state.twist[0]
        given += abs(bench.fake.force[0]) / RATE
    assert not bench.fake.force.any()
    allowed = REST * GRACE * SPEED[0]  # [m]
    bound = damping * (allowed * (1.0 + allowed / (speed * WINDOW)) + REJECTED * speed / RATE)
    assert 0.5 * bound <= given + damping * speed / RATE <= 1.1 * bound + 2.0 * damping * speed / RATE


def test_motion_at_a_large_scale_is_believed() -> None:
    """Readings are judged at the hand: the tool may be a hundred times as fast."""
    bench = swinging(motion_scale=100.0)
    bench.step(PUSH, 1000)
    assert bench.driver.rejected == 0 and np.abs(bench.state.twist[:3]).max() > 2.0 * JUMP * SPEED[0]


def test_walls_and_compensation_go_by_the_last_good_reading() -> None:
    bench = Bench(workspace=[-0.1, -0.1, -0.1, 0.1, 0.1, 0.1], wall=[500.0, 10.0])
    bench.fake.pose[:3] = [0.102, 0.0, 0.0]
    bench.step(count=3)
    assert bench.fake.force[0] == pytest.approx(-1.0)
    bench.fake.twist[0], bench.fake.pose[6] = 1e30, 5.0
    bench.step()
    assert bench.fake.force[0] == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda reading: setattr(reading, "time_ns", 0), Reason.OLD_READING),
        (lambda reading: setattr(reading, "time_ns", 400_000_000), Reason.OLD_READING),
        (lambda reading: setattr(reading, "time_ns", -(2**62)), Reason.OLD_READING),
        (lambda reading: setattr(reading, "homed", False), Reason.NOT_HOMED),
        (lambda reading: setattr(reading, "present", 7), Reason.NO_PRESENCE),
        (lambda reading: setattr(reading, "present", -1), Reason.NO_PRESENCE),
        (lambda reading: setattr(reading, "fault", "hot"), Reason.FAILED),
    ],
)
def test_ages_and_flags_that_are_wrong_end_the_force(spoil: Callable[[Any], None], reason: Reason) -> None:
    bench = Bench(kind=Swinging, presence="sensor", **WRIST)
    bench.fake.limit, bench.fake.present = np.array(WRIST["bound"]["wrench"]) * (1 + 1e-12), 1
    bench.step(PUSH, 500)
    assert bench.fake.force.any()
    bench.fake.spoil = spoil  # type: ignore[attr-defined]
    state = bench.step(PUSH, 3)
    assert state.reason in (reason, Reason.FAILED) and not bench.fake.force.any()


def test_a_reading_of_the_future_becomes_old() -> None:
    """Its time is that at which it came, whatever it says: a device that is silent afterwards is lost."""
    bench = swinging()
    bench.fake.spoil = lambda reading: setattr(reading, "time_ns", 2**62)  # type: ignore[attr-defined]
    bench.step(PUSH, 3)
    assert bench.fake.force.any() and bench.state.reading_age == 0.0
    bench.fake.silent = True
    bench.fake.spoil = None  # type: ignore[attr-defined]
    assert bench.step(PUSH, 7).reason == Reason.OLD_READING and not bench.fake.force.any()


def test_buttons_that_are_garbage_press_nothing_but_themselves() -> None:
    bench = swinging(clutch="side")
    bench.fake.pressed = [-(2**31), -1]
    assert bench.step(PUSH, 3).reason == Reason.NONE and bench.fake.force.any()
    bench.fake.pressed = [2**31 - 1, 7]
    assert bench.step(PUSH, 3).reason == Reason.CLUTCHED and not bench.fake.force.any()


def test_a_velocity_that_disagrees_below_what_can_be_known_is_believed() -> None:
    """As the module says: of REST GRACE / WINDOW of the limit of speed."""
    kept, packed = judged()
    pose, twist, fastest = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6), REST * GRACE / WINDOW * SPEED[0]
    for part, wrong in ((0.98, 0), (1.1, DISAGREES)):
        forget(kept)
        twist[0] = part * fastest
        assert judge(packed, pose, twist, 0, 0.0) == 0
        assert {judge(packed, pose, twist, k * TICK, 0.0) for k in range(1, 3000)} == {0, wrong}
