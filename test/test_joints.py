"""Limits, damping, dry friction and springs of joints, in every contact method."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from world_builder import thesis_material

from haptic_sim.contact.methods import Method
from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.joints import JointLaw, settle_joints
from haptic_sim.dynamics.multibody import BodyArrays, Multibody
from haptic_sim.messages import ToolCommand
from haptic_sim.packed import Packed
from haptic_sim.tool.environment import Environment
from haptic_sim.tool.local_model import Proxy as LocalModel
from haptic_sim.tool.surroundings import WorldSurroundings
from haptic_sim.worlds.building import build
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup

METHODS: tuple[Method, ...] = ("penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid")
RATE, T = 1000.0, 1e-3  # [Hz], [s]
POTENTIAL, ELASTIC, INJECTED, DAMPING, FRICTION, IMPACT, NUMERICAL = range(1, 8)
INERTIA = 0.2  # [kg m^2] of the hinge below, about its axis


def hinge(**joint: Any) -> dict[str, Any]:
    """A world of one body on a hinge through its centre of mass."""
    body = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [INERTIA] * 3, **joint}
    return {"gravity": [0, 0, 0], "bodies": {"wheel": body}, "tool": "wheel"}


def arm(**joint: Any) -> dict[str, Any]:
    """Two links that fall on a floor, the second within its limits."""
    sphere = {"type": "sphere", "radius": 0.02, "position": [0.4, 0, 0]}
    a = {"joint": "revolute", "axis": [0, 0, 1], "mass": 1.0, "inertia": [0.02] * 3, "centre_of_mass": [0.25, 0, 0]}
    b = {"joint": "revolute", "axis": [0, 0, 1], "mass": 0.5, "inertia": [0.01] * 3, "centre_of_mass": [0.2, 0, 0]}
    bodies = {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [0, 1, 0], "offset": -0.5}]},
        "a": a | {"range": [-1, 1], "friction": 0.1},
        "b": b
        | {"parent": "a", "position": [0.5, 0, 0], "range": [-0.2, 0.2], "damping": 0.05, "shapes": [sphere]}
        | joint,
    }
    return {"planar": True, "gravity": [0, -9.81, 0], "bodies": bodies, "tool": "b"}


def made(document: dict[str, Any], folder: Path = Path()) -> WorldSetup:
    return build(WorldParameters.model_validate({"type": "world", **document}), folder)


def run(
    w: WorldSetup, method: Method, steps: int, wrench: Any = (0.0,) * 6, contact: ContactParameters | None = None
) -> tuple[np.ndarray, ...]:
    """q, v, wrench at the hand, and energies as of the beginning, of each step."""
    environment = Environment(w, contact or thesis_material(), method, "full", np.full(6, np.inf), RATE)
    state, command, rows = environment.tool_state(), ToolCommand(), []
    command.wrench[:] = wrench
    for k in range(steps):
        command.stamp(k, 0)
        environment.step(command, state)
        rows.append((state.q.copy(), state.v.copy(), state.wrench.copy(), state.energy.copy()))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


# One joint: closed forms


@pytest.mark.parametrize("damping", [0.1, 1e3, 1e9])
def test_damping_is_implicit(damping: float) -> None:
    """v_n = v_0 / (1 + T b / I)^n: it only dissipates, however strong it is, and the balance says so."""
    _, v, _, energy = run(made(hinge(velocity=3.0, damping=damping)), "penalty", 20)
    expected = 3.0 / (1.0 + T * damping / INERTIA) ** np.arange(1, 21)
    np.testing.assert_allclose(v[:, 0], expected, rtol=1e-6, atol=1e-300)  # rounding: T b v is taken from D + T b
    lost = 0.5 * INERTIA * (9.0 - v[:-1, 0] ** 2)
    np.testing.assert_allclose(energy[1:, DAMPING], lost, rtol=1e-6)
    assert np.abs(energy[:, NUMERICAL]).max() < 1e-6 * 0.5 * INERTIA * 9.0


def test_dry_friction_holds_until_it_breaks() -> None:
    held, _, felt, _ = run(made(hinge(friction=0.5)), "penalty", 50, (0, 0, 0, 0, 0, 0.499))
    assert np.all(held == 0.0)
    np.testing.assert_allclose(felt[:, 5], -0.499, rtol=1e-12)
    _, v, felt, _ = run(made(hinge(friction=0.5)), "penalty", 50, (0, 0, 0, 0, 0, 0.6))
    np.testing.assert_allclose(v[:, 0], 0.1 / INERTIA * T * np.arange(1, 51), rtol=1e-9)
    np.testing.assert_allclose(felt[:, 5], -0.5, rtol=1e-9)


def test_dry_friction_stops_a_joint_and_takes_its_energy() -> None:
    q, v, _, energy = run(made(hinge(friction=0.5, velocity=0.1)), "penalty", 100)
    stop = 0.1 * INERTIA / 0.5  # [s]
    n = round(stop / T)
    np.testing.assert_allclose(v[: n - 1, 0], 0.1 - 0.5 / INERTIA * T * np.arange(1, n), rtol=1e-9)
    assert np.abs(v[n + 1 :]).max() < 1e-15 and np.abs(q[n + 1 :] - q[-1]).max() < 1e-15
    np.testing.assert_allclose(energy[-1, FRICTION], 0.5 * INERTIA * 0.01, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_limit_stops_or_returns_a_joint(method: Method, e: float) -> None:
    """It is not passed by more than rounding, and the speed after it is e times that before it."""
    q, v, _, energy = run(made(hinge(velocity=-2.0, range=[-0.0105, 0.3], limit_restitution=e)), method, 12)
    assert q.min() >= -0.0105 - 1e-15
    assert v[-1, 0] == pytest.approx(2.0 * e, abs=1e-9)
    np.testing.assert_allclose(energy[-1, IMPACT], 0.5 * INERTIA * 4.0 * (1.0 - e * e), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_joint_in_a_narrow_range_stays_in_it(method: Method) -> None:
    """A limit returns what arrives, not what is pressed against it, and never to beyond the other limit."""
    document = hinge(velocity=-2.0, range=[-0.001, 0.002], limit_restitution=0.9, friction=0.1)
    for push in (500.0, -500.0, 0.0):
        q, v, _, energy = run(made(document), method, 300, (0, 0, 0, 0, 0, push))
        assert q.min() >= -0.001 - 1e-15 and q.max() <= 0.002 + 1e-15
        assert np.all(0.5 * INERTIA * v[:, 0] ** 2 <= 0.5 * INERTIA * 4.0 + 0.003 * abs(push) + 1e-12)
        if push:
            assert v[-1, 0] == 0.0 and q[-1, 0] == pytest.approx(0.002 if push > 0 else -0.001, abs=1e-12)
        assert np.diff(energy[:, [DAMPING, FRICTION, IMPACT]], axis=0).min() >= 0.0


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_is_felt_at_the_hand(method: Method) -> None:
    """Pressed against its end, the door does not move and the hand feels what it gives."""
    slide = {"joint": "prismatic", "axis": [0, 1, 0], "mass": 1.0, "inertia": [0.1] * 3, "range": [-1, 0.0]}
    w = made({"gravity": [0, 0, 0], "bodies": {"door": slide}, "tool": "door"})
    q, _, felt, _ = run(w, method, 20, (0, 7.0, 0, 0, 0, 0))
    assert np.all(q == 0.0)
    np.testing.assert_allclose(felt[:, 1], -7.0, rtol=1e-9)


def test_a_limit_of_speed_takes_what_is_beyond(tmp_path: Path) -> None:
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial>'
    joint = '<parent link="base"/><child link="arm"/><axis xyz="0 0 1"/><limit velocity="0.5" effort="1"/>'
    text = f'<link name="base"/><link name="arm">{mass}</link><joint name="j" type="continuous">{joint}</joint>'
    (tmp_path / "x.urdf").write_text(f'<robot name="r">{text}</robot>')
    for limits, fastest in (("all", 0.5), ("position", 1.0)):
        files = {"f": {"path": "x.urdf", "limits": limits}}
        w = made({"gravity": [0, 0, 0], "files": files, "tool": "f/arm"}, tmp_path)
        _, v, _, energy = run(w, "penalty", 201, (0, 0, 0, 0, 0, 1.0))
        assert v.max() == pytest.approx(fastest, rel=1e-2)
        assert abs(energy[-1, NUMERICAL]) < 1e-9 + 2.6e-3 * energy[-1, INJECTED]


@pytest.mark.parametrize("stiffness", [4.0, 1e12])
def test_a_spring_neither_gains_nor_loses(tmp_path: Path, stiffness: float) -> None:
    """Newmark's average acceleration: tan(w' T / 2) = w T / 2; one too stiff for the period comes to rest."""
    inertial = f'<inertial pos="0 0 0" mass="1" diaginertia="1 1 {INERTIA}"/>'
    joint = f'<joint axis="0 0 1" stiffness="{stiffness:g}" springref="0.1"/>'
    compiler = '<compiler angle="radian"/>'
    (tmp_path / "x.xml").write_text(
        f'<mujoco>{compiler}<worldbody><body name="b">{inertial}{joint}</body></worldbody></mujoco>'
    )
    w = made({"gravity": [0, 0, 0], "files": {"f": {"path": "x.xml"}}, "tool": "f/b"}, tmp_path)
    q, _, _, _ = run(w, "penalty", 2000)
    assert np.abs(q - 0.1).max() <= 0.1 * (1 + 1e-5)
    turn = 2.0 * math.atan(0.5 * T * math.sqrt(stiffness / INERTIA))
    # semi-implicit Euler from rest is half a step ahead: cos((n + 1/2) turn) / cos(turn / 2)
    expected = 0.1 - 0.1 * np.cos((np.arange(1, 2001) + 0.5) * turn) / math.cos(0.5 * turn)
    if stiffness > 1e3:
        assert abs(q[-1, 0] - 0.1) < 1e-9
    else:
        np.testing.assert_allclose(q[:, 0], expected, atol=1e-9)


# Many joints


@pytest.mark.long
def test_the_laws_of_many_joints_hold_together() -> None:
    """Karush-Kuhn-Tucker conditions of random chains, and no energy from nowhere."""
    rng = np.random.default_rng(4)
    for _ in range(30):
        n = int(rng.integers(2, 9))
        links: dict[str, Any] = {}
        for i in range(n):
            links[f"l{i}"] = {
                "joint": "revolute" if rng.random() < 0.7 else "prismatic",
                "parent": f"l{i - 1}" if i else "world",
                "axis": rng.normal(size=3).tolist(),
                "position": rng.uniform(-0.3, 0.3, 3).tolist(),
                "mass": float(rng.uniform(0.1, 3)),
                "inertia": [float(rng.uniform(0.01, 0.1))] * 3,
                "centre_of_mass": rng.uniform(-0.3, 0.3, 3).tolist(),
            }
        w = made({"bodies": links, "tool": f"l{n - 1}"})
        laws = [
            JointLaw(
                str(i),
                i,
                i,
                lower=float(rng.choice([-1e-4, -np.inf])),
                upper=float(rng.choice([1e-4, np.inf])),
                speed=float(rng.choice([0.5, np.inf])),
                friction=float(rng.choice([0.0, 0.5, 5.0])),
            )
            for i in range(n)
        ]
        body = Multibody(w.model, w.hand, w.q, rng.normal(size=n), laws=laws, period=T)
        u = body.u.copy()
        _settle(Packed(_Arguments(body.arrays, u)))
        v, free = np.linalg.solve(body.L.T, u), np.linalg.solve(body.L.T, body.u)
        p = body.D @ (v - free)
        size = np.abs(body.D @ free).max()
        assert u @ u <= body.u @ body.u * (1 + 1e-12)
        for i, law in enumerate(laws):
            low, high = max(law.lower / T, -law.speed), min(law.upper / T, law.speed)
            assert low - 1e-9 <= v[i] <= high + 1e-9
            least = greatest = 0.0  # of what the law can give
            if law.friction:
                least = -T * law.friction if v[i] > -1e-9 else T * law.friction
                greatest = T * law.friction if v[i] < 1e-9 else -T * law.friction
            greatest = np.inf if v[i] < low + 1e-9 else greatest
            least = -np.inf if v[i] > high - 1e-9 else least
            assert least - 1e-8 * size <= p[i] <= greatest + 1e-8 * size


class _Arguments(NamedTuple):
    body: BodyArrays
    u: np.ndarray


@numba.njit
def _settle(packed: Any) -> None:
    a = packed.arrays
    settle_joints(a.body.joints, a.body, T, a.u)


@pytest.mark.parametrize("method", METHODS)
def test_an_arm_at_its_limit_rests_on_the_floor(method: Method) -> None:
    """Contact, limit, dry friction and damping at once: it comes to rest, and never gains energy."""
    contact = thesis_material(restitution=0.3, damping=20.0)
    q, v, _, energy = run(made(arm(limit_restitution=0.3)), method, 1500, contact=contact)
    assert q[:, 1].min() >= -0.2 - 1e-12 and q[:, 1].max() <= 0.2 + 1e-12
    assert np.abs(v[-1]).max() < 0.2
    total = energy[:, : ELASTIC + 1].sum(axis=1)
    assert np.all(total - energy[:, NUMERICAL] <= total[0] + 1e-9)
    if method in ("constraint", "hybrid"):
        assert q[-1, 1] == pytest.approx(0.2, abs=1e-9)
        assert np.abs(v[-1]).max() < 1e-6


def test_a_local_model_has_the_laws_of_its_joints() -> None:
    """Far from all walls it moves as the environment does, to the bit."""
    document = arm(limit_restitution=0.3)
    document["bodies"]["floor"]["shapes"][0]["offset"] = -5.0
    w = made(document)
    contact = thesis_material()
    model = LocalModel(w, contact, "constraint", "full", np.full(6, np.inf), RATE)
    surveyor = WorldSurroundings(w, contact, epsilon=0.005)
    state, command, geometry = model.tool_state(), ToolCommand(), surveyor.local_geometry()
    expected, *_ = run(w, "constraint", 300)
    for k in range(300):
        if k % 50 == 0:
            surveyor.survey(state, k // 50, geometry)
            model.update(geometry, k)
        command.stamp(k, 0)
        model.step(command, state)
        np.testing.assert_array_equal(state.q, expected[k])


@pytest.mark.parametrize(("extra", "tolerance"), [("", 1e-5), ('frictionloss="0.05"', 1e-5), ('range="-10 15"', 2e-2)])
def test_joints_move_as_mujoco_has_them(tmp_path: Path, extra: str, tolerance: float) -> None:
    """Damping, armature, springs and dry friction of classes in each other; limits are softer there."""
    import mujoco

    inertial = '<inertial pos="0.1 0.05 0.1" mass="{}" diaginertia="0.02 0.02 0.01"/>'.format
    text = f"""<mujoco><option timestep="0.001" integrator="Euler" gravity="0 0 -9.81"/>
        <default><joint damping="0.05"/><default class="a"><joint armature="0.01" stiffness="0.8" springref="20"/>
            <default class="b"><joint damping="0.2"/></default></default></default>
        <worldbody><body name="one" childclass="a">{inertial(1)}<joint name="p" axis="0 1 0"/>
            <body name="two" pos="0 0 0.3">{inertial(0.5)}<joint name="q" class="b" axis="0 1 1"/>
                <joint name="r" type="slide" axis="1 0 0" stiffness="100" springref="0.02"/>
                <body name="three" pos="0 0 0.3">{inertial(0.4)}<joint name="s" axis="1 0 0" {extra}/></body>
            </body></body></worldbody></mujoco>"""
    (tmp_path / "x.xml").write_text(text)
    oracle = mujoco.MjModel.from_xml_string(text)
    for table in (oracle.jnt_solref, oracle.dof_solref):
        table[:] = 0.002, 1.0
    for table in (oracle.jnt_solimp, oracle.dof_solimp):
        table[:] = 0.99, 0.9999, 0.001, 0.5, 2.0
    data = mujoco.MjData(oracle)
    q, *_ = run(made({"files": {"f": {"path": "x.xml"}}, "tool": "f/three"}, tmp_path), "penalty", 1000)
    for k in range(1000):
        mujoco.mj_step(oracle, data)
        np.testing.assert_allclose(q[k], data.qpos, atol=tolerance)


def test_ranges_are_checked() -> None:
    for joint, said in (
        ({"range": [1, -1]}, "the lower limit must not be above the upper one"),
        ({"range": [0.1, 1]}, "must be in range, 0.1 to 1 rad"),
    ):
        with pytest.raises(ValueError, match=said):
            made(hinge(**joint))
