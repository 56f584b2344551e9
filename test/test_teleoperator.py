"""A device as a teleoperator of LeRobot: its actions and forces, how it ends, and what LeRobot's class wants."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from fake_hardware import Fake, data

from haptic_drivers.devices import teleoperator
from haptic_drivers.devices.interface import DeviceError
from haptic_drivers.devices.link import Link
from haptic_drivers.devices.teleoperator import WRENCH, HapticTeleoperator
from haptic_drivers.hardware import HardwareDeviceParameters
from haptic_drivers.inertial import InertialParameters

# Abstract methods and properties of lerobot.teleoperators.Teleoperator 0.6.2 (commit 7427f31), read in its source.
ABSTRACT = {
    *("action_features", "feedback_features", "is_connected", "is_calibrated"),
    *("connect", "calibrate", "configure", "get_action", "send_feedback", "disconnect"),
}
PLUGIN = ROOT / "examples/lerobot_teleoperator_haptics"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """A device in this process, whose readings are never old."""
    made = Fake(data(watchdog=1.0, reading_watchdog=1.0))
    monkeypatch.setattr(made, "clock", time.monotonic_ns)
    real = made.read

    def read(reading: object) -> bool:
        made.now = time.monotonic_ns()
        return real(reading)  # type: ignore[arg-type]

    monkeypatch.setattr(made, "read", read)

    def connect(device: HardwareDeviceParameters, rate: float, notify: Callable[[str], None]) -> Link:
        link = Link(made, device, 1.0 / rate, watch=False, notify=notify)
        link.open()
        return link

    monkeypatch.setattr(HardwareDeviceParameters, "connect", connect)
    yield made


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline, "nothing came within 20 s"
        time.sleep(0.002)


def test_an_action_is_the_hand_and_a_feedback_is_felt_within_the_bounds(fake: Fake) -> None:
    teleop = HapticTeleoperator(fake.device, 500.0)
    assert not teleop.is_connected
    teleop.connect()
    try:
        fake.pose[:3], fake.pressed = (0.01, -0.02, 0.03), [0, 1]
        wait(lambda: teleop.get_action()["button_side"] == 1.0)
        wait(lambda: teleop.get_action()["x"] != 0.0)  # a reading may have come between the two
        action = teleop.get_action()
        assert action.keys() == teleop.action_features.keys()
        assert [action[name] for name in "xyz"] == pytest.approx([0.01, -0.02, 0.03])
        teleop.send_feedback({"fx": 2.0, "fz": 100.0})
        wait(lambda: bool(fake.force.any()))
        assert abs(fake.force[:3]).max() <= 8.0 * (1 + 1e-9)  # wrench_limit
    finally:
        teleop.disconnect()
    assert not teleop.is_connected and not fake.force.any() and not fake.is_open


def test_an_old_feedback_is_not_felt_any_more(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teleoperator, "FEEDBACK", 0.05)
    teleop = HapticTeleoperator(fake.device, 500.0)
    teleop.connect()
    try:
        teleop.send_feedback({"fx": 1.0})
        wait(lambda: any(one.any() for one in fake.written))
        wait(lambda: not fake.force.any())
    finally:
        teleop.disconnect()


@pytest.mark.parametrize("bad", [{"fx": float("nan")}, {"force": 1.0}])
def test_a_feedback_that_is_none_ends_the_force(fake: Fake, bad: dict[str, float]) -> None:
    teleop = HapticTeleoperator(fake.device, 500.0)
    teleop.connect()
    try:
        teleop.send_feedback({"fx": 1.0})
        with pytest.raises(ValueError, match=r"give fx, fy, fz, tx, ty, tz in N and N m"):
            teleop.send_feedback(bad)
        wait(lambda: not fake.force.any())
    finally:
        teleop.disconnect()


def test_calls_before_and_after_a_connection_are_refused(fake: Fake) -> None:
    teleop = HapticTeleoperator(fake.device, 500.0)
    calls: list[Callable[[], object]] = [teleop.get_action, lambda: teleop.send_feedback({}), teleop.disconnect]
    for call in calls:
        with pytest.raises(DeviceError, match="is not connected"):
            call()
    teleop.connect()
    with pytest.raises(DeviceError, match="already"):
        teleop.connect()
    teleop.disconnect()
    with pytest.raises(DeviceError, match="is not connected"):
        teleop.get_action()


def test_a_simulated_device_moves_by_its_feedback() -> None:
    teleop = HapticTeleoperator(InertialParameters(mass=0.5, inertia=0.005), 500.0)
    teleop.connect()
    try:
        teleop.send_feedback({"fx": 1.0})
        wait(lambda: teleop.get_action()["x"] > 1e-4)
    finally:
        teleop.disconnect()
    assert tuple(teleop.feedback_features) == WRENCH


def test_it_has_all_that_the_base_class_of_lerobot_asks_for() -> None:
    assert not [name for name in ABSTRACT if not hasattr(HapticTeleoperator, name)]


def test_the_plugin_keeps_to_the_conventions_of_lerobot() -> None:
    """Names of distribution, package, configuration and device (docs/source/integrate_hardware.mdx of LeRobot)."""
    package = PLUGIN / PLUGIN.name
    assert f'name = "{PLUGIN.name}"' in (PLUGIN / "pyproject.toml").read_text()
    sources = {path.stem: ast.parse(path.read_text()) for path in package.glob("*.py")}
    classes = {node.name: node for tree in sources.values() for node in tree.body if isinstance(node, ast.ClassDef)}
    assert set(classes) == {"HapticsConfig", "Haptics"}
    assert any("register_subclass('haptics')" in ast.unparse(one) for one in classes["HapticsConfig"].decorator_list)
    defined = {node.name for node in classes["Haptics"].body if isinstance(node, ast.FunctionDef)}
    assert defined >= ABSTRACT
    exported = ast.unparse(sources["__init__"])
    assert "HapticsConfig" in exported and "Haptics" in exported
    assert Path(package / "haptics.py").exists()  # the module of the device, where LeRobot looks for it
