# Written by python -m haptic_sim.msg_stub > haptic_sim/definitions.pyi
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from haptic_sim.msg_files import Field

STAMP: tuple[Field, Field]

class BackwardPacketArrays(NamedTuple):
    """What kernels read and fill of a BackwardPacket: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    content_tick: np.ndarray
    state_tick: np.ndarray
    wrench: np.ndarray
    wave: np.ndarray
    paid: np.ndarray
    absorbed: np.ndarray
    delivered: np.ndarray
    dissipated: np.ndarray
    available: np.ndarray

class BackwardPacket:
    """What crosses a relay from the world's end to the device's, once a servo tick; published by the world's end.
    Energies are those at the world's end after the motion of the tick, of translation and of rotation."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[BackwardPacketArrays]]
    tick: int
    """servo periods since the start of the trial"""
    content_tick: int
    """of the newest forward packet that had arrived, -1: none"""
    state_tick: int
    """of the last device state that was relayed to the controller"""
    wrench: np.ndarray
    """of the DeviceCommand of the tick [N, N m]"""
    wave: np.ndarray
    """integral of the wave that was sent [sqrt(J s)]"""
    paid: np.ndarray
    """energy that this end has paid to the other [J]"""
    absorbed: np.ndarray
    """energy that has entered the relay through this port [J]"""
    delivered: np.ndarray
    """energy that has left the relay through this port [J]"""
    dissipated: np.ndarray
    """energy that the guard has kept from leaving [J]"""
    available: np.ndarray
    """energy that may still leave through this port [J]"""

class DeviceCommandArrays(NamedTuple):
    """What kernels read and fill of a DeviceCommand: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    device_tick: np.ndarray
    mode: np.ndarray
    wrench: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    acceleration: np.ndarray

class DeviceCommand:
    """What the device shall render during a servo tick, published by the controller. All quantities are at the hand
    point, in the axes of header.frame_id."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[DeviceCommandArrays]]
    FORCE: ClassVar[int]
    MOTION: ClassVar[int]
    NOTHING: ClassVar[int]
    tick: int
    """servo periods since the start of the trial"""
    device_tick: int
    """of the device state that was used; behind a relay, of the newest one whose answer has come"""
    mode: int
    """FORCE, MOTION or NOTHING"""
    wrench: np.ndarray
    """of the device on the hand, held over the tick [N, N m]"""
    pose: np.ndarray
    """of the hand point at the end of the tick [m], quaternion x y z w"""
    twist: np.ndarray
    """of the hand point [m/s, rad/s]"""
    acceleration: np.ndarray
    """of the hand point [m/s^2, rad/s^2]"""

class DeviceReadingArrays(NamedTuple):
    """What kernels read and fill of a DeviceReading: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    written: np.ndarray
    age: np.ndarray
    motion_scale: np.ndarray
    force_scale: np.ndarray
    state: np.ndarray
    reason: np.ndarray
    buttons: np.ndarray

class DeviceReading:
    """What was read from a hardware device and written to it, published by its driver before the state of the tick.
    Quantities are at the hand point, in the axes of the device's base."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[DeviceReadingArrays]]
    tick: int
    """servo periods since the start of the trial"""
    pose: np.ndarray
    """of the hand point in the base, as it was read [m], quaternion x y z w"""
    twist: np.ndarray
    """of the hand point, as it was read [m/s, rad/s]"""
    written: np.ndarray
    """on the hand, as it was written in the previous tick [N, N m]"""
    age: float
    """of the reading at t_k [s]"""
    motion_scale: float
    """displacement of the tool by that of the hand, for the displacement of this tick"""
    force_scale: float
    """force on the hand by that of the tool, for the force of this tick"""
    state: int
    """as in DeviceState"""
    reason: int
    """why the device lets no force through, as in DeviceState; NONE: it does"""
    buttons: np.ndarray
    """1 pressed, 0 released"""

    def __init__(
        self,
        frame: str = ...,
        *,
        buttons: int = ...,
    ) -> None: ...

class DeviceStateArrays(NamedTuple):
    """What kernels read and fill of a DeviceState: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    operator_wrench: np.ndarray
    rendered_wrench: np.ndarray
    command_tick: np.ndarray
    reading_tick: np.ndarray
    port_energy: np.ndarray
    port_dissipated: np.ndarray
    reading_age: np.ndarray
    state: np.ndarray
    reason: np.ndarray
    buttons: np.ndarray

class DeviceState:
    """State of the device at the beginning of a servo tick, published by the driver. All quantities are at the hand
    point, in the axes of header.frame_id. Those of hardware are as the tool has them: apart from the device while
    the clutch is open, and at a scale s of motion s times the displacement of the hand, 1/s of the force that is
    written, and the same energy. DeviceReading has what was read and written."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[DeviceStateArrays]]
    DISABLED: ClassVar[int]
    ENABLED: ClassVar[int]
    PAUSED: ClassVar[int]
    FAULT: ClassVar[int]
    NONE: ClassVar[int]
    NOT_ENABLED: ClassVar[int]
    ON_PAUSE: ClassVar[int]
    NO_PRESENCE: ClassVar[int]
    STOPPED: ClassVar[int]
    FAILED: ClassVar[int]
    OLD_READING: ClassVar[int]
    NO_COMMAND: ClassVar[int]
    WATCHDOG: ClassVar[int]
    CLUTCHED: ClassVar[int]
    SCALED_TO_ZERO: ClassVar[int]
    NO_CONTACT: ClassVar[int]
    PASSIVE: ClassVar[int]
    SATURATED: ClassVar[int]
    NOT_HOMED: ClassVar[int]
    tick: int
    """servo periods since the start of the trial"""
    pose: np.ndarray
    """of the hand point at t_k [m], quaternion x y z w"""
    twist: np.ndarray
    """of the hand point at t_k [m/s, rad/s]"""
    operator_wrench: np.ndarray
    """of the operator on the device at t_k [N, N m]"""
    rendered_wrench: np.ndarray
    """of the device on the hand during the previous tick, after limits [N, N m]"""
    command_tick: int
    """of the command rendered during the previous tick, -1: none, zero force"""
    reading_tick: int
    """of the reading that pose, twist and operator_wrench are of: later ones were rejected, or are in transit in a
    relay"""
    port_energy: np.ndarray
    """received from the hand since the activation: translation, rotation [J]"""
    port_dissipated: np.ndarray
    """kept from the hand by the guard since then: translation, rotation [J]"""
    reading_age: float
    """of the reading that pose and twist are of, at t_k [s]"""
    state: int
    """DISABLED, ENABLED, PAUSED or FAULT"""
    reason: int
    """why nothing was rendered during the previous tick; NONE: a force was"""
    buttons: np.ndarray
    """1 pressed, 0 released"""

    def __init__(
        self,
        frame: str = ...,
        *,
        buttons: int = ...,
    ) -> None: ...

class ForwardPacketArrays(NamedTuple):
    """What kernels read and fill of a ForwardPacket: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    content_tick: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    operator_wrench: np.ndarray
    rendered_wrench: np.ndarray
    state: np.ndarray
    reason: np.ndarray
    wave: np.ndarray
    paid: np.ndarray
    absorbed: np.ndarray
    delivered: np.ndarray
    dissipated: np.ndarray
    available: np.ndarray

class ForwardPacket:
    """What crosses a relay from the device's end to the world's, once a servo tick; published by the device's end.
    Energies are those at the device's end up to the beginning of the tick, of translation and of rotation."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[ForwardPacketArrays]]
    tick: int
    """servo periods since the start of the trial"""
    content_tick: int
    """of the newest backward packet that had arrived, -1: none"""
    pose: np.ndarray
    """of the device's hand point at t_k [m], quaternion x y z w"""
    twist: np.ndarray
    """of the device's hand point at t_k [m/s, rad/s]"""
    operator_wrench: np.ndarray
    """of the operator on the device at t_k [N, N m], zero with a guard"""
    rendered_wrench: np.ndarray
    """of the device on the hand during the previous tick [N, N m], zero with a guard"""
    state: int
    """of the device, as in its state"""
    reason: int
    """why the device rendered nothing, as in its state"""
    wave: np.ndarray
    """integral of the wave that was sent [sqrt(J s)]"""
    paid: np.ndarray
    """energy that this end has paid to the other [J]"""
    absorbed: np.ndarray
    """energy that has entered the relay through this port [J]"""
    delivered: np.ndarray
    """energy that has left the relay through this port [J]"""
    dissipated: np.ndarray
    """energy that the guard has kept from leaving [J]"""
    available: np.ndarray
    """energy that may still leave through this port [J]"""

class LocalGeometryArrays(NamedTuple):
    """What kernels read and fill of a LocalGeometry: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    step: np.ndarray
    epsilon: np.ndarray
    pose: np.ndarray
    q: np.ndarray
    v: np.ndarray
    inertia: np.ndarray
    gravity: np.ndarray
    wrench: np.ndarray
    poses: np.ndarray
    twists: np.ndarray
    constraints: np.ndarray

class LocalGeometry:
    """The surroundings of the virtual tool, published by an environment that is slower than the servo loop."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[LocalGeometryArrays]]
    tick: int
    """tick at whose beginning the tool had that state"""
    step: int
    """of the environment"""
    epsilon: float
    """constraints nearer than this are listed [m]"""
    pose: np.ndarray
    """of the tool's hand point when surveyed [m], quaternion x y z w"""
    q: np.ndarray
    """configuration of the tool when surveyed [m, rad]"""
    v: np.ndarray
    """configuration velocity [m/s, rad/s]"""
    inertia: np.ndarray
    """configuration-space inertia, row major"""
    gravity: np.ndarray
    """configuration-space gravity terms"""
    wrench: np.ndarray
    """of all contacts on the tool in the environment, at the hand point; zero where nothing but the tool moves and
    no local model of the type held asks for it"""
    poses: np.ndarray
    """of the bodies that are not of the tool, in the order of the world states [m], quaternion x y z w"""
    twists: np.ndarray
    """of the same, at the origins of their axes"""
    constraints: np.ndarray

    def __init__(
        self,
        frame: str = ...,
        *,
        q: int = ...,
        v: int = ...,
        inertia: int = ...,
        gravity: int = ...,
        poses: int = ...,
        twists: int = ...,
        constraints: int = ...,
    ) -> None: ...

class OperatorEventArrays(NamedTuple):
    """What kernels read and fill of a OperatorEvent: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    source: np.ndarray
    sequence: np.ndarray
    phase: np.ndarray
    oriented: np.ndarray
    body: np.ndarray
    point: np.ndarray
    pose: np.ndarray

class OperatorEvent:
    """What a person does with a pointer: published by a page, a keyboard or a gamepad on `operator_events_in`, and,
    with the tick at which it took effect, by the node that has the operator on `operator_events`."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[OperatorEventArrays]]
    GRAB: ClassVar[int]
    MOVE: ClassVar[int]
    RELEASE: ClassVar[int]
    tick: int
    """in which it took effect, -1: not yet"""
    source: int
    """identity of who sends; while one holds, the others are ignored"""
    sequence: int
    """number of the message, increasing: one that comes late, or again, is ignored"""
    phase: int
    """GRAB, MOVE or RELEASE"""
    oriented: int
    """1: the orientation is held, too; 0: only the point"""
    body: int
    """-1: the hand"""
    point: np.ndarray
    """that is grabbed, in the axes of the body [m]"""
    pose: np.ndarray
    """displacement of the pointer since it took hold [m], and its rotation, quaternion x y z w"""

class ToolCommandArrays(NamedTuple):
    """What kernels read and fill of a ToolCommand: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    tool_tick: np.ndarray
    body: np.ndarray
    hand: np.ndarray
    hand_age: np.ndarray
    wrench: np.ndarray

class ToolCommand:
    """What acts on the virtual tool during a servo tick, published by the controller; without a device, what the
    operator applies, by the environment."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[ToolCommandArrays]]
    ABSENT: ClassVar[int]
    RELEASED: ClassVar[int]
    HELD: ClassVar[int]
    tick: int
    """servo periods since the start of the trial"""
    tool_tick: int
    """of the tool state that was used"""
    body: int
    """that it acts on: -1, the virtual tool; without a device also one of the world state"""
    hand: int
    """on the device, by the device state that was used: ABSENT, RELEASED or HELD"""
    hand_age: float
    """of the device's reading that was used, at t_k [s]"""
    wrench: np.ndarray
    """at the hand point, or the origin of the body's axes, held over the tick [N, N m]"""

class ToolStateArrays(NamedTuple):
    """What kernels read and fill of a ToolState: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    command_tick: np.ndarray
    geometry_tick: np.ndarray
    contact_state: np.ndarray
    contacts: np.ndarray
    sliding: np.ndarray
    kinetic_energy: np.ndarray
    wrench: np.ndarray
    impulse: np.ndarray
    pose: np.ndarray
    twist: np.ndarray
    inverse_inertia: np.ndarray
    free_acceleration: np.ndarray
    residual: np.ndarray
    energy: np.ndarray
    q: np.ndarray
    v: np.ndarray
    multipliers: np.ndarray
    constraint_directions: np.ndarray

class ToolState:
    """What the virtual tool did during a servo tick, published by the environment or by the local model. Tick -1 is
    the initial state. All quantities are at the hand point, in the axes of header.frame_id."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[ToolStateArrays]]
    FREE: ClassVar[int]
    COLLIDING: ClassVar[int]
    RESTING: ClassVar[int]
    tick: int
    """servo periods since the start of the trial"""
    command_tick: int
    """of the ToolCommand that was used, -1: none"""
    geometry_tick: int
    """of the LocalGeometry that was used, -1: none"""
    contact_state: int
    """FREE, COLLIDING or RESTING, during the tick"""
    contacts: int
    """number of contacts during the tick"""
    sliding: int
    """how many of them slide"""
    kinetic_energy: float
    """of the tool at t_(k+1) [J]"""
    wrench: np.ndarray
    """of contacts on the tool, of a tool under exact constraints alone: of these, held over the tick [N, N m]"""
    impulse: np.ndarray
    """of the contacts on the tool since the start of the trial, world axes [N s, N m s]"""
    pose: np.ndarray
    """of the hand point at t_(k+1) [m], quaternion x y z w"""
    twist: np.ndarray
    """of the hand point at t_(k+1) [m/s, rad/s]"""
    inverse_inertia: np.ndarray
    """operational-space inverse inertia J D^-1 J^T at t_(k+1), 6x6 row major [1/kg, 1/(kg m), 1/(kg m^2)]"""
    free_acceleration: np.ndarray
    """of the hand point at t_(k+1) without any wrench on it, Jdot v - J D^-1 B [m/s^2, rad/s^2]"""
    residual: np.ndarray
    """norms of the holonomic and nonholonomic residuals of exact constraints at t_(k+1)"""
    energy: np.ndarray
    """of the whole simulated world at t_k"""
    q: np.ndarray
    """configuration at t_(k+1) [m, rad]"""
    v: np.ndarray
    """configuration velocity at t_(k+1) [m/s, rad/s]"""
    multipliers: np.ndarray
    """of the exact constraints during the tick, generalised forces A^T lambda"""
    constraint_directions: np.ndarray
    """wrench directions in which the topology blocks the hand, 6 values each, torques per metre; shorter than 1
    while fading"""

    def __init__(
        self,
        frame: str = ...,
        *,
        q: int = ...,
        v: int = ...,
        multipliers: int = ...,
        constraint_directions: int = ...,
    ) -> None: ...

class WorldStateArrays(NamedTuple):
    """What kernels read and fill of a WorldState: the values in its buffer."""

    sec: np.ndarray
    nanosec: np.ndarray
    tick: np.ndarray
    poses: np.ndarray
    twists: np.ndarray
    q: np.ndarray
    v: np.ndarray
    contacts: np.ndarray

class WorldState:
    """The simulated world at the beginning of a tick, and its contacts during the tick. Published by whoever
    integrates the tool (the environment, or the local model), every few ticks: `environment.publish`, and after
    the answer of the tick. All quantities are in the axes of header.frame_id. Names, and the order of bodies and
    coordinates, stay for a trial."""

    TYPE: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]]
    Arrays: ClassVar[type[WorldStateArrays]]
    tick: int
    """servo periods since the start of the trial"""
    bodies: tuple[str, ...]
    """names; bodies that do not move too"""
    poses: np.ndarray
    """of the axes of each body at t_k [m], quaternion x y z w"""
    twists: np.ndarray
    """of each body at the origin of its axes at t_k [m/s, rad/s]"""
    q_names: tuple[str, ...]
    """of the coordinates: a joint of one coordinate by its name, those of others as joint.x"""
    q: np.ndarray
    """configuration at t_k [m, rad, parts of unit quaternions]"""
    v_names: tuple[str, ...]
    """of the velocities, likewise"""
    v: np.ndarray
    """configuration velocity at t_k [m/s, rad/s]"""
    contacts: np.ndarray
    """of the tick: those that overlap or push"""

    def __init__(
        self,
        frame: str = ...,
        *,
        bodies: Sequence[str] = ...,
        poses: int = ...,
        twists: int = ...,
        q_names: Sequence[str] = ...,
        q: int = ...,
        v_names: Sequence[str] = ...,
        v: int = ...,
        contacts: int = ...,
    ) -> None: ...
