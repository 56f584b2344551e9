"""What `lerobot-teleoperate --teleop.type=haptics` takes."""

from dataclasses import dataclass

from lerobot.teleoperators.config import TeleoperatorConfig


@TeleoperatorConfig.register_subclass("haptics")
@dataclass(kw_only=True)
class HapticsConfig(TeleoperatorConfig):
    """A haptic device.

    Attributes:
        device: name in config/devices of haptics, or a file of a device.
        rate: of the servo [Hz]; None: as the device allows, at most 1000.
    """

    device: str = "touch"
    rate: float | None = None
