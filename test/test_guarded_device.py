"""A device with its guard: an active world is kept passive in every tick, a passive one is left as it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.recording.samples import Samples
from haptic_bench.trials.trial import _guarded as guarded
from haptic_control.guard import GuardParameters
from haptic_drivers.admittance import AdmittanceDeviceParameters
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.operators import ConstantParameters, SineParameters
from haptic_drivers.parameters import HandParameters
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.scenes import NoToolParameters

RATE = 1000.0  # [Hz]
T = 1.0 / RATE
LEAST = -1e-9  # [J]
MASS, INERTIA = 0.2, 2e-4  # [kg], [kg m^2]
IDEAL = {"inertia_error": 0.0, "friction_error": 0.0, "noise": [0, 0], "drive_limit": [1e6] * 6}
PUSH = SineParameters(amplitude=(2.0, 1.0, 0.5, 0.01, 0.02, 0.03), frequency=1.3, phase=0.4)


def inertial(guard: dict[str, Any], operator: Any = PUSH, planar: bool = False, **keys: Any) -> Driver:
    device = InertialParameters.model_validate({"mass": MASS, "inertia": INERTIA, "wrench_limit": [50] * 6, **keys})
    parameters, hand = GuardParameters.model_validate(guard), HandParameters(planar=planar)
    return build_driver(device, operator, NoToolParameters(), RATE, hand=hand, guard=parameters)


def admittance(guard: dict[str, Any], operator: Any = PUSH, **keys: Any) -> Driver:
    device, parameters = AdmittanceDeviceParameters.model_validate(keys), GuardParameters.model_validate(guard)
    hand = HandParameters(planar=False)
    return build_driver(device, operator, NoToolParameters(), RATE, hand=hand, guard=parameters)


class Run:
    """A driver that is asked tick by tick; `energies` of its port are summed here, from what it says of each tick."""

    def __init__(self, driver: Driver):
        self.driver, self.state, self.command = driver, DeviceState(), DeviceCommand()
        self.command.mode = driver._device.MODE
        self.states: list[dict[str, np.ndarray]] = []

    def sense(self, tick: int) -> DeviceState:
        self.driver.sense(tick, self.state)
        names = ("pose", "twist", "operator_wrench", "rendered_wrench")
        self.states.append({name: getattr(self.state, name).copy() for name in names})
        return self.state

    def actuate(self, tick: int, wrench: Any = None, acceleration: Any = None) -> None:
        self.command.tick = tick
        if wrench is not None:
            self.command.wrench[:] = wrench
        if acceleration is not None:
            self.command.acceleration[:] = acceleration
        self.driver.actuate(self.command)

    @property
    def energies(self) -> np.ndarray:
        """What has entered through each part up to each tick (n, 2) [J]."""
        poses, operator, rendered = (
            np.array([state[name] for state in self.states]) for name in ("pose", "operator_wrench", "rendered_wrench")
        )
        turns = Rotation.from_quat(poses[:, 3:])
        moved = np.hstack([np.diff(poses[:, :3], axis=0), (turns[1:] * turns[:-1].inv()).as_rotvec()])
        of_hand = -rendered[1:] if self.command.mode == FORCE else operator[:-1]
        return np.vstack([np.zeros(2), np.cumsum((moved * of_hand).reshape(-1, 2, 3).sum(axis=2), axis=0)])

    @property
    def total(self) -> np.ndarray:
        return np.array(self.energies.sum(axis=1))


def press(run: Run, delay: int, ticks: int, stiffness: float = 4000.0, torsion: float = 2.0) -> None:
    """Against a wall without damping at x = 0, and a torsion spring about z, of the pose `delay` ticks ago."""
    for k in range(ticks):
        run.sense(k)
        pose = run.states[max(0, k - delay)]["pose"]
        x, y, z, w = pose[3:].tolist()
        sine = math.hypot(x, y, z)  # of half the angle
        angle = 2.0 * math.atan2(sine, w) * z / sine if sine else 0.0  # of the rotation vector, about z
        run.actuate(k, (-stiffness * max(0.0, pose[0]), 0.0, 0.0, 0.0, 0.0, -torsion * angle))
    run.sense(ticks)


@pytest.mark.parametrize("damping", [None, (0.5, 1e-4)])
@pytest.mark.parametrize("delay", [0, 1, 5, 40])
def test_a_stiff_wall_with_delay_is_passive_in_every_tick(delay: int, damping: Any) -> None:
    """Sampled and late, it gives energy; with the guard it never does, and what the device does stays bounded."""
    free, kept = (Run(inertial({"type": kind}, damping=damping)) for kind in ("none", "passivity"))
    press(free, delay, 1500)
    press(kept, delay, 1500)
    assert free.total.min() < -1e-3 * (1 if delay else 0.01)  # else the test shows nothing
    assert kept.total.min() >= LEAST
    assert kept.driver.guarded > 0
    assert kept.state.port_energy == pytest.approx(kept.energies[-1], rel=1e-9, abs=1e-12)
    assert kept.state.port_dissipated.sum() > 0.0


def test_each_part_is_passive_by_itself_without_exchange() -> None:
    run = Run(inertial({"type": "passivity", "exchange": False}))
    press(run, 5, 1500)
    assert run.energies.min() >= LEAST


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(-2.0, 4.0).map(lambda x: 10.0**x),
    planar=st.booleans(),
    damping=st.sampled_from([None, (0.0, 0.0), (3.0, 1e-3)]),
    limit=st.floats(-1.0, 2.0).map(lambda x: 10.0**x),
    start=st.sampled_from([0.0, 0.02]),
    largest=st.sampled_from([None, [1.0, 1e-3]]),
    exchange=st.booleans(),
)
def test_no_command_takes_energy_from_the_device(
    seed: int, scale: float, planar: bool, damping: Any, limit: float, start: float, largest: Any, exchange: bool
) -> None:
    """Within limits of the wrench and in the soft start too; the limit of the rate may cost energy, see below."""
    rng = np.random.default_rng(seed)
    guard = {"type": "passivity", "largest_damping": largest, "exchange": exchange}
    keys = {"damping": damping, "bound": {"wrench": [limit] * 6}, "soft_start": start}
    run = Run(inertial(guard, planar=planar, **keys))
    for k in range(60):
        run.sense(k)
        run.actuate(k, scale * rng.standard_normal(6))
    run.sense(60)
    assert run.total.min() >= LEAST
    if not exchange:
        assert run.energies.min() >= LEAST


def test_what_a_limit_of_the_rate_costs_is_recovered() -> None:
    """The bound is the last: a wrench that may not fall in time gives energy, which the guard takes back later."""
    rate = {"rate": [500.0] * 6}
    run = Run(inertial({"type": "passivity"}, ConstantParameters(wrench=(1.0, 0, 0, 0, 0, 0)), bound=rate))
    run.sense(0)
    for k in range(1, 2500):
        depth = max(0.0, run.states[max(0, k - 10)]["pose"][0])
        run.actuate(k - 1, (-4000.0 * depth, 0, 0, 0, 0, 0))
        run.sense(k)
    assert run.total.min() < LEAST
    assert run.total[-1] > run.total.min()
    change = np.abs(np.diff([state["rendered_wrench"] for state in run.states], axis=0))
    assert change.max() <= 500.0 * T * (1.0 + 1e-12)


@pytest.mark.parametrize("kind", ["none", "passivity"])
def test_an_admittance_device_does_not_push_the_hand(kind: str) -> None:
    """Commanded against the hand; without errors or limits of the drive the displacement is what was expected."""
    run = Run(admittance({"type": kind}, **IDEAL))
    rng = np.random.default_rng(3)
    for k in range(800):
        state = run.sense(k)
        run.actuate(k, acceleration=rng.normal(scale=2.0, size=6) - 3.0 * state.twist - 0.1 * state.operator_wrench)
    run.sense(800)
    assert (run.total.min() >= LEAST) == (kind == "passivity")
    assert (run.driver.guarded > 0) == (kind == "passivity")
    assert run.state.port_energy == pytest.approx(run.energies[-1], rel=1e-9, abs=1e-12)


def test_errors_of_the_inner_servo_cost_little() -> None:
    """|F| T^2 |a| in a tick, with a of the errors: recovered by the mobility of the device."""
    run = Run(admittance({"type": "passivity"}, noise=[0, 0]))
    for k in range(3000):
        state = run.sense(k)
        run.actuate(k, acceleration=-0.5 * state.operator_wrench - 2.0 * state.twist)
    force, torque = 2.3, 0.04  # [N], [N m] of the hand at most
    error, turn = 0.02 * 2.0 + 0.1 * (20.0 * 0.1 + 7.2) / 60.0, 0.02 * 0.2 + 0.1 * (0.2 * 0.1 + 0.072) / 0.6
    assert run.total.min() >= -10.0 * T**2 * (force * error + torque * turn)


PASSIVE = ("static_wall", "dynamic_contact", "door", "four_channel_stiffness", "tight_hole")


@pytest.mark.parametrize("name", PASSIVE)
def test_a_passive_run_is_the_same_to_the_bit(name: str) -> None:
    """Every column, of worlds that are felt through each kind of device; `door` turns translation into rotation."""
    runs = []
    for kind in ("none", "passivity"):
        (trial,) = experiment.load(name, [f"guard.type={kind}"], duration=1.0)
        runs.append(analysis_of(trial.experiment).run_unrecorded(trial))
    for column in runs[0].names:
        assert np.array_equal(runs[0][column], runs[1][column], equal_nan=True), column
    assert not runs[1].group("port_dissipated", "translation", "rotation").any()


def test_an_active_run_is_changed() -> None:
    (trial,) = experiment.load("corner_peg", ["guard.type=passivity"], duration=1.5)
    samples = analysis_of(trial.experiment).run_unrecorded(trial)
    energy = samples.group("port_energy", "translation", "rotation").sum(axis=1)
    assert energy.min() >= LEAST
    assert samples["port_dissipated_translation"][-1] > 0.0


RELAY = ("relay.delay=0.01", "controller.type=virtual_coupling")


@pytest.mark.parametrize(
    ("keys", "mode", "written", "acts"),
    [
        ((), "realtime", ("passivity", None), True),
        ((), "lockstep", ("none", None), False),
        (("guard.type=none",), "realtime", ("none", None), False),
        (("guard.type=passivity",), "offline", ("passivity", None), True),
        (RELAY, "realtime", ("none", True), True),
        (RELAY, "offline", ("none", False), False),
        ((*RELAY, "guard.type=none"), "realtime", ("none", False), False),
        ((*RELAY, "guard.type=tank"), "realtime", ("tank", False), False),
        ((*RELAY, "guard.type=passivity"), "lockstep", ("passivity", True), True),
        ((*RELAY, "guard.type=tank", "guard.at_device=true"), "offline", ("tank", True), True),
        ((*RELAY, "guard.at_device=false"), "realtime", ("none", False), False),
    ],
)
def test_the_mode_decides_which_guards_act_and_writes_both_down(
    keys: tuple[str, ...], mode: str, written: tuple[str, bool | None], acts: bool
) -> None:
    (trial,) = experiment.load("corner_peg", keys)
    decided = trial.in_mode(mode)
    guard = decided.experiment.guard
    assert ((guard.type, guard.at_device), guard.acts) == (written, acts)
    assert decided.in_mode("realtime" if mode == "offline" else "offline").experiment.guard == guard, "for good"
    assert decided.driver().guard_acts is acts
    names = [f"port_{kind}_{part}" for kind in ("energy", "dissipated") for part in ("translation", "rotation")]
    said = guarded(decided, Samples({name: np.zeros(2) for name in names}))["guard"]["type"]
    assert said == ("passivity" if acts else "none"), "of the device's port, as the summary has it"


def test_without_a_relay_there_is_one_guard() -> None:
    with pytest.raises(ParameterError, match=r"guard\.at_device = true: without a relay guard.type says that"):
        experiment.load("corner_peg", ["guard.at_device=true"])


# Readings


class Faulty:
    """Sensors that spoil the readings of some ticks."""

    def __init__(self, *ticks: int, field: str = "pose", value: float = np.nan):
        self.ticks, self.field, self.value = ticks, field, value

    def add(self, tick: int, state: DeviceState) -> None:
        """As of SensorNoise."""
        if tick in self.ticks:
            getattr(state, self.field)[1] = self.value


def faulty(sensors: Faulty, operator: Any = PUSH, **keys: Any) -> Run:
    driver = inertial({"type": "passivity"}, operator, **keys)
    driver._noise = sensors  # type: ignore[assignment]
    return Run(driver)


def follow(run: Run, ticks: int) -> None:
    for k in range(ticks):
        run.sense(k)
        run.actuate(k, (0.5, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("field", ["pose", "twist", "operator_wrench"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reading_that_is_not_finite_is_replaced_by_the_last_good_one(field: str, value: float) -> None:
    run = faulty(Faulty(7, 8, field=field, value=value))
    ticks = []
    for k in range(12):
        ticks.append(run.sense(k).reading_tick)
        run.actuate(k, (0.5, 0, 0, 0, 0, 0))
    assert ticks == [0, 1, 2, 3, 4, 5, 6, 6, 6, 9, 10, 11]
    assert run.driver.rejected == 2 and not run.driver.fault
    for name in ("pose", "twist", "operator_wrench"):
        assert np.array_equal(run.states[7][name], run.states[6][name])
        assert np.array_equal(run.states[8][name], run.states[6][name])
        assert not np.array_equal(run.states[9][name], run.states[6][name])
    assert run.state.is_finite()


def test_what_a_lost_reading_hides_is_booked_as_it_was_predicted() -> None:
    """Found by the campaign: the energy that there was could be given once more in each tick without a reading."""
    lost = [k for k in range(1, 400) if k % 4]
    run = faulty(Faulty(*lost), operator=SineParameters(amplitude=(1.0, 0, 0, 0, 0, 0), frequency=5.0))
    device, energy, least = run.driver._device, 0.0, 0.0
    before = device.pose.copy()
    for k in range(400):
        run.sense(k)
        run.actuate(k, (5.0 * math.copysign(1.0, run.state.twist[0]), 0, 0, 0, 0, 0))
        energy -= float(device.rendered[:3] @ (device.pose[:3] - before[:3]))
        least, before = min(least, energy), device.pose.copy()
    assert run.driver.rejected == len(lost)
    assert least >= -1e-4, f"gave {-least:.3g} J"


def test_a_jump_is_rejected() -> None:
    """Further than five times the limit of speed goes; a device that is only faster than its limit is not."""
    limit = {"bound": {"velocity": [0.5, 5.0]}}
    run = faulty(Faulty(20, value=6.0 * 0.5 * T), **limit)
    follow(run, 30)
    assert run.driver.rejected == 1
    fast = faulty(Faulty(20, value=2.0 * 0.5 * T), **limit)
    follow(fast, 30)
    assert fast.driver.rejected == 0


def test_a_jump_that_stays_is_believed_when_the_device_can_have_moved_that_far() -> None:
    """Three ticks without a good reading: it may have moved for four."""
    run = faulty(Faulty(*range(20, 30), value=17.0 * 0.5 * T), bound={"velocity": [0.5, 5.0]})
    follow(run, 30)
    assert run.driver.rejected == 3 and not run.driver.fault


@pytest.mark.parametrize("ticks", [4, 5])
def test_five_in_a_row_stop_the_device(ticks: int) -> None:
    run = faulty(Faulty(*range(10, 10 + ticks)))
    follow(run, 20)
    rendered = [state["rendered_wrench"][0] for state in run.states]
    if ticks == 4:
        assert not run.driver.fault and rendered[-1] != 0.0
        return
    assert run.driver.fault.startswith("device: readings rejected from tick 10 to 14, the last was not finite; ")
    assert rendered[14] != 0.0
    assert not any(rendered[15:])


def test_without_any_good_reading_the_device_is_stopped_at_once() -> None:
    run = faulty(Faulty(0))
    follow(run, 3)
    assert run.driver.fault
    assert not run.states[-1]["rendered_wrench"].any()
    assert run.state.is_finite()


# Limits and stops

numbers = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=80, deadline=None)
@given(
    commands=st.lists(st.tuples(*[st.one_of(numbers, st.floats(-100.0, 100.0))] * 6), min_size=1, max_size=12),
    wrench=st.floats(-2.0, 2.0).map(lambda x: 10.0**x),
    rate=st.one_of(st.none(), st.floats(0.0, 5.0).map(lambda x: 10.0**x)),
    speed=st.floats(-4.0, 0.0).map(lambda x: 10.0**x),
    guard=st.sampled_from(["none", "passivity"]),
    moved=st.booleans(),
)
def test_every_limit_holds_for_every_command(
    commands: list[Any], wrench: float, rate: float | None, speed: float, guard: str, moved: bool
) -> None:
    """Wrench, rate of change and speed, of both kinds of device, with and without the guard."""
    bound: dict[str, Any] = {"wrench": [wrench, 2 * wrench, wrench] * 2, "velocity": [speed, 10.0 * speed]}
    if rate is not None:
        bound["rate"] = [rate] * 6
    build = admittance if moved else inertial
    run = Run(build({"type": guard}, bound=bound))
    run.driver._device.twist[:] = 0.5, -0.2, 0.1, 1.0, 0.3, -0.4
    for k, command in enumerate(commands):
        run.sense(k)
        run.actuate(k, command, command)
        rendered, twist = run.driver._device.rendered, run.state.twist
        assert np.isfinite(rendered).all()
        assert (np.abs(rendered) <= bound["wrench"]).all()
        held_back = False
        for part in (0, 1):
            along = slice(3 * part, 3 * part + 3)
            if np.linalg.norm(twist[along]) > bound["velocity"][part]:
                held_back = True
                assert rendered[along] @ twist[along] <= 1e-12 * wrench * np.linalg.norm(twist[along])
        if rate is not None and run.driver._command_tick == k and not held_back:
            step = rendered - run.states[-1]["rendered_wrench"]
            assert (np.abs(step) <= rate * T * (1.0 + 1e-9) + 1e-12).all()


def test_beyond_its_limit_of_speed_a_device_is_not_driven_on() -> None:
    """A constant command takes it to the limit and no further; a force across is rendered all the same."""
    rest = ConstantParameters(wrench=(0.0,) * 6)
    run = Run(inertial({"type": "none"}, rest, bound={"velocity": [0.25, 1.0]}))
    for k in range(400):
        run.sense(k)
        run.actuate(k, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert 0.25 <= run.state.twist[0] <= 0.25 + 1.0 / MASS * T + 1e-12
    assert run.driver.bounded > 0
    run.sense(400)
    run.actuate(400, (1.0, 2.0, 0.0, 0.0, 0.0, 0.0))
    assert run.driver._device.rendered[:3] == pytest.approx([0.0, 2.0, 0.0])


@pytest.mark.parametrize("guard", ["none", "passivity"])
def test_what_the_limit_of_speed_leaves_is_within_the_limit_of_the_wrench(guard: str) -> None:
    """Found by the campaign: without its part along the motion, a wrench may be larger along another axis."""
    run = Run(inertial({"type": guard}, wrench_limit=[2.0] * 6, bound={"velocity": [0.25, 1.0]}))
    run.driver._device.twist[:3] = 0.8, -0.6, 0.0
    run.sense(0)
    run.actuate(0, (2.0, 1.9, 0.0, 0.0, 0.0, 0.0))
    rendered = run.driver._device.rendered[:3]
    assert rendered.any() and np.abs(rendered).max() <= 2.0
    assert rendered @ [0.8, -0.6, 0.0] <= 1e-12


@pytest.mark.parametrize("build", [inertial, admittance])
def test_a_stop_leaves_no_stored_wrench(build: Any) -> None:
    """Released, expired or with a fault, a device renders nothing, or a damper."""
    run = Run(build({"type": "passivity"}))
    for k in range(40):
        run.sense(k)
        run.actuate(k, (3.0, 0, 0, 0, 0, 0.01), (2.0, 0, 0, 0, 0, 1.0))
    device = run.driver._device
    assert device.rendered.any()
    run.driver.release()
    for part in (slice(0, 3), slice(3, 6)):
        assert device.rendered[part] @ device.twist[part] <= 0.0
    moving = np.linalg.norm(device.rendered) > 0.0
    assert moving == (build is admittance)
    run.sense(40)
    run.driver.fault = "broken"
    run.actuate(40, (3.0, 0, 0, 0, 0, 0.01), (2.0, 0, 0, 0, 0, 1.0))
    for part in (slice(0, 3), slice(3, 6)):
        assert device.rendered[part] @ run.states[-1]["twist"][part] <= 0.0
