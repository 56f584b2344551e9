"""Devices that are not simulated here, as parts: hardware, and a node of one's own in the graph.

The driver of hardware is a module of this package or of the user's, which runs in the process of the driver node. A
device that is a node of its own is read and written by two topics (docs/external.md). To the driver both are the same:
a `Hardware`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

from haptic_control.guard import Port
from haptic_control.parameters import KnownDevice
from haptic_drivers.devices.hardware import HardwareDevice, limits_of
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.parameters import (
    DIRECTIONS,
    Directions,
    HardwareParameters,
    MeasuredDeviceParameters,
    build_hardware,
    check_driver,
    entry_of,
)
from haptic_drivers.parameters import BuiltDevice, DeviceContext, DeviceStart, ForceDeviceParameters
from haptic_sim import rotations
from haptic_sim.inputs import LARGEST
from haptic_sim.messages import FORCE
from haptic_sim.parameters import ParameterError, quantity
from haptic_sim.parts import Entry


class PhysicalDeviceParameters(MeasuredDeviceParameters, ForceDeviceParameters):  # type: ignore[misc]  # never no soft start
    """A device whose motion is measured, and whose operator is a person or a simulation of the user's."""

    HARDWARE: ClassVar[bool] = True
    OFFLINE: ClassVar[bool] = False
    IDENTIFIED_BY: ClassVar[str] = ""
    """Method by which an unknown mass and inertia are found, for messages about them."""

    def build(self, context: DeviceContext) -> BuiltDevice:
        """The device; a damper of the guard is as weak as the device's delay [s] requires."""
        rate, inertia = context.rate, None
        if self.mass is not None and self.inertia is not None:
            share = 1.0 / (1.0 + 2.0 * rate * (self.delay or 0.0))
            inertia = share * self.mass, share * self.inertia
        port = Port.of(context.guard, FORCE, 1.0 / rate, inertia, acts=context.guard.acts)
        start = np.array(context.hand.pose)
        held = HardwareDevice(self, limits_of(self), port, context.source, start, 1.0 / rate)
        return BuiltDevice(held, hardware=held)

    def known(self) -> KnownDevice:
        """Properties of the device that a controller may know, once the parameters are completed."""
        return KnownDevice(self.type, self.mass, self.inertia, True, self.damping)

    def coupled(self, start: DeviceStart) -> dict[str, Any]:
        """Keys of `CoupledInertias` about the device, in the directions with a motor whose inertia is known."""
        known = np.repeat([float(one is not None) for one in (self.mass, self.inertia)], 3)
        R_WB = np.kron(np.eye(2), rotations.matrix(np.array(self.mount[3:])))
        driven = R_WB * (known * self.mask(self.actuated)) @ R_WB.T
        if not driven.any():
            return {}
        return {
            "device": (self.mass or LARGEST, self.inertia or LARGEST),
            "driven": tuple(driven.ravel().tolist()),
            "damping": self.damping,
            "force_sensor": False,
        }

    @property
    def label(self) -> str:
        """Name of the device in a report."""
        return self.name

    def unchecked(self) -> str:
        """Reason why the stability of gains is not checked, an unknown mass or inertia; empty if both are known."""
        unknown = [
            (key, motion)
            for key, motion, names in (("mass", "translation", "xyz"), ("inertia", "rotation", ("rx", "ry", "rz")))
            if getattr(self, key) is None and set(names) & set(self.actuated)
        ]
        if not unknown:
            return ""
        keys = ", ".join(f"device.{key} = null" for key, _ in unknown)
        motions = " and ".join(motion for _, motion in unknown)
        return (
            f"{keys}: not known, so the controller's gains in {motions} are not checked for stability with "
            f"{self.name}; {self.IDENTIFIED_BY}"
        )


class HardwareDeviceParameters(HardwareParameters, PhysicalDeviceParameters):  # type: ignore[misc]  # as above
    """A hardware device; keys that are left out are those of the file that `name` names."""

    IDENTIFIED_BY: ClassVar[str] = "measure what is missing with haptics identify"

    type: Literal["hardware"] = "hardware"

    def connect(self, rate: float, notify: Callable[[str], None]) -> Link:
        """The open connection to hardware at a servo rate [Hz], for `DeviceContext.source`; None: it is simulated."""
        link = Link(build_hardware(self), self, 1.0 / rate, notify=notify)
        try:
            link.open()
        except DeviceError as error:
            problem = str(error).removeprefix(f"{self.name}: ")
            raise ParameterError([f"device.name = {self.name}: {problem}"]) from error
        return link

    def check_driver(self) -> None:
        """Make sure that everything is installed which the device needs."""
        check_driver(self)

    def entries(self) -> tuple[Entry, ...]:
        """Registrations of what the part uses beside its class, as a driver of hardware."""
        return (entry_of(self.module),)


class ExternalDeviceParameters(PhysicalDeviceParameters):
    """A node of one's own, named device: it is read and written by topics, limited and guarded as hardware is."""

    EXTERNAL: ClassVar[bool] = True
    IDENTIFIED_BY: ClassVar[str] = "give what is known of them"

    type: Literal["external"] = "external"
    name: str = quantity("device", description="Name of the device")
    sensed: Directions = quantity(
        DIRECTIONS, description="Directions that the device measures, in the axes of its base: of x, y, z, rx, ry, rz"
    )
    actuated: Directions = quantity(DIRECTIONS, description="Directions that it renders")
