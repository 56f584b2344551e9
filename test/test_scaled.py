"""Contacts in scaled coordinates against Pinocchio's Jacobians of the contact points and the dense inertia."""

from __future__ import annotations

import numba
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from haptic_sim.contact.friction import tangential_norms
from haptic_sim.contact.penalties import find_ratio_of, find_ratios
from haptic_sim.contact_rows import ContactRows
from haptic_sim.dynamics.multibody import Multibody, free_joint, planar_body, planar_joint
from haptic_sim.dynamics.scaled import (
    ScaledContacts,
    apply_impulse,
    assemble,
    contact_velocity,
    coupling,
    fill_rows,
    find_frames,
    tangential_norms_of,
    twist_of,
    velocities_of,
)
from haptic_sim.packed import Packed


def random_inertia(rng: np.random.Generator, lever: float) -> pin.Inertia:
    sides = rng.uniform(0.1, 1.0, 3)
    moments = np.diag([sides[1] + sides[2], sides[0] + sides[2], sides[0] + sides[1]])  # of a possible body
    turn = Rotation.random(rng=rng).as_matrix()
    return pin.Inertia(rng.uniform(0.5, 2.0), lever * rng.normal(size=3), turn @ moments @ turn.T)


def random_pose(rng: np.random.Generator) -> pin.SE3:
    return pin.SE3(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3))


def several_trees(rng: np.random.Generator) -> Multibody:
    """A free body, a branching linkage, a planar body, a slide and another free body, in this order."""
    model = pin.Model()

    def add(parent: int, joint: pin.JointModel, lever: float) -> int:
        pose = random_pose(rng) if lever else pin.SE3.Identity()
        number = model.addJoint(parent, joint, pose, f"joint{model.njoints}")
        model.appendBodyToJoint(number, random_inertia(rng, lever), pin.SE3.Identity())
        return int(number)

    def axis() -> np.ndarray:
        direction = rng.normal(size=3)
        return direction / np.linalg.norm(direction)

    add(0, free_joint(), 0.0)
    trunk = add(0, pin.JointModelRevoluteUnaligned(axis()), 0.3)
    fork = add(trunk, pin.JointModelPrismaticUnaligned(axis()), 0.3)
    left = add(fork, pin.JointModelRevoluteUnaligned(axis()), 0.3)
    add(left, pin.JointModelRevoluteUnaligned(axis()), 0.3)
    add(fork, pin.JointModelRevoluteUnaligned(axis()), 0.3)
    add(0, planar_joint(), 0.0)
    add(0, pin.JointModelPrismaticUnaligned(axis()), 0.3)
    add(0, free_joint(), 0.0)
    hand = model.addFrame(pin.Frame("hand", left, random_pose(rng), pin.FrameType.OP_FRAME))
    q = pin.integrate(model, pin.neutral(model), rng.normal(size=model.nv))
    return Multibody(model, hand, q, rng.normal(size=model.nv))


def random_rows(rng: np.random.Generator, joints: int, count: int) -> ContactRows:
    """Contacts of any two of the bodies with each other or with what is fixed."""
    rows = ContactRows()
    rows.count = count
    for i in range(count):
        rows.body[i] = rng.choice(joints, 2, replace=False)
        rows.point[i] = rng.normal(size=3)
        n = rng.normal(size=3)
        rows.normal[i] = n / np.linalg.norm(n)
        rows.velocity[i] = rng.normal() if rng.random() < 0.5 else 0.0
    return rows


def scaled(body: Multibody, rows: ContactRows, u: np.ndarray | None = None) -> tuple[ScaledContacts, np.ndarray]:
    contacts = ScaledContacts.allocate(rows.capacity, body.trees.start, body.trees.size)
    tangent = np.zeros((rows.capacity, 3))
    trees = body.trees
    u = body.u if u is None else u
    assemble(rows.count, rows.arrays, body.J_W, trees.support, trees.of_joint, body.L, u, contacts, tangent)
    return contacts, tangent


def dense_rows(contacts: ScaledContacts, count: int, nv: int) -> np.ndarray:
    """W as a matrix (3 count, nv)."""
    W = np.zeros((3 * count, nv))
    for i in range(count):
        for side in range(2):
            tree = contacts.tree[i, side]
            if tree >= 0:
                first, size = contacts.start[tree], contacts.size[tree]
                W[3 * i : 3 * i + 3, first : first + size] += contacts.W[i, :, side, :size]
    return W


def point_jacobians(body: Multibody, rows: ContactRows, tangent: np.ndarray) -> np.ndarray:
    """Velocity of B's point relative to A's in (normal, tangent 1, tangent 2), from Pinocchio's frame Jacobians."""
    model, data = body.model, body.model.createData()
    pin.computeJointJacobians(model, data, body.q)
    J = np.zeros((3 * rows.count, body.nv))
    for i in range(rows.count):
        normal, first = rows.normal[i], tangent[i]
        axes = np.array([normal, first, np.cross(normal, first)])
        for joint, sign in zip(rows.body[i].tolist(), (-1.0, 1.0), strict=True):
            if joint:
                at_point = pin.SE3(np.eye(3), data.oMi[joint].actInv(rows.point[i]))
                twist = pin.getFrameJacobian(model, data, joint, at_point, pin.LOCAL_WORLD_ALIGNED)
                J[3 * i : 3 * i + 3] += sign * axes @ twist.reshape(6, -1)[:3]
    return J


def check(body: Multibody, rows: ContactRows, u: np.ndarray | None = None) -> None:
    contacts, tangent = scaled(body, rows, u)
    n = rows.count
    J = point_jacobians(body, rows, tangent)
    W = dense_rows(contacts, n, body.nv)
    D, L = body.by_coordinates(body.D), body.by_coordinates(body.L)
    np.testing.assert_allclose(W @ L.T, J, rtol=0, atol=1e-12)  # W = J L^-T
    np.testing.assert_allclose(W @ W.T, J @ np.linalg.solve(D, J.T), rtol=0, atol=1e-10 * np.abs(W @ W.T).max())
    v = np.linalg.solve(L.T, body.u if u is None else u)
    packed = Packed(contacts).arrays
    offset = np.zeros(3 * n)
    offset[::3] = -rows.velocity[:n]
    for i in range(n):
        for d in range(3):
            k = 3 * i + d
            expected = (J @ v + offset)[k]
            assert contact_velocity(packed, i, d, L.T @ v) == pytest.approx(expected, rel=0, abs=1e-11)
            for j in range(n):
                for e in range(3):
                    assert coupling(packed, i, d, j, e) == pytest.approx((W @ W.T)[k, 3 * j + e], rel=0, abs=1e-11)
            du = np.zeros(body.nv)
            apply_impulse(packed, i, d, 0.7, du)
            np.testing.assert_allclose(du, 0.7 * W[k], rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_the_jacobians_of_the_points(seed: int) -> None:
    """Free bodies, a branching linkage with self-contacts, planar bodies, a slide, and each pair of them."""
    rng = np.random.default_rng(20260 + seed)
    body = several_trees(rng)
    rows = random_rows(rng, body.model.njoints, 12)
    rows.body[0], rows.body[1], rows.body[2] = (3, 6), (6, 5), (2, 5)  # self-contacts: cousins, and along a chain
    rows.body[3], rows.body[4] = (0, 5), (5, 0)
    check(body, rows)


def test_each_side_of_a_contact_belongs_to_its_tree() -> None:
    rng = np.random.default_rng(20270)
    body = several_trees(rng)
    rows = random_rows(rng, body.model.njoints, 4)
    rows.body[:4] = (0, 1), (1, 0), (9, 4), (3, 6)
    contacts, _ = scaled(body, rows)
    assert contacts.tree[:4].tolist() == [[-1, 0], [0, -1], [4, 1], [-1, 1]]
    assert contacts.start.tolist() == [0, 6, 11, 14, 15]
    assert contacts.size.tolist() == [6, 5, 3, 1, 6]


def test_swapping_the_bodies_and_the_normal_is_the_same_contact() -> None:
    rng = np.random.default_rng(20271)
    body = several_trees(rng)
    rows = random_rows(rng, body.model.njoints, 8)
    rows.velocity[:] = 0.0
    contacts, tangent = scaled(body, rows)
    W = dense_rows(contacts, 8, body.nv)[::3]
    first = tangent[:8].copy()
    rows.body[:8], rows.normal[:8] = rows.body[:8, ::-1].copy(), -rows.normal[:8]
    contacts, tangent = scaled(body, rows)
    np.testing.assert_allclose(dense_rows(contacts, 8, body.nv)[::3], W, rtol=0, atol=1e-14)
    np.testing.assert_allclose(tangent[:8], -first, rtol=0, atol=1e-9)  # the other body slides the other way


@pytest.mark.parametrize("seed", range(4))
def test_tangents_are_a_right_handed_frame_along_the_motion(seed: int) -> None:
    """Tangent 1 is the direction of sliding: the velocity along tangent 2 is zero, along tangent 1 positive."""
    rng = np.random.default_rng(20280 + seed)
    body = several_trees(rng)
    rows = random_rows(rng, body.model.njoints, 20)
    contacts, tangent = scaled(body, rows)
    packed = Packed(contacts).arrays
    for i in range(20):
        n, t = rows.normal[i], tangent[i]
        assert abs(n @ t) < 1e-12
        assert np.linalg.norm(t) == pytest.approx(1.0, abs=1e-12)
        along, across = contact_velocity(packed, i, 1, body.u), contact_velocity(packed, i, 2, body.u)
        assert along > 0.0
        assert abs(across) < 1e-9 * along


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -1), (0.6, 0, 0.8), (0, 1, 0), (-0.48, 0.6, -0.64)])
@pytest.mark.parametrize("speed", [0.0, 3.0])
def test_without_sliding_the_first_tangent_is_level(normal: tuple[float, ...], speed: float) -> None:
    """At rest, and where a body moves along the normal alone: nothing of rounding may turn the tangents."""
    model = pin.Model()
    joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), "ball")
    model.appendBodyToJoint(joint, pin.Inertia(2.0, np.zeros(3), 0.1 * np.eye(3)), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", joint, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    n = np.array(normal, float)
    body = Multibody(model, hand, pin.neutral(model), np.array([*(speed * n), 0, 0, 0]))
    rows = ContactRows()
    rows.count = 1
    rows.body[0], rows.point[0], rows.normal[0] = (0, 1), -0.1 * n, n
    check(body, rows)
    _, tangent = scaled(body, rows)
    if abs(n[2]) < 0.9:
        assert tangent[0, 2] == 0.0
    else:
        assert tangent[0, 0] == 0.0


def test_planar_contacts_have_tangents_in_the_plane() -> None:
    rng = np.random.default_rng(20290)
    model, hand = planar_body(2.0, 0.005)
    for v in ([0.0] * 3, rng.normal(size=3)):
        body = Multibody(model, hand, np.array([0.1, -0.3, 0.7]), np.array(v, float))
        rows = ContactRows()
        rows.count = 5
        for i, angle in enumerate(rng.uniform(-np.pi, np.pi, 5)):
            rows.body[i], rows.normal[i] = (0, 1), (np.cos(angle), np.sin(angle), 0)
            rows.point[i, :2] = rng.normal(size=2)
        check(body, rows)
        contacts, tangent = scaled(body, rows)
        assert (tangent[:5, 2] == 0.0).all()
        assert (contacts.W[:5, 2] == 0.0).all()  # nothing moves across the plane


@pytest.mark.parametrize("joint", [pin.JointModelRevoluteUnaligned, pin.JointModelPrismaticUnaligned])
def test_a_tree_of_one_coordinate(joint: type) -> None:
    """Pinocchio gives the Jacobian of a model with one velocity as a vector; kernels need not be compiled for it."""
    rng = np.random.default_rng(20291)
    model = pin.Model()
    axis = np.array([0.48, 0.6, 0.64])
    number = model.addJoint(0, joint(axis), random_pose(rng), "only")
    model.appendBodyToJoint(number, random_inertia(rng, 0.3), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", number, random_pose(rng), pin.FrameType.OP_FRAME))
    body = Multibody(model, hand, np.array([0.4]), np.array([-1.3]))
    assert numba.typeof(body.packed) == numba.typeof(several_trees(rng).packed)
    assert body.J_W.shape == (1, 6)
    rows = random_rows(rng, 2, 5)
    check(body, rows)
    body.v[:], body.q[:] = 0.7, -0.9
    body.refresh()  # the reshaped Jacobian still is Pinocchio's own memory
    check(body, rows)


def free_body(rng: np.random.Generator) -> Multibody:
    """One free body, held somewhere on it."""
    model = pin.Model()
    joint = model.addJoint(0, free_joint(), pin.SE3.Identity(), "body")
    model.appendBodyToJoint(joint, random_inertia(rng, 0.0), pin.SE3.Identity())
    hand = model.addFrame(pin.Frame("hand", joint, random_pose(rng), pin.FrameType.OP_FRAME))
    body = Multibody(model, hand, pin.neutral(model), np.zeros(6))
    body.q[:] = pin.integrate(model, body.q, rng.normal(size=6))
    body.v[:] = rng.normal(size=6)
    body.refresh()
    return body


@pytest.mark.parametrize("seed", range(4))
def test_the_hand_of_a_free_body_is_that_of_pinocchio(seed: int) -> None:
    body = free_body(np.random.default_rng(20300 + seed))
    data = body.model.createData()
    pin.framesForwardKinematics(body.model, data, body.q)
    pin.computeJointJacobians(body.model, data, body.q)
    J = pin.getFrameJacobian(body.model, data, body.hand, pin.LOCAL_WORLD_ALIGNED)
    D = pin.crba(body.model, data, body.q)
    D = np.triu(D) + np.triu(D, 1).T
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(body.J_H, J, **close)
    np.testing.assert_allclose(body.twist, J @ body.v, **close)
    np.testing.assert_allclose(body.W_H @ body.L.T, J, **close)
    np.testing.assert_allclose(body.L.T @ body.v, body.u, **close)
    np.testing.assert_allclose(body.inverse_inertia.reshape(6, 6), J @ np.linalg.solve(D, J.T), rtol=1e-11)
    assert body.kinetic_energy[0] == pytest.approx(0.5 * body.v @ D @ body.v, rel=1e-13)
    assert body.hand_energy[0] == body.kinetic_energy[0]
    np.testing.assert_array_equal(body.bias, np.r_[body.arrays.nle[:3], 0, 0, 0])


@pytest.mark.parametrize("seed", range(4))
def test_contacts_of_one_free_body_follow_from_its_hand(seed: int) -> None:
    """Frames, rows, velocities, norms and ratio are those of the general case."""
    rng = np.random.default_rng(20310 + seed)
    body, n = free_body(rng), 9
    rows = random_rows(rng, 2, n)
    rows.body[:n] = 0, 1
    expected, expected_tangent = scaled(body, rows)
    contacts, tangent = ScaledContacts.allocate(n, body.trees.start, body.trees.size), np.zeros((n, 3))
    found, known = Packed(contacts).arrays, Packed(rows.arrays).arrays
    assert find_frames(n, known, body.W_H, body.p_WH, body.u, found, tangent)
    fill_rows(n, known, body.W_H, body.p_WH, found, tangent)
    np.testing.assert_allclose(tangent, expected_tangent[:n], rtol=0, atol=1e-12)
    W = dense_rows(contacts, n, 6)
    np.testing.assert_allclose(W, dense_rows(expected, n, 6), rtol=0, atol=1e-12 * np.abs(W).max())
    np.testing.assert_array_equal(contacts.offset[:n], expected.offset[:n])

    u, velocity = rng.normal(size=6), np.zeros((n, 3))
    velocities_of(twist_of(body.W_H, u), n, known, body.p_WH, tangent, contacts.offset, velocity)
    np.testing.assert_allclose(velocity, (W @ u).reshape(n, 3) + contacts.offset[:n], rtol=0, atol=1e-11)

    norms, expected_norms = np.zeros((n, 2)), np.zeros((n, 2))
    tangential_norms_of(n, known, body.p_WH, tangent, body.inverse_inertia, norms)
    tangential_norms(found, n, expected_norms)
    np.testing.assert_allclose(norms[:, 1], expected_norms[:, 1], rtol=1e-10)
    np.testing.assert_allclose(norms[:, 1], [np.linalg.norm(W[3 * i + 1 : 3 * i + 3], 2) for i in range(n)], rtol=1e-10)

    gain, ratio, sums = np.where(rng.random(n) < 0.7, rng.uniform(0, 1, n), 0.0), np.zeros((2, 1)), np.zeros((2, 1))
    beyond = find_ratio_of(n, known, body.p_WH, body.inverse_inertia, gain, velocity, ratio, 2.0)
    assert beyond == find_ratios(n, found, gain, np.zeros(1, np.int64), velocity, np.zeros(6), sums, 2.0)
    np.testing.assert_allclose(ratio, sums, rtol=1e-10)


def test_contacts_of_other_bodies_do_not_follow_from_the_hand() -> None:
    rng = np.random.default_rng(20320)
    body, rows = free_body(rng), random_rows(rng, 2, 3)
    rows.body[:3] = 0, 1
    for change in ({"body": (1, 0)}, {"coordinate": 0}):
        contacts = ScaledContacts.allocate(3, body.trees.start, body.trees.size)
        for name, value in change.items():
            before = getattr(rows.arrays, name)[2].copy()
            getattr(rows.arrays, name)[2] = value
            known, found = Packed(rows.arrays).arrays, Packed(contacts).arrays
            assert not find_frames(3, known, body.W_H, body.p_WH, body.u, found, np.zeros((3, 3)))
            getattr(rows.arrays, name)[2] = before


def test_what_is_left_of_earlier_contacts_does_not_matter() -> None:
    """The same memory is filled again with contacts of other trees."""
    rng = np.random.default_rng(20292)
    body = several_trees(rng)
    contacts = ScaledContacts.allocate(256, body.trees.start, body.trees.size)
    contacts.W[:] = np.nan
    tangent = np.zeros((256, 3))
    trees = body.trees
    for _ in range(3):
        rows = random_rows(rng, body.model.njoints, 10)
        assemble(10, rows.arrays, body.J_W, trees.support, trees.of_joint, body.L, body.u, contacts, tangent)
        expected = point_jacobians(body, rows, tangent)
        L = body.by_coordinates(body.L)
        np.testing.assert_allclose(dense_rows(contacts, 10, body.nv) @ L.T, expected, rtol=0, atol=1e-12)


def test_no_contacts_touch_nothing_and_nothing_is_compiled_again() -> None:
    body = several_trees(np.random.default_rng(20293))
    rows = ContactRows()
    scaled(body, rows)
    signatures = len(assemble.signatures)
    rows.count = 3
    rows.body[:3], rows.normal[:3] = (0, 1), (0, 0, 1)
    scaled(body, rows)
    assert len(assemble.signatures) == signatures
