"""Operators: the simulated hands that act on a device. Wrenches are at the hand point, in world axes."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import AfterValidator

from haptic_drivers.events import EVENT_COLUMNS, Bodies, Events, read_events, write_events
from haptic_drivers.noise import Tremor
from haptic_drivers.pointer import Observer, Pointer, SpringParameters
from haptic_sim import inputs
from haptic_sim.kernels import kernel
from haptic_sim.packed import Packed
from haptic_sim.parameters import NotNegativeWrench, ParameterError, PositivePair, Wrench, quantity
from haptic_sim.parts import Kind, Part
from haptic_sim.records import allocate, array, record, value
from haptic_sim.spatial import rotation_difference

COLUMNS = ("time", "fx", "fy", "fz", "tx", "ty", "tz")
_ORIGIN, _REST = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6)


class Operator(Protocol):
    """Wrench of the operator's hand by time; called in the servo thread, where nothing may be allocated."""

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s], with the hand at `pose` (7,), moving with `twist` (6,)."""


class OperatorContext(NamedTuple):
    """Context that an operator is built with.

    Attributes:
        table: rows of its file (N, columns), as `OperatorParameters.read_file` returns them; None: it has no file.
        events: of a pointer; None for other operators, as are the next two.
        mobility: inverse inertia of what the hand moves, at the hand in world axes (6, 6) [1/kg, 1/(kg m),
            1/(kg m^2)].
        observe_body: returns pose (7,) [m], twist (6,) [m/s, rad/s] and mobility (6, 6) of another body, by its number;
            None: a pointer can drag the hand alone.
    """

    table: np.ndarray | None = None
    events: Events | None = None
    mobility: np.ndarray | None = None
    observe_body: Observer | None = None


class OperatorParameters(Part):
    """Parameters of an operator; all can let go, and tremble."""

    EVENTS: ClassVar[bool] = False
    """Whether events of a pointer drive it (the topic operator_events), so that a person may be at the page."""
    REACTS: ClassVar[bool] = False
    """Whether events of a pointer drive the operator (topic operator_events), so that a person may be at the page."""
    DRAGS: ClassVar[bool] = False
    """Whether the wrench depends on how the hand moves, as that of an arm does."""

    release: float | None = quantity(
        None, unit="s", description="Time from which on the operator's wrench is zero; null: never", ge=0.0
    )
    tremor: NotNegativeWrench = quantity(
        (0.0,) * 6,
        unit="N, N m",
        description="Root mean square of the tremor that is added to [fx, fy, fz, tx, ty, tz], random by the seed",
    )
    tremor_band: PositivePair = quantity(
        (8.0, 12.0), unit="Hz", description="Lowest and highest frequency of the tremor"
    )

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        raise NotImplementedError

    @property
    def spring_and_damper(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Stiffness and damping, each in translation and in rotation, by which it holds the device; None: by none."""
        return None

    def check(self, experiment: Any) -> list[str]:
        """Conflicts with the other sections of an experiment."""
        if self.EVENTS and experiment.device.HARDWARE:
            held = f"device.name = {experiment.device.label} is held by a person"
            return [f"operator.type = {self.type}: {held}; leave the pointer out, as operator.type=constant"]
        return []

    @property
    def file_key(self) -> str:
        """The key that names its file; empty if it has none."""
        return ""

    def read_file(self, lines: Iterable[str], name: str, bodies: Bodies | None = None) -> np.ndarray:
        """The rows of its file; `bodies`: that a pointer can drag, if known.

        Raises:
            ParameterError: a line is invalid.
        """
        return read_table(lines, name)

    def write_file(self, table: np.ndarray) -> str:
        """The text of its file, which `read_file` reads to the same bits."""
        rows = [",".join(repr(float(value)) for value in row) for row in table]
        return "\n".join([",".join(COLUMNS), *rows]) + "\n"


OPERATORS = Kind("operators", OperatorParameters)
AnyOperatorParameters = Annotated[OperatorParameters, OPERATORS]


class ConstantParameters(OperatorParameters):
    """The same wrench all the time."""

    type: Literal["constant"] = "constant"
    wrench: Wrench = quantity(unit="N, N m", description="Constant wrench [fx, fy, fz, tx, ty, tz] of the operator")

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        return Constant(self)


class SineParameters(OperatorParameters):
    """offset + amplitude sin(2 pi frequency t + phase)."""

    type: Literal["sine"] = "sine"
    amplitude: Wrench = quantity(
        unit="N, N m", description="Amplitude of the operator's wrench [fx, fy, fz, tx, ty, tz]"
    )
    frequency: float = quantity(unit="Hz", description="Frequency of the operator's wrench", ge=0.0)
    phase: float = quantity(0.0, unit="rad", description="Phase of the operator's wrench at the start")
    offset: Wrench = quantity(
        (0.0,) * 6, unit="N, N m", description="Mean of the operator's wrench [fx, fy, fz, tx, ty, tz]"
    )

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        return Sine(self)


class FileParameters(OperatorParameters):
    """Recorded wrenches: linear interpolation between the rows of a CSV file, zero outside its times."""

    type: Literal["file"] = "file"
    path: str = quantity(description="CSV file of the operator's wrench, with the header " + ",".join(COLUMNS))

    @property
    def file_key(self) -> str:
        """The key that names its file; empty if it has none."""
        return "path"

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        if context.table is None:
            raise TypeError("a file operator needs its table")
        return Recorded(context.table)


def _in_order(path: tuple[Waypoint, ...]) -> tuple[Waypoint, ...]:
    for i, (time, *_) in enumerate(path):
        before = path[i - 1][0] if i else -math.inf
        if not (time >= 0.0 and time > before):
            raise ValueError(f"[{i}][0] = {time:g} s: must be >= 0, and later than the row before")
    return path


Waypoint = tuple[float, float, float, float]


class ArmParameters(OperatorParameters):
    """A hand at the end of an arm that moves along a path of its own.

    Arm: stiffness (place - hand) + damping (velocities); torque likewise towards the orientation in which it took
    hold. A hand without mass is where the device is. One with a mass holds the device by the flesh of its grip:
    mass x hand's acceleration = arm - grip, and grip_stiffness (hand - device) + grip_damping (velocities) is applied.
    """

    REACTS: ClassVar[bool] = True

    type: Literal["arm"] = "arm"
    path: Annotated[tuple[Waypoint, ...], AfterValidator(_in_order)] = quantity(
        unit="s, m",
        description="Path of the operator's hand: rows of a time and a displacement x, y, z from where it took hold; "
        "between two rows the hand moves by half a cosine, after the last it stays",
        min_length=1,
    )
    stiffness: float = quantity(200.0, unit="N/m", description="Stiffness of the operator's arm", ge=0.0, le=1e5)
    damping: float = quantity(10.0, unit="N s/m", description="Damping of the operator's arm", ge=0.0, le=1e4)
    turn_stiffness: float = quantity(
        0.0, unit="N m/rad", description="Rotational stiffness of the operator's arm", ge=0.0, le=1e4
    )
    turn_damping: float = quantity(
        0.0, unit="N m s/rad", description="Rotational damping of the operator's arm", ge=0.0, le=1e3
    )
    mass: float = quantity(0.0, unit="kg", description="Mass of the operator's hand", ge=0.0, le=100.0)
    grip_stiffness: float = quantity(
        1000.0, unit="N/m", description="Stiffness of the grip of a hand with a mass", ge=0.0, le=1e5
    )
    grip_damping: float = quantity(
        10.0, unit="N s/m", description="Damping of the grip of a hand with a mass", ge=0.0, le=1e4
    )

    @property
    def spring_and_damper(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Stiffness and damping of the arm, in translation and in rotation; those in translation are 0 with a mass."""
        held = float(self.mass == 0.0)
        return (held * self.stiffness, self.turn_stiffness), (held * self.damping, self.turn_damping)

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        return Arm(self)


class TangentialParameters(OperatorParameters):
    """amplitude sin^2(pi t / 2) along the circle about `centre` on which the hand is, in the plane z = 0 (FAULRING)."""

    type: Literal["tangential"] = "tangential"
    amplitude: float = quantity(unit="N", description="Largest force along the circle, positive counter-clockwise")
    centre: tuple[float, float] = quantity(
        (0.0, 0.0), unit="m", description="Centre of the circle along which the force acts"
    )

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        return Tangential(self)


class PointerParameters(SpringParameters, OperatorParameters):
    """A person who drags the hand, or without a device any body: by a page, a keyboard, a gamepad, a file."""

    type: Literal["pointer"] = "pointer"
    events: str | None = quantity(
        None,
        description="CSV file of the pointer's events, with the header "
        + ",".join(EVENT_COLUMNS)
        + "; null: they come on the topic operator_events_in",
    )
    mass: float | None = quantity(
        None,
        unit="kg",
        description="Mass that the spring is damped for at the hand; null: that of the device and of the tool at the "
        "hand, without a device the one that the hand has in each tick",
        gt=0.0,
        le=1e3,
    )
    inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia that the spring is damped for at the hand; null: as the mass",
        gt=0.0,
        le=1e3,
    )

    EVENTS: ClassVar[bool] = True
    DRAGS: ClassVar[bool] = True

    @property
    def file_key(self) -> str:
        """The key that names its file; empty if it has none."""
        return "" if self.events is None else "events"

    def read_file(self, lines: Iterable[str], name: str, bodies: Bodies | None = None) -> np.ndarray:
        """The rows of its file; `bodies`: that a pointer can drag, if known."""
        return read_events(lines, name, bodies)

    def write_file(self, table: np.ndarray) -> str:
        """The text of its file, which `read_file` reads to the same bits."""
        return write_events(table)

    def build(self, context: OperatorContext) -> Operator:
        """The operator, which neither trembles nor lets go."""
        if context.events is None or context.mobility is None:
            raise TypeError("a pointer needs its events and the mobility of what it moves")
        return Pointer(self, context.events, context.mobility, self.release, context.observe_body)


def wrench_at_rest(operator: Operator, time: float, out: np.ndarray) -> None:
    """Fill `out` with what an operator applies to a hand at rest at the origin: all there is of one by schedule."""
    operator.wrench(time, _ORIGIN, _REST, out)


class Constant:
    """Applies the same wrench at all times, as `ConstantParameters` say."""

    def __init__(self, parameters: ConstantParameters):
        self._wrench = np.array(parameters.wrench)

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s], with the hand at `pose` (7,), moving with `twist` (6,)."""
        out[:] = self._wrench


class Sine:
    """Applies a wrench that oscillates about a mean, as `SineParameters` say."""

    def __init__(self, parameters: SineParameters):
        self._amplitude, self._offset = np.array(parameters.amplitude), np.array(parameters.offset)
        self._frequency, self._phase = 2 * math.pi * parameters.frequency, parameters.phase

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s], with the hand at `pose` (7,), moving with `twist` (6,)."""
        np.multiply(self._amplitude, math.sin(self._frequency * time + self._phase), out=out)
        out += self._offset


class Recorded:
    """Applies the wrenches of a file, as `FileParameters` say; `table` as from `read_table`."""

    def __init__(self, table: np.ndarray):
        self._times, self._wrenches = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1:])
        self._row = 0  # times are asked for in order: the search starts at the last row

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s], with the hand at `pose` (7,), moving with `twist` (6,)."""
        times = self._times
        if not times[0] <= time <= times[-1]:
            out[:] = 0.0
            return
        if time < times[self._row]:
            self._row = 0
        while self._row < times.size - 2 and times[self._row + 1] <= time:
            self._row += 1
        i = self._row
        if times.size == 1:
            out[:] = self._wrenches[0]
            return
        part = (time - times[i]) / (times[i + 1] - times[i])
        out[:] = (1.0 - part) * self._wrenches[i] + part * self._wrenches[i + 1]


@record
class ArmArrays(NamedTuple):
    """An arm and its last call, for kernels; arrays are of translation, in world axes."""

    stiffness: float = value("stiffness of the arm", unit="N/m")
    damping: float = value("damping of the arm", unit="N s/m")
    turn_stiffness: float = value("rotational stiffness of the arm", unit="N m/rad")
    turn_damping: float = value("rotational damping of the arm", unit="N m s/rad")
    mass: float = value("mass of the hand", unit="kg")
    grip_stiffness: float = value("stiffness of the grip", unit="N/m")
    grip_damping: float = value("damping of the grip", unit="N s/m")
    start: np.ndarray = array("pose of the device where the hand took hold, NaN before", 7, unit="m")
    aim: np.ndarray = array("target to which the arm pulls the hand", 3, unit="m")
    velocity: np.ndarray = array("velocity of that", 3, unit="m/s")
    position: np.ndarray = array("position of the device", 3, unit="m")
    twist: np.ndarray = array("velocity of the device", 3, unit="m/s")
    hand: np.ndarray = array("position of the hand, NaN before the first call", 3, unit="m")
    hand_velocity: np.ndarray = array("velocity of the hand", 3, unit="m/s")


class Arm:
    """Pushes as an arm that holds the device, as `ArmParameters` say; it takes hold in the first call, at rest."""

    def __init__(self, parameters: ArmParameters):
        rows = np.array(parameters.path)
        if rows[0, 0] > 0.0:
            rows = np.vstack([np.zeros(4), rows])
        self._times, self._places = rows[:, 0].tolist(), np.ascontiguousarray(rows[:, 1:])
        gains = ("stiffness", "damping", "turn_stiffness", "turn_damping", "mass", "grip_stiffness", "grip_damping")
        self._arrays = allocate(ArmArrays, **{name: getattr(parameters, name) for name in gains})
        self._packed, self._time = Packed(self._arrays), math.nan  # time of the last call
        self.wrench(0.0, np.zeros(7), np.zeros(6), np.zeros(6))  # loads the kernel before the first tick
        self._take_hold()

    def _take_hold(self) -> None:
        """Take hold of the device in the next call."""
        self._time = self._arrays.start[:] = self._arrays.hand[:] = math.nan

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]; times come in order, or are that of the call before."""
        i = bisect.bisect_right(self._times, time) - 1
        part, rate = 0.0, 0.0
        if 0 <= i < len(self._times) - 1:
            lasts = self._times[i + 1] - self._times[i]
            phase = math.pi * (time - self._times[i]) / lasts
            part, rate = 0.5 * (1.0 - math.cos(phase)), 0.5 * math.pi / lasts * math.sin(phase)
        i = max(i, 0)
        here, following = self._places[i], self._places[min(i + 1, len(self._times) - 1)]
        elapsed, self._time = time - self._time, time
        _pull(self._packed, here, following, part, rate, elapsed, pose, twist, out)


@kernel
def _pull(packed, here, following, part, rate, elapsed, pose, twist, out):
    """Fill `out` (6,) with the arm's wrench `elapsed` [s] after the last call, `part` of the way between two places."""
    a = packed.arrays
    start, last_aim, last_velocity, last_position, last_twist = a.start, a.aim, a.velocity, a.position, a.twist
    stiffness, damping, mass = a.stiffness, a.damping, a.mass
    grip_stiffness, grip_damping = a.grip_stiffness, a.grip_damping
    if math.isnan(start[0]):
        start[:] = pose
    rotation_difference(start[3:], pose[3:], out[3:])
    for i in range(3):
        out[3 + i] = a.turn_stiffness * out[3 + i] - a.turn_damping * twist[3 + i]
        span = following[i] - here[i]
        aim, velocity = start[i] + here[i] + part * span, rate * span
        if mass == 0.0:
            out[i] = stiffness * (aim - pose[i]) + damping * (velocity - twist[i])
            continue
        x, v = a.hand[i], a.hand_velocity[i]
        if math.isnan(x):
            x, v = pose[i], 0.0
        elif elapsed > 0.0:
            # The implicit midpoint rule, under the means of aim and device: it adds no energy, whatever the grip.
            # `mean` is the hand's mean velocity.
            drive = (
                2.0 * mass * v / elapsed
                + stiffness * (0.5 * (last_aim[i] + aim) - x)
                + damping * 0.5 * (last_velocity[i] + velocity)
                + grip_stiffness * (0.5 * (last_position[i] + pose[i]) - x)
                + grip_damping * 0.5 * (last_twist[i] + twist[i])
            )
            mean = drive / (
                2.0 * mass / elapsed + 0.5 * elapsed * (stiffness + grip_stiffness) + damping + grip_damping
            )
            x, v = x + elapsed * mean, 2.0 * mean - v
        last_aim[i], last_velocity[i], a.hand[i], a.hand_velocity[i] = aim, velocity, x, v
        last_position[i], last_twist[i] = pose[i], twist[i]
        out[i] = grip_stiffness * (x - pose[i]) + grip_damping * (v - twist[i])


class Tangential:
    """Pushes along the tangent of a circle, as `TangentialParameters` say."""

    def __init__(self, parameters: TangentialParameters):
        self._amplitude, self._centre = parameters.amplitude, parameters.centre

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]; zero with the hand at the centre, where there is no direction."""
        out[:] = 0.0
        x, y = pose.item(0) - self._centre[0], pose.item(1) - self._centre[1]
        radius = math.hypot(x, y)
        if radius > 0.0:
            force = self._amplitude * math.sin(0.5 * math.pi * time) ** 2
            out[0], out[1] = -force * y / radius, force * x / radius


class Trembling:
    """Another operator whose hand trembles."""

    def __init__(self, operator: Operator, tremor: Tremor):
        self._operator, self._tremor = operator, tremor

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s], with the hand at `pose` (7,), moving with `twist` (6,)."""
        self._operator.wrench(time, pose, twist, out)
        self._tremor.add(time, out)


class Released:
    """Another operator until it lets go."""

    def __init__(self, operator: Operator, release: float):
        self._operator, self._release = operator, release

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s], with the hand at `pose` (7,), moving with `twist` (6,)."""
        if time < self._release:
            self._operator.wrench(time, pose, twist, out)
        else:
            out[:] = 0.0


def build_operator(
    parameters: AnyOperatorParameters,
    table: np.ndarray | None = None,
    seed: int = 0,
    events: Events | None = None,
    mobility: np.ndarray | None = None,
    observe_body: Observer | None = None,
) -> Operator:
    """The operator of some parameters.

    Args:
        parameters: of any type.
        table: rows of a `file` operator.
        seed: of its tremor.
        events: of a `pointer`; mobility, observe_body: as of `OperatorContext`.
    """
    operator = parameters.build(OperatorContext(table, events, mobility, observe_body))
    if any(parameters.tremor):
        operator = Trembling(operator, Tremor(parameters.tremor, parameters.tremor_band, seed))
    if parameters.release is None or parameters.EVENTS:  # which bounds how fast it lets go
        return operator
    return Released(operator, parameters.release)


def events_of(
    parameters: AnyOperatorParameters, table: np.ndarray | None = None, bodies: Bodies = MappingProxyType({})
) -> Events | None:
    """The events of a pointer, offered or from the rows of its file; None for other operators."""
    return Events(table, bodies) if parameters.EVENTS else None


def read_table(lines: Iterable[str], name: str) -> np.ndarray:
    """Rows of a wrench file, (n, 7): time [s], force [N], torque [N m].

    Raises:
        ParameterError: a line that is not seven finite numbers, or times that do not increase; names the line.
    """
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1:
            if tuple(cells) != COLUMNS:
                raise ParameterError(
                    [f"{name}, line 1: {inputs.shown(line.strip())!r}: must be the header {','.join(COLUMNS)}"]
                )
            continue
        if not line.strip():
            continue
        try:
            row = [inputs.number(cell) for cell in cells]
        except inputs.InputError:
            row = []
        if len(row) != len(COLUMNS):
            found = inputs.shown(line.strip())
            raise ParameterError([f"{name}, line {number}: {found!r}: must be seven finite numbers"])
        if rows and row[0] <= rows[-1][0]:
            raise ParameterError(
                [f"{name}, line {number}: time = {row[0]:g} s: must be after the line before ({rows[-1][0]:g} s)"]
            )
        rows.append(row)
    if not rows:
        raise ParameterError([f"{name}: no rows: must have the header {','.join(COLUMNS)} and at least one row"])
    return np.array(rows)
