"""A device as the teleoperators of LeRobot are: asked for an action, and told what is felt.

LeRobot asks some 30 times a second; a device is read and bounded at its servo rate. So a thread of its own steps the
driver, with its limits, soft start and watchdogs. A feedback is rendered until `FEEDBACK` after it came, then nothing.

The names are those of `lerobot.teleoperators.Teleoperator` (version 0.6.2, commit 7427f31), from which this does not
inherit: the plugin `examples/lerobot_teleoperator_haptics` does, where LeRobot is installed.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.driver import Driver, build_driver
from haptic_drivers.hardware import HardwareDeviceParameters
from haptic_drivers.operators import ConstantParameters
from haptic_drivers.parameters import ForceDeviceParameters
from haptic_sim.messages import FORCE, DeviceCommand, DeviceState
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.scenes import NoToolParameters

POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")
CLOSING = 2.0  # [s] for the thread to end
FEEDBACK = 0.2  # [s] after which a feedback is not rendered any more: six calls at 30 Hz


class HapticTeleoperator:
    """A device of this package, for programs that teach robots.

    Args:
        device: its data; a hardware device, or a simulated one that renders forces.
        rate: of the servo [Hz]; None: as the device allows, at most 1000.
        notify: takes what people shall know: faults, and when they are gone.
        clock: monotonic time [s].

    Actions and feedback are flat mappings of floats: pose [m, quat_xyzw] and twist [m/s, rad/s] of the hand, its
    buttons, and the wrench on the hand [N, N m], all in world axes.
    """

    name = "haptics"

    def __init__(
        self,
        device: ForceDeviceParameters,
        rate: float | None = None,
        notify: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        highest = getattr(device, "highest_rate", 1000.0)
        self._device, self._rate, self._notify = device, rate or min(1000.0, highest), notify
        if not 0.0 < self._rate <= max(highest, 1000.0):
            raise ParameterError([f"rate = {self._rate:g} Hz: must be > 0 and at most {highest:g} Hz"])
        self._buttons: tuple[str, ...] = getattr(device, "buttons", ())
        self._clock, self._wrench, self._told = clock, np.zeros(6), -math.inf
        self._thread: threading.Thread | None = None
        self._fault = ""
        self._renew(None)

    def _renew(self, link: Any) -> None:
        """Make what is of one connection alone: a thread of the last one that is late must not serve the next."""
        self._link, self._state = link, DeviceState()
        self._lock, self._ended = threading.Lock(), threading.Event()

    @property
    def action_features(self) -> dict[str, type]:
        """Names and types of an action."""
        return dict.fromkeys((*POSE, *TWIST, *(f"button_{name}" for name in self._buttons)), float)

    @property
    def feedback_features(self) -> dict[str, type]:
        """Names and types of a feedback."""
        return dict.fromkeys(WRENCH, float)

    @property
    def is_connected(self) -> bool:
        """Whether the device is open and its servo runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_calibrated(self) -> bool:
        """Whether it needs no calibration: homing is asked of the device itself."""
        return True

    def calibrate(self) -> None:
        """Nothing: positions of the devices are absolute, or homed by their drivers."""

    def configure(self) -> None:
        """Nothing: all is in the device's data."""

    def connect(self, calibrate: bool = True) -> None:
        """Open the device and start its servo.

        Raises:
            ParameterError: it cannot be opened; says why.
            DeviceError: it is connected already.
        """
        if self.is_connected:
            raise DeviceError(f"{self.name}: is connected already")
        link = None
        if isinstance(self._device, HardwareDeviceParameters):
            link = self._device.connect(self._rate, self._notify)
        nobody = ConstantParameters(wrench=(0.0,) * 6)
        try:
            driver = build_driver(self._device, nobody, NoToolParameters(), self._rate, source=link)
            driver.warm_up()
            self._renew(link)
            self._fault, self._told = "", -math.inf
            driver.activate(0)
            driver.enable()
            driver.sense(0, self._state)
            given = driver, link, self._state, self._lock, self._ended
            thread = threading.Thread(target=self._serve, args=given, name="teleoperator", daemon=True)
            thread.start()
        except BaseException:
            if link is not None:
                link.close()
            raise
        self._thread = thread

    def get_action(self) -> dict[str, float]:
        """Pose, twist and buttons of the hand, as of the last servo period.

        Raises:
            DeviceError: it is not connected.
        """
        self._check()
        with self._lock:
            state = self._state
            values = [*state.pose.tolist(), *state.twist.tolist()]
            pressed = [float(one) for one in state.buttons[: len(self._buttons)]]
        return dict(zip(self.action_features, values + pressed, strict=True))

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Let the hand feel a wrench; components that are left out are 0.

        Raises:
            DeviceError: it is not connected.
            ValueError: a component is not known, or not finite; the hand feels nothing then.
        """
        self._check()
        unknown = sorted(feedback.keys() - set(WRENCH))
        wrench = np.array([float(feedback.get(name, 0.0)) for name in WRENCH])
        if unknown or not np.isfinite(wrench).all():
            with self._lock:
                self._told = -math.inf
            found = f"unknown: {', '.join(unknown)}" if unknown else f"{wrench.tolist()}: must be finite"
            raise ValueError(f"feedback: {found}; give {', '.join(WRENCH)} in N and N m")
        with self._lock:
            self._wrench[:], self._told = wrench, self._clock()

    def disconnect(self) -> None:
        """Zero force, and let go of the device, which a thread that is late does when it goes on.

        Raises:
            DeviceError: it is not connected.
        """
        self._check()
        self._ended.set()
        thread, self._thread = self._thread, None
        if self._link is not None:
            self._link.release()
        assert thread is not None
        thread.join(CLOSING)

    def _check(self) -> None:
        if not self.is_connected:
            why = f": {self._fault}" if self._fault else "; call connect() first"
            raise DeviceError(f"{self.name}: is not connected{why}")

    def _serve(
        self, driver: Driver, link: Any, state: DeviceState, lock: threading.Lock, ended: threading.Event
    ) -> None:
        """Step the driver at its rate, until the end; whatever happens ends without force."""
        command, tick, began = DeviceCommand(), 0, self._clock()
        try:
            while not ended.is_set():
                with lock:
                    fresh = self._clock() - self._told <= FEEDBACK
                    command.stamp(tick, 0)
                    command.mode = FORCE
                    command.wrench[:] = self._wrench if fresh else 0.0
                    driver.actuate(command)
                    tick += 1
                    driver.sense(tick, state)
                ended.wait(max(0.0, began + tick / self._rate - self._clock()))
        except Exception as error:  # of a driver of a vendor, which may raise anything
            fault = str(error) or type(error).__name__
            if not ended.is_set():
                self._fault = fault
            self._notify(f"{self.name}: {fault}")
        finally:
            driver.release()
            if link is not None:
                link.close()
