"""MuJoCo's worlds: the tool's tree has the dynamics that MuJoCo gives it, and what cannot be felt is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.isolated import other_bodies
from haptic_sim.worlds.mujoco_files import MujocoTree, build_mujoco_world, find_tool, load
from haptic_sim.worlds.parameters import MujocoParameters
from haptic_sim.worlds.world_setup import WorldSetup

mujoco = pytest.importorskip("mujoco")

GEOM = '<geom type="box" size=".05 .02 .03" pos=".01 .02 -.01" euler="20 10 5" mass="1.3"/>'
TREES = {
    "free": f'<body name="tool" pos=".3 .1 .2" euler="10 20 30"><freejoint/>{GEOM}</body>',
    "free and fixed": f"""<body name="tool"><freejoint/>{GEOM}
        <body name="tip" pos=".1 0 .02" euler="0 40 0">{GEOM}</body></body>""",
    "free with links": f"""<body name="tool" pos="0 .1 .2"><freejoint/>{GEOM}
        <body name="finger" pos=".1 0 .02" euler="0 40 0">
          <joint name="f" axis="0 1 1" pos=".01 0 .02" armature=".02"/>{GEOM}</body></body>""",
    "linkage": f"""<body name="stand" pos=".1 .2 .3" euler="30 0 20"><body name="base" pos="0 .1 0" euler="0 0 15">
        <joint name="a" axis="0 1 1" pos=".02 0 .01" ref="12" armature=".1" range="-150 150" damping=".2"/>{GEOM}
        <body name="middle" pos=".2 0 0" euler="5 15 0">
          <joint name="b" type="slide" axis="1 0 2" ref=".03" frictionloss=".4" stiffness="3" springref=".05"/>
          <joint name="c" axis="1 1 0" pos="0 .03 0"/>{GEOM}
          <body name="tool" pos="0 .1 .1"><joint name="d" type="ball" pos=".01 .02 .03" armature=".01"/>{GEOM}
        </body></body></body></body>""",
}


def document(tree: str, extra: str = "", option: str = "") -> str:
    return f"""<mujoco><option {option}/><worldbody>
        <body name="other" pos="2 0 0"><freejoint/>{GEOM}</body>{tree}
        <body name="last" pos="3 0 0"><joint type="slide"/>{GEOM}</body></worldbody>{extra}</mujoco>"""


def opened(tree: str, **keys: Any) -> tuple[Any, Any, MujocoTree]:
    model = mujoco.MjModel.from_xml_string(document(tree))
    data = mujoco.MjData(model)
    return model, data, find_tool(model, data, MujocoParameters(file="-", **{"tool": "tool", **keys}))


def shaken(rng: np.random.Generator, model: Any, data: Any) -> None:
    """A random state."""
    data.qvel[:] = rng.normal(size=model.nv)
    q = data.qpos.copy()
    mujoco.mj_integratePos(model, q, rng.normal(size=model.nv), 1.0)
    data.qpos[:] = q


def states(tool: MujocoTree, data: Any) -> tuple[np.ndarray, np.ndarray]:
    q, v = np.zeros(tool.world.model.nq), np.zeros(tool.world.model.nv)
    tool.configuration(data.qpos, q)
    tool.velocity(q, data.qvel, v)
    return q, v


def velocity_map(tool: MujocoTree, q: np.ndarray, nv: int) -> np.ndarray:
    """Our velocity for each of MuJoCo's, (nv of the tool, nv of MuJoCo)."""
    columns = []
    for k in range(nv):
        v = np.zeros(tool.world.model.nv)
        tool.velocity(q, np.eye(nv)[k], v)
        columns.append(v)
    return np.array(columns).T


@pytest.mark.parametrize("tree", TREES)
def test_the_tool_moves_as_mujocos(tree: str) -> None:
    """Poses and velocities of its bodies, inertia and bias, in random states."""
    model, data, tool = opened(TREES[tree])
    rng, world = np.random.default_rng(20260), tool.world
    theirs = pin.Data(world.model)
    for _ in range(5):
        shaken(rng, model, data)
        mujoco.mj_forward(model, data)
        q, v = states(tool, data)
        assert pin.isNormalized(world.model, q, 1e-9)
        pin.computeAllTerms(world.model, theirs, q, v)
        pin.updateFramePlacements(world.model, theirs)
        for body in np.nonzero(tool.link)[0]:
            frame = world.model.getFrameId(model.body(body).name, pin.FrameType.BODY)
            np.testing.assert_allclose(theirs.oMf[frame].translation, data.xpos[body], atol=1e-12)
            np.testing.assert_allclose(theirs.oMf[frame].rotation, data.xmat[body].reshape(3, 3), atol=1e-12)
            twist = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, twist, 0)
            found = pin.getFrameVelocity(world.model, theirs, frame, pin.LOCAL_WORLD_ALIGNED).vector
            np.testing.assert_allclose(found, twist[[3, 4, 5, 0, 1, 2]], atol=1e-12)
        full = np.zeros((model.nv, model.nv))
        for row, unit in zip(full, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(model, data, row, unit)
        T = velocity_map(tool, q, model.nv)[:, tool.v]
        M = np.triu(theirs.M) + np.triu(theirs.M, 1).T
        np.testing.assert_allclose(T.T @ M @ T, full[tool.v, tool.v], atol=1e-12)


@pytest.mark.parametrize("tree", TREES)
def test_our_forces_accelerate_mujocos_tool_as_ours(tree: str) -> None:
    """A generalised force, with bias and acceleration: MuJoCo's step of 1 us changes our velocity by D^-1 f T."""
    model, data, tool = opened(TREES[tree])
    rng, world, period = np.random.default_rng(20261), tool.world, 1e-6
    model.opt.timestep = period
    model.dof_damping[:] = model.dof_frictionloss[:] = model.jnt_stiffness[:] = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    ours = pin.Data(world.model)
    for _ in range(5):
        shaken(rng, model, data)
        q, v = states(tool, data)
        force = rng.normal(size=world.model.nv)
        pin.computeAllTerms(world.model, ours, q, v)
        tool.push(q, force + ours.nle, data.qfrc_applied)
        back = np.zeros(world.model.nv)
        tool.force(q, data.qfrc_applied, back)
        np.testing.assert_allclose(back, force + ours.nle, atol=1e-12)
        mujoco.mj_step(model, data)
        M = np.triu(ours.M) + np.triu(ours.M, 1).T
        change = (states(tool, data)[1] - v) / period
        np.testing.assert_allclose(change, np.linalg.solve(M, force), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("tree", TREES)
def test_states_go_there_and_back(tree: str) -> None:
    model, data, tool = opened(TREES[tree])
    rng = np.random.default_rng(20262)
    for _ in range(5):
        shaken(rng, model, data)
        q, v = states(tool, data)
        qpos, qvel = data.qpos.copy(), data.qvel.copy()
        shaken(rng, model, data)
        tool.set_state(q, v, data.qpos, data.qvel)
        np.testing.assert_allclose(data.qpos[tool.q], qpos[tool.q], atol=1e-12)
        np.testing.assert_allclose(data.qvel[tool.v], qvel[tool.v], atol=1e-12)


def test_joints_bring_their_laws() -> None:
    world = opened(TREES["linkage"])[2].world
    laws = {law.name: law for law in world.laws}
    assert set(laws) == {"a", "b"}
    a, b = laws["a"], laws["b"]
    assert (a.damping, a.lower, a.upper) == pytest.approx((0.2, -np.radians(150), np.radians(150)))
    assert (b.friction, b.stiffness, b.reference) == pytest.approx((0.4, 3.0, 0.05))
    assert world.body_names == ("world", "base", "middle", "middle", "tool")


def test_the_world_names_all_bodies_and_who_may_touch_the_tool() -> None:
    world = opened(TREES["linkage"])[2].world
    frames = [frame.name for frame in world.model.frames if frame.type == pin.FrameType.BODY]
    assert frames == ["other", "stand", "base", "middle", "tool", "last"]
    assert world.elsewhere == ("other", "last")
    assert [world.model.frames[i].name for i in other_bodies(world)] == ["other", "last"]
    assert world.touching == tuple((other, own) for own in ("base", "middle", "tool") for other in ("other", "last"))


def test_it_is_held_at_its_centre_a_point_or_a_site() -> None:
    tree = TREES["linkage"].replace('<joint name="d"', '<site name="grip" pos=".04 .05 .06"/><joint name="d"')
    model, data, _ = opened(tree)
    for hold, expected in (
        (None, model.body_ipos[model.body("tool").id]),
        ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3)),
        ("grip", (0.04, 0.05, 0.06)),
    ):
        mujoco.mj_forward(model, data)
        body = data.body("tool")
        pose = opened(tree, hold=hold)[2].world.hand_pose()
        np.testing.assert_allclose(pose[:3], body.xpos + body.xmat.reshape(3, 3) @ expected, atol=1e-12)


def refused(tmp_path: Path, text: str, **keys: Any) -> str:
    (tmp_path / "world.xml").write_text(text)
    with pytest.raises(ParameterError) as refusal:
        build_mujoco_world(MujocoParameters(file="world.xml", **{"tool": "tool", **keys}), tmp_path)
    return "; ".join(refusal.value.problems)


TENDON = '<tendon><fixed name="t"><joint joint="c" coef="1"/></fixed></tendon>'
EQUALITY = '<equality><connect name="e" body1="middle" body2="other" anchor="0 0 0"/></equality>'
ACTUATOR = '<actuator><motor name="m" joint="b"/></actuator>'
COUPLED = '<equality><joint name="j" joint1="b" joint2="a"/></equality>'
FLEX = """<deformable><flex name="f" dim="1" body="other last" vertex="0 0 0 0 0 0" element="0 1"/></deformable>"""


ACTS = "acts in MuJoCo's world, and is felt only as far as it moves other bodies: "


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (TENDON, [f"{ACTS}the tendon t"]),
        (EQUALITY, [f"{ACTS}the equality constraint e"]),
        (COUPLED, [f"{ACTS}the equality constraint j"]),
        (ACTUATOR, ["its actuators exert no force: m"]),
        (
            f"{TENDON}<actuator><motor name='m' tendon='t'/></actuator>",
            ["its actuators exert no force: m", f"{ACTS}the tendon t"],
        ),
    ],
)
def test_what_is_left_to_mujoco_or_out_is_said(tmp_path: Path, extra: str, said: list[str]) -> None:
    (tmp_path / "world.xml").write_text(document(TREES["linkage"], extra))
    notes = build_mujoco_world(MujocoParameters(file="world.xml", tool="tool"), tmp_path).notes
    assert [note for note in notes if "not felt" not in note] == [f"scene.tool = tool: {line}" for line in said]


SERVOS = """<actuator>
    <position name="p" joint="b" kp="40" kv="3" gear="2" ctrlrange="-.1 .1"/>
    <general name="g" joint="a" gainprm="7" biastype="affine" biasprm="1 -5 -.5"/>
    <damper name="d" joint="a" kv="2" ctrlrange="0 1"/>
    <motor name="m" joint="c"/><motor name="pushes" joint="a"/>
    <position name="slow" joint="a" kp="3" timeconst="0.1"/>
</actuator><keyframe><key name="up" ctrl=".3 .2 0 0 1 .1"/></keyframe>"""


def test_servos_that_could_hold_the_tool_are_said_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "world.xml").write_text(document(TREES["linkage"], SERVOS))
    notes = build_mujoco_world(MujocoParameters(file="world.xml", tool="tool", keyframe="up"), tmp_path).notes
    (note,) = [one for one in notes if "actuators" in one]
    assert note.endswith("p, g, d, m, pushes, slow; scene.actuators=control lets its servos hold it")


def test_servos_hold_the_tool_at_their_control(tmp_path: Path) -> None:
    """Springs and dampers of the laws are MuJoCo's forces of joints and actuators, in random states."""
    (tmp_path / "world.xml").write_text(document(TREES["linkage"], SERVOS))
    given = MujocoParameters(file="world.xml", tool="tool", keyframe="up", actuators="control")
    model, data = load(given, tmp_path)
    tool = find_tool(model, data, given)
    held = "its actuators hold it at their control, whatever force that takes: p, g, m"
    assert [one for one in tool.world.notes if "actuators" in one] == [
        f"scene.tool = tool: {held}",
        "scene.tool = tool: its actuators exert no force: d, pushes, slow",
    ]
    model.actuator_gear[[model.actuator(name).id for name in ("d", "pushes", "slow")]] = 0.0
    model.dof_frictionloss[:] = 0.0
    rng = np.random.default_rng(20263)
    for _ in range(5):
        data.qpos[:] += 0.1 * rng.normal(size=model.nq)
        data.qvel[:] = rng.normal(size=model.nv)
        mujoco.mj_forward(model, data)
        q, v = states(tool, data)
        theirs = np.zeros(tool.world.model.nv)
        tool.force(q, data.qfrc_actuator + data.qfrc_passive, theirs)
        for law in tool.world.laws:
            if law.position >= 0:
                ours = -law.stiffness * (q[law.position] - law.reference) - law.damping * v[law.velocity]
                assert ours == pytest.approx(theirs[law.velocity], abs=1e-9), law.name


def test_a_flex_is_refused_with_what_to_do(tmp_path: Path) -> None:
    said = refused(tmp_path, document(TREES["linkage"], FLEX))
    assert said == "scene.file: has a <flex>, whose contacts are not rendered; take it out of the file"


def test_what_acts_on_others_alone_is_none_of_its_business(tmp_path: Path) -> None:
    extra = '<equality><connect body1="last" body2="other" anchor="0 0 0"/></equality>'
    (tmp_path / "world.xml").write_text(document(TREES["linkage"], extra))
    assert isinstance(build_mujoco_world(MujocoParameters(file="world.xml", tool="tool"), tmp_path), WorldSetup)


def test_a_wrong_tool_is_named(tmp_path: Path) -> None:
    text = document(TREES["linkage"])
    known = "(known: world, other, stand, base, middle, tool, last)"
    assert refused(tmp_path, text, tool="tol") == f"scene.tool = tol: unknown body; did you mean tool? {known}"
    assert refused(tmp_path, text, tool="stand") == "scene.tool = stand: must be a body that moves"
    assert refused(tmp_path, text, tool="world") == "scene.tool = world: must be a body that moves"
    assert refused(tmp_path, text, hold="grip") == "scene.hold = grip: unknown site of tool (known: none)"
    assert refused(tmp_path, text, keyframe="k") == "scene.keyframe = k: unknown keyframe (none is known)"


def test_a_file_that_does_not_load_is_named(tmp_path: Path) -> None:
    place = f"scene.file = {tmp_path / 'world.xml'}: "
    assert refused(tmp_path, "<mujoco><worldbody><body/></worldbodi></mujoco>").startswith(f"{place}MuJoCo: XML")
    assert refused(tmp_path, "<mujoco><worldbody><box/></worldbody></mujoco>").startswith(f"{place}MuJoCo: ")
    (tmp_path / "world.xml").unlink()
    (tmp_path / "world.xml").mkdir()
    with pytest.raises(ParameterError, match="is a directory: must be a file"):
        build_mujoco_world(MujocoParameters(file=str(tmp_path / "world.xml"), tool="tool"))
    with pytest.raises(ParameterError, match="No such file"):
        build_mujoco_world(MujocoParameters(file=str(tmp_path / "none.xml"), tool="tool"))


def test_mujoco_is_asked_for_by_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(ParameterError, match=r"MuJoCo is needed and not there: python3 -m pip install 'mujoco>=3\.5'"):
        build_mujoco_world(MujocoParameters(file="world.xml", tool="tool"))


def test_what_is_ignored_is_said() -> None:
    tree = TREES["free"].replace("<freejoint/>", '<joint type="free" armature=".1" damping="2"/>')
    assert opened(tree)[2].world.notes == ("scene.tool = tool: not felt: armature, damping of tool.0",)
    ball = TREES["linkage"].replace('name="d" type="ball"', 'name="d" type="ball" range="0 50" stiffness="2"')
    assert "limits and springs of the ball joint d" in opened(ball)[2].world.notes[0]


def test_a_file_in_centimetres_is_suspected_by_its_gravity() -> None:
    model = mujoco.MjModel.from_xml_string(document(TREES["free"], option='gravity="0 0 -981"'))
    tool = find_tool(model, mujoco.MjData(model), MujocoParameters(file="-", tool="tool"))
    assert tool.world.notes == (
        "scene.tool = tool: falls with 981 m/s^2, as in a file in centimetres and grams: here lengths are in metres, "
        "masses in kilograms, forces in newtons",
    )


def test_its_weight_is_what_gravcomp_leaves() -> None:
    """Of each body its own, as MuJoCo's: bias less what it applies for gravcomp."""
    tree = TREES["linkage"].replace('name="tool"', 'name="tool" gravcomp=".75"')
    model, data, tool = opened(tree)
    shaken(np.random.default_rng(20262), model, data)
    data.qvel[:] = 0.0
    mujoco.mj_forward(model, data)
    body = tool.world.bodies(1e-3)
    body.q[:], body.v[:] = states(tool, data)
    body.refresh()
    T = velocity_map(tool, body.q, model.nv)[:, tool.v]
    np.testing.assert_allclose(T.T @ body.data.nle, (data.qfrc_bias - data.qfrc_gravcomp)[tool.v], atol=1e-10)
    assert np.abs(data.qfrc_gravcomp[tool.v]).max() > 0.01
