"""Descriptions of devices for ros2_control, read by the rules of its parser, and the mapping to CRTK's names.

The rules are those of hardware_interface/src/component_parser.cpp of ros2_control (commit 53b9999), read in its source;
ros2_control itself was not run.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from conftest import ROOT

from haptic_bench.experiment.devices import read_device
from haptic_bench.experiment.ros2_control import main
from haptic_drivers.ros2_control import hand_wrench, joint_state, urdf
from haptic_sim.rotations import from_roll_pitch_yaw

DEVICES = sorted(path.stem for path in (ROOT / "config/devices").glob("*.yaml"))
TAGS = {"hardware", "properties", "joint", "sensor", "gpio", "transmission"}


def parse(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Command and state interfaces of each joint; an AssertionError where the parser of ros2_control would throw."""
    root = ElementTree.fromstring(text)
    assert root.tag == "robot", "the robot tag is not root element in URDF"
    (control,) = root.findall("ros2_control")
    assert control.attrib.keys() >= {"name", "type"} and control.get("type") in ("system", "sensor", "actuator")
    assert {child.tag for child in control} <= TAGS, "invalid tag name"
    (hardware,) = control.findall("hardware")
    assert (hardware.findtext("plugin") or "").strip(), "missing <plugin> tag"
    assert all(one.get("name") and (one.text or "").strip() for one in hardware.findall("param"))
    described = {joint.get("name"): joint for joint in root.findall("joint")}
    found = {}
    for joint in control.findall("joint"):
        name = joint.get("name")
        assert name in described, "joint not found in URDF"
        assert described[name].get("type") != "fixed", "fixed joints do not make sense in ros2_control"
        limit = described[name].find("limit")
        assert limit is not None and float(limit.get("lower")) < float(limit.get("upper"))  # type: ignore[arg-type]
        kinds = [[one.get("name") for one in joint.findall(f"{kind}_interface")] for kind in ("command", "state")]
        assert all(kinds[0] + kinds[1]) and set(kinds[0]) <= {"effort"} and kinds[1] == ["position", "velocity"]
        found[str(name)] = kinds[0], kinds[1]
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", DEVICES)
def test_each_device_is_described_as_the_parser_wants_it(name: str) -> None:
    device = read_device(name)
    found = parse(urdf(device, "arm"))
    assert len(found) == (6 if "rx" in device.sensed else len({*"xyz"} & set(device.sensed)))
    turns = {"x": "x", "y": "y", "z": "z", "rx": "roll", "ry": "pitch", "rz": "yaw"}
    driven = {f"{name}_{turns[one]}" for one in device.actuated if f"{name}_{turns[one]}" in found}
    assert {joint for joint, (commands, _) in found.items() if commands} == driven
    assert pin.buildModelFromXML(urdf(device)).nv == len(found)


@pytest.mark.parametrize("broken", ["name", "plugin", "joint"])
def test_the_rules_refuse_what_is_broken(broken: str) -> None:
    root = ElementTree.fromstring(urdf(read_device("touch")))
    control = root.find("ros2_control")
    assert control is not None
    if broken == "name":
        del control.attrib["name"]
    elif broken == "plugin":
        control[0].remove(control[0][0])
    else:
        control[1].set("name", "elsewhere")
    with pytest.raises(AssertionError):
        parse(ElementTree.tostring(root, encoding="unicode"))


def test_the_mapping_is_that_of_the_chain_and_keeps_power() -> None:
    """Against Pinocchio's model of the URDF itself, at random poses of a device that senses all six directions."""
    model = pin.buildModelFromXML(urdf(read_device("touch")))
    data, tip = model.createData(), model.getFrameId("touch_roll_link")
    rng = np.random.default_rng(32)
    for _ in range(20):
        angles = rng.uniform(-1.3, 1.3, 3)
        pose = np.concatenate([rng.uniform(-0.1, 0.1, 3), from_roll_pitch_yaw(*angles)])
        twist, efforts = rng.normal(size=6), rng.normal(size=6)
        q, qd = joint_state(pose, twist)
        pin.forwardKinematics(model, data, q, qd)
        placed = pin.updateFramePlacement(model, data, tip)
        np.testing.assert_allclose(placed.translation, pose[:3], atol=1e-12)
        np.testing.assert_allclose(placed.rotation, pin.Quaternion(*pose[[6, 3, 4, 5]]).matrix(), atol=1e-12)
        moved = pin.getFrameVelocity(model, data, tip, pin.LOCAL_WORLD_ALIGNED)
        np.testing.assert_allclose(moved.vector, twist, atol=1e-10)
        assert hand_wrench(efforts, q) @ twist == pytest.approx(efforts @ qd, abs=1e-10)


def test_no_mapping_where_yaw_and_roll_are_one() -> None:
    pose = np.concatenate([np.zeros(3), from_roll_pitch_yaw(0.3, np.pi / 2, 0.1)])
    with pytest.raises(ValueError, match=r"pitch is \+-90 degrees"):
        joint_state(pose, np.zeros(6))


def test_a_device_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_device"]) == 2 and "no_such_device" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["touch"]) == 0 and "<ros2_control" in capsys.readouterr().out
