"""A haptic device as a teleoperator of LeRobot: all calls go to `haptic_drivers.devices.teleoperator`."""

from typing import Any

from lerobot.teleoperators.teleoperator import Teleoperator

from haptic_bench.experiment.devices import read_device
from haptic_drivers.devices.teleoperator import HapticTeleoperator
from haptic_drivers.hardware import HardwareDeviceParameters

from .config_haptics import HapticsConfig


class Haptics(Teleoperator):
    """A haptic device that is held by a person, and renders what the robot feels."""

    config_class = HapticsConfig
    name = "haptics"

    def __init__(self, config: HapticsConfig):
        super().__init__(config)
        data = read_device(config.device).model_dump()
        self._device = HapticTeleoperator(HardwareDeviceParameters.model_validate(data), config.rate, print)

    @property
    def action_features(self) -> dict[str, type]:
        """Names and types of an action."""
        return self._device.action_features

    @property
    def feedback_features(self) -> dict[str, type]:
        """Names and types of a feedback."""
        return self._device.feedback_features

    @property
    def is_connected(self) -> bool:
        """Whether the device is open."""
        return self._device.is_connected

    @property
    def is_calibrated(self) -> bool:
        """Whether it needs no calibration."""
        return self._device.is_calibrated

    def connect(self, calibrate: bool = True) -> None:
        """Open the device and start its servo."""
        self._device.connect(calibrate)

    def calibrate(self) -> None:
        """Nothing: devices are homed by their drivers."""
        self._device.calibrate()

    def configure(self) -> None:
        """Nothing: all is in the device's data."""
        self._device.configure()

    def get_action(self) -> dict[str, Any]:
        """Pose, twist and buttons of the hand."""
        return self._device.get_action()

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Let the hand feel a wrench."""
        self._device.send_feedback(feedback)

    def disconnect(self) -> None:
        """Zero force, and let go of the device."""
        self._device.disconnect()
