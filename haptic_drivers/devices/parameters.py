"""Data of a hardware device: `config/devices/NAME.yaml`, and the section `device` of an experiment with it."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, ValidationError, model_validator

from haptic_drivers.bound import BoundParameters
from haptic_drivers.devices.interface import Hardware
from haptic_sim.contact.response import DeviceLimits
from haptic_sim.messages import MOST_BUTTONS
from haptic_sim.parameters import NotNegativePair, ParameterError, Parameters, explain, quantity
from haptic_sim.parts import USERS_PATH, Entry, Group, add_users_folders

DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
MOTION_SCALES, FORCE_SCALES = (0.01, 100.0), (0.0, 10.0)  # smallest and largest


DRIVERS = Group("hardware")
"""The modules of the drivers of hardware."""


def _directions(names: tuple[str, ...]) -> tuple[str, ...]:
    for i, name in enumerate(names):
        if name not in DIRECTIONS:
            raise ValueError(f"[{i}] = {name}: must be one of {', '.join(DIRECTIONS)}")
    return names


def _rotation(pose: tuple[float, ...]) -> tuple[float, ...]:
    if abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-6:
        raise ValueError(f"[3:] has the length {np.linalg.norm(pose[3:]):g}: must be a quaternion x y z w of length 1")
    return pose


def _low_to_high(box: tuple[float, ...] | None) -> tuple[float, ...] | None:
    for i in range(3 if box else 0):
        if not box[i] < box[3 + i]:  # type: ignore[index]
            raise ValueError(f"[{i}] = {box[i]:g}: must be less than [{3 + i}] = {box[3 + i]:g}")  # type: ignore[index]
    return box


Directions = Annotated[tuple[str, ...], AfterValidator(_directions)]
Mount = Annotated[tuple[float, float, float, float, float, float, float], AfterValidator(_rotation)]
Box = Annotated[tuple[float, float, float, float, float, float] | None, AfterValidator(_low_to_high)]


class IdentifiedParameters(Parameters):
    """Properties of a device identified by `haptics identify`, for the analysis of passivity."""

    mass: float | None = quantity(
        None, unit="kg", description="Identified mass of the device at the hand point; null: not known", gt=0.0, le=1e3
    )
    inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Identified inertia about any axis through the hand point; null: not known",
        gt=0.0,
        le=1e3,
    )
    damping: NotNegativePair | None = quantity(
        None, unit="N s/m, N m s/rad", description="Identified viscous damping; null: not known"
    )
    friction: NotNegativePair | None = quantity(
        None, unit="N, N m", description="Identified Coulomb friction; null: not known"
    )
    delay: float | None = quantity(
        None,
        unit="s",
        description="Identified time from a written force to its effect in a reading; null: not known",
        ge=0.0,
    )
    noise: NotNegativePair | None = quantity(
        None, unit="m, rad", description="Identified standard deviation of a measured pose; null: not known"
    )


class MeasuredDeviceParameters(IdentifiedParameters, DeviceLimits):
    """The data of a device that is not simulated here, whoever reads and writes it."""

    name: str = quantity(description="Name of the device")
    title: str = quantity("", description="Vendor and model of the device, and what is known of it")
    sensed: Directions = quantity(
        description="Directions that the device measures, in the axes of its base: of x, y, z, rx, ry, rz"
    )
    actuated: Directions = quantity(description="Directions that it renders")
    workspace: Box = quantity(
        None,
        unit="m",
        description="Box in which the hand point can move, in the axes of the base: lower corner, upper corner",
    )
    mount: Mount = quantity(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        unit="m",
        description="Pose X_WB of the device's base in the world: position, quaternion x y z w",
    )
    aligned: Literal["start", "mount"] = quantity(
        "start",
        description="start: where the hand is when force is let through for the first time, it is shown where the tool "
        "is held at the start, and moves from there; mount: it is shown where it is in the world by `mount`",
    )
    buttons: tuple[str, ...] = quantity((), description="Names of the buttons, in the order of its readings")
    presence: str = quantity(
        "none", description="How the device knows that somebody holds it: none, sensor, or the name of a button"
    )
    clutch: str = quantity(
        "",
        description="Name of the button that moves and turns the device apart from the tool while it is pressed; "
        "empty: none",
    )
    wall: NotNegativePair = quantity(
        (0.0, 0.0),
        unit="N/m, N s/m",
        description="Stiffness and damping of soft walls at the workspace, which the hand feels inside of the limits "
        "of the mechanism",
    )
    held_mass: float = quantity(
        0.0,
        unit="kg",
        description="Mass at the hand point whose weight the device compensates for, beyond what it does by itself",
        ge=0.0,
        le=1e3,
    )
    held_centre: tuple[float, float, float] = quantity(
        (0.0, 0.0, 0.0), unit="m", description="Centre of that mass from the hand point, in the axes of the hand"
    )
    motion_scale: float = quantity(
        1.0, description="Displacement of the tool by that of the hand", ge=MOTION_SCALES[0], le=MOTION_SCALES[1]
    )
    force_scale: float = quantity(
        1.0, description="Force on the hand by that of the tool", ge=FORCE_SCALES[0], le=FORCE_SCALES[1]
    )
    ramp: float = quantity(
        0.5, unit="s", description="Time over which a scale that is changed becomes another by one", gt=0.0, le=60.0
    )
    watchdog: float = quantity(
        0.02,
        unit="s",
        description="Age beyond which a command is not rendered and the force is zero; also the time without one after "
        "which the driver's own watchdog writes zero force",
        gt=0.0,
        le=1.0,
    )
    reading_watchdog: float = quantity(
        0.005, unit="s", description="Age of the newest reading beyond which the device is lost", gt=0.0, le=1.0
    )
    soft_start: float = quantity(
        0.5, unit="s", description="Time over which the force grows from zero after it was enabled", ge=0.0, le=60.0
    )
    bound: BoundParameters = quantity(description="The last bound of what is rendered; of hardware it has all keys")

    @model_validator(mode="after")
    def _is_bounded(self) -> MeasuredDeviceParameters:
        for name in ("wrench", "rate", "velocity"):
            if getattr(self.bound, name) is None:
                raise ValueError(f".bound.{name} = null: hardware needs one")
        if self.impulse_rendering == "full":
            raise ValueError(".impulse_rendering = full: hardware has limits; choose saturated, scaled or spread")
        if len(self.buttons) > MOST_BUTTONS:
            raise ValueError(f".buttons has {len(self.buttons)} names: must have at most {MOST_BUTTONS}")
        if self.presence not in ("none", "sensor", *self.buttons):
            known = ", ".join(("none", "sensor", *self.buttons))
            raise ValueError(f".presence = {self.presence}: must be one of {known}")
        if self.clutch not in ("", *self.buttons):
            raise ValueError(f".clutch = {self.clutch}: must be one of {', '.join(self.buttons) or 'no buttons'}")
        if any(self.wall) and self.workspace is None:
            raise ValueError(".wall: is at the workspace, of which there is none; give workspace, or leave it out")
        return self

    def mask(self, names: tuple[str, ...]) -> np.ndarray:
        """1 for the directions that are named, 0 for the others (6,)."""
        return np.array([float(name in names) for name in DIRECTIONS])


class HardwareParameters(MeasuredDeviceParameters):
    """The data of a hardware device, of which the driver is one part (`haptic_drivers.hardware`)."""

    name: str = quantity(description="Name of the device's data in config/devices, or its file")
    module: str = quantity(
        description="Driver of the device: a registered one (haptics list hardware), or a module with dots that Python "
        "finds"
    )
    connection: dict[str, str | float | int | bool] = quantity(
        {}, description="Parameters of the connection to the device: port, address, library"
    )
    highest_rate: float = quantity(unit="Hz", description="Servo rate up to which the device has been made", gt=0.0)
    pace: Literal["host", "device", "callback"] = quantity(
        "host",
        description="Who sets the pace of the readings: the host asks for each, the device sends them, or its library "
        "calls back",
    )


def build_hardware(device: HardwareParameters) -> Hardware:
    """The driver of a device by its module; nothing is opened yet.

    Raises:
        ParameterError: as of `check_driver`.
    """
    module, connection = check_driver(device)
    built: Hardware = module.build(device, connection)
    return built


def check_driver(device: HardwareParameters) -> tuple[ModuleType, Any]:
    """The module of a device's driver, and what it takes as `connection`.

    Raises:
        ParameterError: there is no such module, or `connection` is not what it takes.
    """
    module = _module(device.module)
    try:
        return module, module.Connection.model_validate(device.connection)
    except ValidationError as error:
        raise ParameterError(explain(error, module.Connection, "device.connection.")) from error


def entry_of(module: str) -> Entry:
    """The registration of a driver, by its name or that of its module."""
    return DRIVERS.registration(module, module)


def _module(name: str) -> ModuleType:
    known = DRIVERS.entries()
    full = known[name].value if name in known else name
    add_users_folders()
    try:
        module = importlib.import_module(full)
    except ModuleNotFoundError as error:
        if not f"{full}.".startswith(f"{error.name}."):
            raise ParameterError([f"device.module = {name}: it needs the module {error.name}: install it"]) from error
        folders = os.environ.get(USERS_PATH) or "empty"
        raise ParameterError(
            [
                f"device.module = {name}: there is no module {full}; must be one of {', '.join(known)}, or a module "
                f"with dots that Python finds: put the folder that has it on PYTHONPATH (which is {folders})"
            ]
        ) from error
    except Exception as error:  # a module may raise anything
        what = f"{type(error).__name__}: {error}"
        raise ParameterError([f"device.module = {name}: cannot be imported: {what}; mend it"]) from error
    wanted: tuple[Any, ...] = tuple(getattr(module, part, None) for part in ("Connection", "build"))
    if None in wanted:
        raise ParameterError([f"device.module = {name}: {full} has no Connection or no build"])
    return module
