"""Worlds with more bodies than Pinocchio takes: kernels find what Pinocchio finds, and the rest does not notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from haptic_sim.dynamics import loose
from haptic_sim.dynamics.joints import free_joint_laws
from haptic_sim.dynamics.loose import first_loose, joint_placements, part_of
from haptic_sim.dynamics.multibody import Multibody, free_joint
from haptic_sim.geometry.collision.narrow_phase import NarrowPhase
from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import Model, World
from haptic_sim.tool.surroundings import WorldSurroundings

FLOOR = {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 0, 1]}]}
BALL = {"joint": "free", "mass": 0.2, "shapes": [{"type": "sphere", "radius": 0.05}]}
BOX = {
    "joint": "free",
    "density": 500,
    "shapes": [{"type": "box", "size": [0.1, 0.08, 0.06], "position": [0.01, 0.0, 0.02]}],
}


def arm_and_free_bodies(rng: np.random.Generator, count: int) -> tuple[pin.Model, int, np.ndarray, np.ndarray]:
    """Two hinges, the hand on the second, and free bodies; configuration and velocity."""
    model, joint = pin.Model(), 0
    for i in range(2):
        joint = model.addJoint(
            joint, pin.JointModelRevoluteUnaligned(np.array([0.6, 0.0, 0.8])), pin.SE3.Random(), f"{i}"
        )
        model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", joint, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    for i in range(count):
        body = model.addJoint(0, free_joint(), pin.SE3.Identity(), f"free {i}")
        inertia = pin.Inertia.Random()
        model.appendBodyToJoint(body, pin.Inertia(inertia.mass, np.zeros(3), inertia.inertia), pin.SE3.Identity())
        model.addFrame(pin.Frame(f"free {i}", body, pin.SE3.Random(), pin.FrameType.BODY))
    poses = [[*rng.normal(size=3), *Rotation.random(rng=rng).as_quat()] for _ in range(count)]
    return model, hand, np.concatenate([rng.normal(size=2), *poses]), rng.normal(size=2 + 6 * count)


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_kernels_find_what_pinocchio_finds(seed: int, damped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(20450 + seed)
    pin.seed(seed)
    model, hand, q, v = arm_and_free_bodies(rng, 3)
    balanced = [pin.Inertia(0.3 * inertia.mass, inertia.lever, np.zeros((3, 3))) for inertia in model.inertias]
    laws = [replace(law, velocity=8 + law.velocity) for law in free_joint_laws("free 1", 20.0, 0.3) if damped]
    keys: dict[str, Any] = {"balanced": balanced, "laws": laws, "period": 1e-3}
    whole = Multibody(model, hand, q, v, **keys)
    monkeypatch.setattr(loose, "PINOCCHIO_COORDINATES", 3)
    assert (first_loose(model), part_of(model).nv) == (3, 2)
    parted = Multibody(model, hand, q, v, **keys)
    assert parted.is_loose and not whole.is_loose
    held = [[body.held_at(model.getFrameId(name)) for name in ("free 1", "hand")] for body in (whole, parted)]
    for _ in range(100):
        close: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11}
        for name in ("q", "v", "u", "D", "J_W", "bias", "twist", "pose", "kinetic_energy", "inverse_inertia"):
            np.testing.assert_allclose(getattr(parted, name), getattr(whole, name), err_msg=name, **close)
        np.testing.assert_allclose(
            np.tril(parted.by_coordinates(parted.L)), np.tril(whole.by_coordinates(whole.L)), **close
        )
        np.testing.assert_allclose(parted.arrays.nle, whole.arrays.nle, **close)
        assert parted.potential_energy == pytest.approx(whole.potential_energy, rel=1e-11)
        for one, other in zip(*held, strict=True):
            one.refresh_at_hand()
            other.refresh_at_hand()
            for name in ("p_WH", "R_WH", "J_H", "twist", "inverse_inertia", "hand_energy"):
                np.testing.assert_allclose(getattr(other, name), getattr(one, name), err_msg=name, **close)
        wrench, du = rng.normal(size=6), np.zeros(model.nv)
        for body in (whole, parted):
            body.push(wrench, 1e-3, du)
            body.move(body.u + du, 1e-3)


def test_placements_of_joints_are_those_of_forward_kinematics() -> None:
    rng = np.random.default_rng(20460)
    model, _, q, _ = arm_and_free_bodies(rng, 4)
    data = model.createData()
    pin.forwardKinematics(model, data, q)
    for found, expected in zip(joint_placements(model, q), data.oMi, strict=True):
        np.testing.assert_array_equal(found.homogeneous, expected.homogeneous)


def test_what_a_hand_holds_and_linkages_are_not_loose(monkeypatch: pytest.MonkeyPatch) -> None:
    model, hand, _, _ = arm_and_free_bodies(np.random.default_rng(20461), 4)
    assert first_loose(model) == model.njoints, "Pinocchio takes so many"
    monkeypatch.setattr(loose, "PINOCCHIO_COORDINATES", 3)
    assert first_loose(model) == 3
    model.addFrame(pin.Frame("second", 4, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    assert first_loose(model) == 5
    child = model.addJoint(6, pin.JointModelRX(), pin.SE3.Identity(), "on the last")
    assert first_loose(model) == child + 1
    part = part_of(model)
    assert [frame.name for frame in part.frames] == [frame.name for frame in model.frames]
    assert hand == part.getFrameId("hand")


def scattered(count: int, seed: int) -> dict[str, Any]:
    """A floor and so many balls and boxes above it."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(count)))
    bodies: dict[str, Any] = {"floor": FLOOR}
    for i in range(count):
        place = [0.25 * (i % side), 0.25 * (i // side), 0.1] + rng.uniform(-0.03, 0.03, 3)
        bodies[f"b{i}"] = (BALL if i % 3 else BOX) | {"position": place.tolist(), "velocity": [*rng.normal(0, 0.2, 6)]}
    return {"bodies": bodies, "tool": "b1"}


@pytest.mark.parametrize("method", ["penalty", "constraint", "frictional_impulses"])
def test_a_world_moves_as_it_does_with_pinocchio(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, environment = scattered(7, 20462), {"method": method}
    whole = World(scene, environment=environment)
    monkeypatch.setattr(loose, "PINOCCHIO_COORDINATES", 12)
    monkeypatch.setattr("haptic_sim.worlds.building.PINOCCHIO_COORDINATES", 12)
    parted = World(scene, environment=environment)
    assert parted._core._tool.body.part.nv == 6  # type: ignore[attr-defined]
    touched = 0
    for k in range(150):
        wrenches = {"b4": [0.3, 0.0, 0.0, 0.0, 0.01, 0.0], "b1": [0.0, 0.2, 0.0, 0.0, 0.0, 0.0]} if k < 50 else None
        for world in (whole, parted):
            world.step([0.0, 0.0, 0.1, 0.0, 0.0, 0.0], wrenches=wrenches)
        touched += len(whole.contacts)
        for name, body in whole.bodies.items():
            other = parted.bodies[name]
            np.testing.assert_allclose(other.position, body.position, rtol=0, atol=1e-8)
            np.testing.assert_allclose(other.velocity, body.velocity, rtol=0, atol=1e-5)
        for name, value in whole.energy.items():
            assert parted.energy[name] == pytest.approx(value, rel=1e-6, abs=1e-7), name
    assert touched > 50
    np.testing.assert_allclose(parted.mobility("b4")[:3, :3], np.eye(3) / 0.2, rtol=0, atol=1e-9)
    state, before = parted.state, parted.bodies["b5"]
    parted.step()
    parted.state = state
    np.testing.assert_array_equal(parted.bodies["b5"].position, before.position)


def test_sixty_bodies_fall_and_come_to_rest() -> None:
    """360 velocities: what they lose is what impacts, friction and damping take."""
    world = World(scattered(60, 20463), environment={"method": "constraint"})
    weight = 9.81 * sum(inertia.mass for inertia in world.model.pinocchio.inertias)
    world.step()
    begin = world.energy
    for _ in range(400):
        world.step()
    energy = world.energy
    dissipated = sum(energy[name] for name in ("damping", "friction", "impact"))
    total = energy["kinetic"] + energy["potential"] + energy["elastic"]
    start = begin["kinetic"] + begin["potential"] + begin["elastic"] - begin["numerical"]
    assert total == pytest.approx(start + energy["injected"] - dissipated + energy["numerical"], abs=1e-9 * start)
    assert abs(energy["numerical"]) < weight * 1e-3, "a step at the speed of 1 m/s"
    lowest = [body.position[2] for name, body in world.bodies.items() if name != "floor"]
    assert min(lowest) > 0.0099 and max(lowest) < 0.051
    assert len(world.contacts) >= 60, "one of each ball, up to four of each box"


def refused(scene: dict[str, Any]) -> list[str]:
    with pytest.raises(ParameterError) as caught:
        Model(scene)
    return list(caught.value.problems)


def test_worlds_that_are_too_large() -> None:
    found = refused(scattered(1001, 1))
    assert found == ["scene.bodies: they have 6006 velocities together: must be at most 6000"]


def test_linkages_that_are_too_large() -> None:
    plane = {"joint": "planar", "mass": 1.0, "inertia": 0.01}
    bodies = {f"b{i}": plane | {"position": [i, 0]} for i in range(81)}
    found = refused({"bodies": bodies, "tool": "b0"})
    what = "linkages, planar bodies and those that are held have 243 velocities together"
    assert found == [f"scene.bodies: {what}: must be at most 240"]


def test_pulls_are_not_for_large_worlds() -> None:
    scene = scattered(41, 1) | {"pulls": {"spring": {"body": "b2", "grabs": [[0.0, 1.0]], "stiffness": 10.0}}}
    found = refused(scene)
    assert found == [
        "scene.pulls: support only worlds with at most 240 velocities, and this one has 246; leave bodies out"
    ]


def test_local_models_are_not_for_large_worlds() -> None:
    model = Model(scattered(41, 1))
    with pytest.raises(
        ParameterError, match="246 velocities: must be at most 240 with a local model; leave bodies out"
    ):
        WorldSurroundings(model.start, model.sections.contact, epsilon=0.01)


def test_what_is_loaded_before_a_trial_measures_no_more_pairs_than_coal_has_memory_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NarrowPhase.__init__.__kwdefaults__, "slots", 16)
    for count, all_near in ((3, True), (60, False)):
        core = World(scattered(count, 7), environment={"method": "constraint"})._core
        core.warm_up()  # type: ignore[attr-defined]
        narrow = core._detector._narrow  # type: ignore[attr-defined]
        assert narrow.has_all == all_near and len(narrow.witness) <= 16
