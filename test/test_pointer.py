"""The spring hand of a pointer: critical damping of any mass, bounds whatever comes, passive at rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import sampled
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from scipy.signal import lti

from haptic_bench.experiment import load
from haptic_drivers.events import (
    EVENT_COLUMNS,
    HAND,
    Events,
    read_events,
    recorded_events,
    row_of,
    write_events,
)
from haptic_drivers.operators import PointerParameters
from haptic_drivers.pointer import Pointer, SpringParameters, mobility_of
from haptic_sim.messages import GRAB, MOVE, RELEASE, MessageError, OperatorEvent
from haptic_sim.parameters import ParameterError
from haptic_sim.spatial import advance_pose

T = 1e-3  # [s]
SPRING = SpringParameters()
NO_TURN = (0.0, 0.0, 0.0, 1.0)
HEADER = ",".join(EVENT_COLUMNS)


def event(phase: int, sequence: int, **more: Any) -> OperatorEvent:
    made = OperatorEvent()
    made.phase, made.sequence, made.body, made.oriented = phase, sequence, HAND, 1
    made.source = more.pop("source", 7)
    made.pose[:] = (0.0, 0.0, 0.0, *NO_TURN)
    for name, value in more.items():
        if name in ("point", "pose"):
            getattr(made, name)[:] = value
        else:
            setattr(made, name, value)
    return made


class Body:
    """A rigid body with its centre of mass at `centre` from the hand, which semi-implicit Euler integrates."""

    def __init__(self, mass: float, inertia: float, centre: tuple[float, float, float] = (0.0, 0.0, 0.0)):
        self.mass, self.inertia, self.centre = mass, inertia, np.array(centre)
        self.pose, self.twist = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6)
        self.mobility = np.zeros((6, 6))
        self._see()

    def _see(self) -> None:
        """Mobility at the hand, with the axes as they are: the body turns little in these tests."""
        c = self.centre
        cross = np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])
        J = np.block([[np.eye(3), cross], [np.zeros((3, 3)), np.eye(3)]])  # of the hand, from the centre of mass
        free = np.diag([*(3 * [1.0 / self.mass]), *(3 * [1.0 / self.inertia])])
        self.mobility[:] = J @ free @ J.T

    def step(self, wrench: np.ndarray, period: float = T) -> None:
        self.twist += period * (self.mobility @ wrench)
        advance_pose(self.twist, period, self.pose)

    @property
    def kinetic(self) -> float:
        return float(0.5 * self.twist @ np.linalg.solve(self.mobility, self.twist))


def dragged(
    body: Body, pose: Any, ticks: int, spring: SpringParameters = SPRING, point: Any = (0.0, 0.0, 0.0), **more: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Poses and wrenches of a body whose pointer jumps to a displacement in tick 1, with a sign every 50 ticks."""
    events = Events()
    pointer = Pointer(spring, events, body.mobility)
    events.offer(event(GRAB, 0, point=point, **more))
    poses, wrenches = np.zeros((ticks, 7)), np.zeros((ticks, 6))
    for k in range(ticks):
        if k % 50 == 1:
            events.offer(event(MOVE, k, pose=pose, **more))
        pointer.wrench(k * T, body.pose, body.twist, wrenches[k])
        body.step(wrenches[k])
        poses[k] = body.pose
    return poses, wrenches


@pytest.mark.parametrize("mass", [1e-3, 0.05, 0.4, 3.0])
def test_any_mass_follows_as_a_critically_damped_one_after_the_filter(mass: float) -> None:
    """In closed form: two equal poles of the spring after two of the filter, for a small jump of the pointer."""
    spring = SpringParameters(filter_frequency=6.0)
    poses, _ = dragged(Body(mass, 1e-3 * mass), (1e-3, 0, 0, *NO_TURN), 1500, spring)
    w = min(2 * math.pi * spring.frequency, math.sqrt(spring.stiffness[0] / mass))
    f = 2 * math.pi * spring.filter_frequency
    poles = lti([w * w * f * f], np.polymul([1, 2 * w, w * w], [1, 2 * f, f * f]))
    _, expected = poles.step(T=np.arange(1499) * T)
    # half a tick from the integration, one or two from events and the held force
    assert np.abs(poses[1:, 0] - 1e-3 * expected).max() < 1e-3 * 3.0 * T * w
    assert poses[:, 0].max() <= 1e-3 * (1 + 1e-9)  # and none overshoots
    assert poses[-1, 0] == pytest.approx(1e-3, rel=2e-3 if w > 15 else 0.1)


def test_modes_that_couple_force_and_rotation_are_all_damped_critically() -> None:
    """Held at its end, a rod has modes far from each other: every root of det(M s^2 + C s + K) is double."""
    body = Body(0.2, 2e-4, (0.06, 0.02, -0.03))
    pointer = Pointer(SPRING, events := Events(), body.mobility)
    events.offer(event(GRAB, 0, point=(0.02, 0.0, 0.05)))
    pointer.wrench(0.0, body.pose, body.twist, np.zeros(6))
    pointer.wrench(T, body.pose, body.twist, np.zeros(6))
    a = pointer._arrays
    r = np.array([0.02, 0.0, 0.05])
    cross = np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])
    J = np.block([[np.eye(3), -cross], [np.zeros((3, 3)), np.eye(3)]])
    np.testing.assert_allclose(a.W, J @ body.mobility @ J.T, rtol=1e-12, atol=1e-12)
    K, C = np.diag(a.k), a.C
    companion = np.block([[np.zeros((6, 6)), np.eye(6)], [-a.W @ K, -a.W @ C]])
    frequencies = np.sqrt(np.sort(np.linalg.eigvals(a.W @ K).real))
    roots = np.linalg.eigvals(companion)
    np.testing.assert_allclose(np.sort(-roots.real), np.repeat(frequencies, 2), rtol=1e-5)
    assert frequencies[-1] / frequencies[0] > 3.0  # else nothing was coupled
    assert np.linalg.eigvalsh(C).min() > 0.0


def test_light_body_on_a_stiff_spring_is_still_at_the_servo_rate() -> None:
    spring = SpringParameters(stiffness=(1e5, 1e3))
    poses, wrenches = dragged(Body(1e-4, 1e-9), (5e-3, 0, 0, *NO_TURN), 2000, spring)
    assert abs(poses[-1, 0] - 5e-3) < 1e-8 and np.abs(wrenches[-1]).max() < 1e-6
    assert np.all(np.diff(poses[:, 0]) > -1e-9)


def test_grabbed_point_and_orientation_go_where_the_pointer_is() -> None:
    turn = np.array([0.1, -0.2, 0.3])
    pose = np.array([0.0, 0, 0, *NO_TURN])
    advance_pose(np.array([*(0.0, 0.0, 0.0), *turn]), 1.0, pose)
    target = (0.02, -0.01, 0.03, *pose[3:])
    point = np.array([0.05, 0.01, -0.02])
    poses, _ = dragged(Body(0.1, 1e-4), target, 4000, point=point)
    np.testing.assert_allclose(poses[-1, 3:], pose[3:], atol=1e-6)
    x, y, z, w = poses[-1, 3:]
    u = np.array([x, y, z])
    turned = point + 2.0 * np.cross(u, np.cross(u, point) + w * point)
    np.testing.assert_allclose(poses[-1, :3] + turned, point + [0.02, -0.01, 0.03], atol=1e-6)


def test_point_alone_leaves_the_body_free_to_turn() -> None:
    poses, wrenches = dragged(Body(0.1, 1e-4), (0.0, 0.01, 0, *NO_TURN), 3000, point=(0.05, 0, 0), oriented=0)
    assert abs(poses[-1, 5]) > 0.01
    force, torque = wrenches[:, :3], wrenches[:, 3:]
    np.testing.assert_allclose(np.sum(force * torque, axis=1), 0.0, atol=1e-15)  # nothing but r x f


def test_force_is_zero_in_time_after_a_release_a_lost_client_and_what_cannot_be_followed() -> None:
    fall = round(SPRING.bound[0] / SPRING.bound_rate[0] / T) + 1
    for how in ("release", "silence", "nan", "unknown phase", "the end of the operator"):
        body, events = Body(1.0, 1e-3), Events()
        end = 0.3 if how == "the end of the operator" else None
        pointer, out = Pointer(SPRING, events, body.mobility, end), np.zeros(6)
        events.offer(event(GRAB, 0))
        forces = []
        for k in range(1500):
            if k % 50 == 1 and k < 300:
                events.offer(event(MOVE, k, pose=(0.5, 0, 0, *NO_TURN)))
            if k == 300 and how == "release":
                events.offer(event(RELEASE, k))
            if k == 300 and how == "nan":
                with pytest.raises(MessageError, match="is not finite"):
                    events.offer(event(MOVE, k, pose=(math.nan, 0, 0, *NO_TURN)))
            if k == 300 and how == "unknown phase":
                with pytest.raises(MessageError, match="phase = 9: must be 0, 1 or 2"):
                    events.offer(event(9, k))
            pointer.wrench(k * T, body.pose, body.twist, out)
            forces.append(float(np.abs(out).max()))  # of a body that does not yield
        let_go = 300 if how != "silence" else 251 + round(SPRING.patience / T)
        assert not any(forces[let_go + fall + 1 :]), how
        assert forces[let_go - 1] == pytest.approx(SPRING.bound[0])
        assert np.abs(np.diff(forces)).max() <= SPRING.bound_rate[0] * T * (1 + 1e-9)


def test_orientation_whose_square_overflows_is_refused() -> None:
    with np.errstate(all="raise"), pytest.raises(MessageError, match="must be a unit quaternion"):
        Events().offer(event(GRAB, 0, pose=(0, 0, 0, 1e200, 0, 0, 1)))


def stored(pointer: Pointer, spring: SpringParameters) -> float:
    """Energy in the spring in the last call, from its definition: a parabola up to the bound, then a straight line."""
    energy = 0.0
    for part, bound in enumerate(spring.bound):
        k = pointer._arrays.k[3 * part]
        x = float(np.linalg.norm(pointer._arrays.e[3 * part : 3 * part + 3]))
        reach = min(x, bound / k)
        energy += 0.5 * k * reach**2 + bound * (x - reach)
    return energy


@pytest.mark.long
@given(
    mass=st.floats(1e-3, 100.0),
    radius=st.floats(0.01, 0.3),
    frequency=st.floats(0.5, 10.0),
    arm=st.tuples(*(3 * [st.floats(-2.8, 2.8)])),
    start=st.tuples(*(3 * [st.floats(-0.3, 0.3)]), *(3 * [st.floats(-0.5, 0.5)])),
    speed=st.tuples(*(6 * [st.floats(-1.0, 1.0)])),
)
@example(1.0, 1.0, 2.0, (0.0, 0.0, 0.0), (0, 0, 0.25, 0, 0, 0), (0, 0, 0, 0, 0, 1.0))  # only the torque at its bound
@example(23.8, 0.187, 7.34, (1.8, 0.0, -2.8), (0, 0, 0.193, -0.094, 0, -0.459), (0, 0, 0, -0.915, 0.466, 0))
@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_pointer_at_rest_gives_no_more_energy_than_the_spring_had(
    mass: float, radius: float, frequency: float, arm: Any, start: Any, speed: Any
) -> None:
    """Whatever its mass and radius of gyration, up to five of these from its centre; at the lowest rate allowed."""
    inertia, point = mass * radius**2, radius * np.array(arm)
    rate = tuple(4 * math.pi * frequency * bound for bound in SPRING.bound)
    spring = SpringParameters(frequency=frequency, bound_rate=rate)
    body, events = Body(mass, inertia), Events()
    pointer, out = Pointer(spring, events, body.mobility), np.zeros(6)
    events.offer(event(GRAB, 0, point=point))
    pointer.wrench(0.0, body.pose, body.twist, out)
    advance_pose(np.array(start), 1.0, body.pose)
    body.twist[:] = speed
    pointer.wrench(T, body.pose, body.twist, out)
    # at a bounded rate the force turns later than the spring: until then it goes on along the body's velocity
    late = 2.0 * T + 2.0 * SPRING.bound[0] / rate[0]
    turning = np.array(speed[3:])
    speeds = np.linalg.norm(speed[:3] + np.cross(turning, point)), np.linalg.norm(turning)  # of the point that is held
    budget, energies = body.kinetic + stored(pointer, spring) + late * np.dot(SPRING.bound, speeds), []
    for step in range(2, 2500):
        if step % 200 == 0:
            events.offer(event(MOVE, step))
        pointer.wrench(step * T, body.pose, body.twist, out)
        energies.append(body.kinetic + stored(pointer, spring))
        body.step(out)
    assert max(energies) <= budget


numbers = st.one_of(st.floats(-2.0, 2.0), st.floats(), st.sampled_from([0.0, 1e300, -1e-300, math.nan, math.inf]))
streams = st.lists(
    st.tuples(
        st.integers(0, 9),  # ticks until it comes
        st.sampled_from([GRAB, MOVE, MOVE, MOVE, RELEASE, 3, 255]),
        st.integers(0, 12),  # sequence: late and doubled ones among them
        st.integers(0, 2),  # source
        st.sampled_from([HAND, HAND, HAND, 1, 1, 2, 0, 5, -7]),
        st.tuples(*(3 * [numbers])),
        st.tuples(*(7 * [numbers])),
    ),
    max_size=25,
)


@pytest.mark.long
@pytest.mark.parametrize("part", sampled(range(3), 0))
@given(
    stream=streams, mass=st.floats(0.01, 10.0), sound=st.booleans(), broken=st.lists(st.integers(0, 120), max_size=2)
)
@settings(max_examples=60, deadline=None)
def test_force_and_its_rate_stay_within_their_bounds_whatever_comes(
    part: int, stream: Any, mass: float, sound: bool, broken: list[int]
) -> None:
    """Late, doubled, out of order, not finite, of other sources, of bodies that move, do not, or are not there.

    Also where the reading is not finite. The force on a body is zero while the pointer is at another.
    """
    spring = SpringParameters(bound_rate=(2000.0, 100.0))
    bodies = {HAND: Body(mass, 1e-3 * mass), 1: Body(0.1, 1e-4), 2: Body(5.0, 0.1, (0.05, 0.0, 0.02))}
    body, events = bodies[HAND], Events(bodies={"floor": False, "one": True, "other": True})

    def observe_body(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return bodies[number].pose, bodies[number].twist, bodies[number].mobility

    pointer, out = Pointer(spring, events, body.mobility, observe_body=observe_body), np.zeros(6)
    waiting = [(sum(each[0] for each in stream[: i + 1]), each) for i, each in enumerate(stream)]
    last = {number: np.zeros(6) for number in bodies}
    for k in range(150):
        while waiting and waiting[0][0] <= k:
            _, (_, phase, sequence, source, number, point, pose) = waiting.pop(0)
            if sound:
                point, pose = np.nan_to_num(point, posinf=1, neginf=-1), (*np.nan_to_num(pose[:3]), *NO_TURN)
            offered = event(phase, sequence, source=source, body=number, point=point, pose=pose)
            try:
                events.offer(offered)
            except MessageError as error:
                assert str(error)
        pose, twist = body.pose.copy(), body.twist.copy()
        if k in broken:
            pose[k % 7], twist[k % 6] = math.nan, math.inf
        pointer.wrench(k * T, pose, twist, out)
        assert np.isfinite(out).all()
        np.testing.assert_array_equal(out[:3], pointer._arrays.wrench[:3])
        for number, one in bodies.items():
            here = number == events.body
            applied = pointer._arrays.wrench.copy() if here else np.zeros(6)  # at the grabbed point, as the bounds are
            for part in range(2):
                i = slice(3 * part, 3 * part + 3)
                assert np.linalg.norm(applied[i]) <= spring.bound[part] * (1 + 1e-9)
                assert np.linalg.norm(applied[i] - last[number][i]) <= spring.bound_rate[part] * T * (1 + 1e-9)
            last[number] = applied
            if k not in broken:
                one.step(out if here and np.abs(out).max() < 1e3 else np.zeros(6))


def test_second_call_at_the_same_time_gives_the_same_and_takes_no_event() -> None:
    events = Events()
    pointer = Pointer(SPRING, events, mobility_of(0.1, 1e-4, False))
    pose, out, again = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6), np.ones(6)
    events.offer(event(GRAB, 0))
    for k in range(30):
        events.offer(event(MOVE, k + 1, pose=(0.1, 0, 0, *NO_TURN)))
        pointer.wrench(k * T, pose, np.zeros(6), out)
        pointer.wrench(k * T, pose, np.zeros(6), again)
        np.testing.assert_array_equal(out, again)
        assert events.taken_at == k * T
    assert out[0] > 0.1


def test_directions_in_which_the_body_cannot_move_get_no_force() -> None:
    body = Body(0.1, 1e-4)
    body.mobility[:] = mobility_of(0.1, 1e-4, True)
    _, wrenches = dragged(body, (0.01, 0.02, 0.03, 0.1, 0.1, 0.1, 0.98), 400)
    assert not wrenches[:, 2:5].any() and np.abs(wrenches[:, [0, 1, 5]]).max(axis=0).min() > 1e-3


def test_while_one_holds_the_others_are_ignored() -> None:
    events = Events()

    def offer(phase: int, source: int, sequence: int) -> int:
        events.offer(event(phase, sequence, source=source))
        taken = events.next(0.0)
        return -1 if taken is None else taken.phase

    assert offer(MOVE, 1, 5) == -1  # nobody holds
    assert offer(GRAB, 1, 6) == GRAB and offer(GRAB, 2, 0) == offer(RELEASE, 2, 1) == -1
    assert offer(MOVE, 1, 6) == offer(MOVE, 1, 3) == -1  # doubled, and late
    assert offer(MOVE, 1, 7) == MOVE and offer(RELEASE, 1, 8) == RELEASE
    assert offer(MOVE, 1, 9) == -1 and offer(GRAB, 2, 0) == GRAB
    assert events.ignored == 6
    events.lose()
    assert offer(GRAB, 3, 0) == GRAB


def test_who_lets_go_and_grabs_again_between_two_ticks_holds() -> None:
    events, body, out = Events(), Body(1.0, 1e-3), np.zeros(6)
    pointer = Pointer(SPRING, events, body.mobility)
    for sequence, phase in enumerate((GRAB, RELEASE, GRAB, MOVE)):
        events.offer(event(phase, sequence, pose=(0.01 * (phase == MOVE), 0, 0, *NO_TURN)))
    for k in range(50):
        pointer.wrench(k * T, body.pose, body.twist, out)
    assert out[0] > 0.1


def test_many_moves_between_two_ticks_are_one() -> None:
    events = Events()
    events.offer(event(GRAB, 0))
    for k in range(1, 1000):
        events.offer(event(MOVE, k, pose=(1e-3 * k, 0, 0, *NO_TURN)))
    taken: Callable[[], Any] = lambda: events.next(0.0)  # noqa: E731
    assert taken().phase == GRAB
    assert taken().pose[0] == 0.999
    assert taken() is None


# The file


def test_file_is_read_to_the_bits_that_were_recorded() -> None:
    random, rows = np.random.default_rng(20261), []
    for i in range(40):
        quaternion = random.normal(size=4)
        pose = (*random.normal(size=3), *(quaternion / np.linalg.norm(quaternion)))
        made = event(int(random.integers(0, 3)), i, point=random.normal(size=3), pose=pose, oriented=i % 2)
        made.tick = 3 * i
        rows.append(made.to_bytes())
    table = recorded_events(rows, 512.0)
    again = read_events(write_events(table).splitlines(), "events.csv")
    np.testing.assert_array_equal(again, table)
    np.testing.assert_array_equal(row_of(made, 39 * 3 / 512.0), table[-1])


@pytest.mark.parametrize(
    "line, said",
    [
        ("0.1,grab,1,-1,0,0,0", "must be a time >= 0, grab, move or release"),
        ("0.1,hold,1,-1,0,0,0,0,0,0,0,0,0,1", "must be a time >= 0, grab, move or release"),
        ("0.1,grab,1,-1,0,0,0,nan,0,0,0,0,0,1", "ten finite numbers"),
        ("-1,grab,1,-1,0,0,0,0,0,0,0,0,0,1", "must be a time >= 0"),
        ("0.1,grab,1,4,0,0,0,0,0,0,0,0,0,1", "body = 4: is not there; -1 is the hand"),
        ("0.1,grab,1,-1,0,0,0,0,0,0,0,0,0,0", "must be a unit quaternion"),
        ("0.1,grab,1,-1,0,2e3,0,0,0,0,0,0,0,1", "more than 1000 m away"),
        ("0.001,move,1,-1,0,0,0,0,0,0,0,0,0,1", "must not be before the line before"),
    ],
)
def test_line_that_is_no_event_is_named(line: str, said: str) -> None:
    lines = [HEADER, "0.01,grab,1,-1,0,0,0,0,0,0,0,0,0,1", "", line]
    with pytest.raises(ParameterError, match=r"events\.csv, line 4") as error:
        read_events(lines, "events.csv", {})
    assert said in str(error.value)
    with pytest.raises(ParameterError, match="line 1: 'time': must be the header"):
        read_events(["time"], "events.csv")
    with pytest.raises(ParameterError, match="no rows"):
        read_events([HEADER], "events.csv")


def test_a_bound_that_is_left_too_slowly_is_refused_with_the_least() -> None:
    with pytest.raises(ParameterError, match=r"operator.bound_rate\[0\] = 100 N/s: .* must be >= .* = 377 N/s"):
        load("corner_peg", ["operator={type: pointer, bound_rate: [100, 25]}"])


def test_pointer_is_damped_for_device_and_tool_and_is_analysed_as_any_trial() -> None:
    [trial] = load("corner_peg", ["operator={type: pointer}", "device.mass=0.3", "device.inertia=0.001"])
    operator, tool = trial.experiment.operator, trial.experiment.tool
    assert isinstance(operator, PointerParameters)
    assert operator.mass == pytest.approx(0.3 + tool.mass) and operator.inertia == pytest.approx(0.001 + tool.inertia)
    assert trial.experiment.analysis == "trial"
