"""Models of others: robots of example-robot-data, and the MJCF files of packages that may be installed.

They are read, run and, where MuJoCo simulates them, felt with no gain written. What is not done is listed by name.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

import haptic_sim
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment.loading import load_document
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.model_files import last_link

ROBOTS = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
IMPOSSIBLE = {  # masses or moments that no body has; ur3 has no links
    "human.urdf": "mass = 0 kg",
    "icub.urdf": "no body has this inertia",
    "icub_reduced.urdf": "no body has this inertia",
    "romeo.urdf": "mass = 0 kg",
    "romeo_laas_small.urdf": "no body has this inertia",
    "romeo_small.urdf": "no body has this inertia",
    "ur3.urdf": "has no links",
}
STILL = {"iris_simple.urdf", "quadrotor_base.urdf"}
PACKAGES = {"dm_control": (35, 32), "gymnasium_robotics": (30, 29), "robosuite": (26, 26)}
NOT_FELT = {
    "floor.xml": "diverged",  # the fruit fly is in centimetres and grams: 0.5 N throw 1 g away
    "fruitfly.xml": "diverged",
    "pusher.xml": "device.mass = 4.02124e-10 kg",
}


def run(model: haptic_sim.Model) -> None:
    """Push it for 0.1 s."""
    world = haptic_sim.World(model)
    for _ in range(100):
        world.step([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert all(np.isfinite(body.position).all() for body in world.bodies.values())


def test_a_robot_that_stands_still_moves_with_a_free_base() -> None:
    path = next(ROBOTS.rglob("iris_simple.urdf"))
    with pytest.raises(ParameterError, match=r"none of its links moves; base='free' lets the whole of it"):
        haptic_sim.load(path)
    run(haptic_sim.load(path, base="free"))


@pytest.mark.exhaustive
def test_every_robot_of_example_robot_data_runs_or_is_refused_by_name() -> None:
    files = sorted(ROBOTS.rglob("*.urdf"))
    done: set[str] = set()
    for path in files:
        if path.name in IMPOSSIBLE:
            with pytest.raises(ParameterError, match=IMPOSSIBLE[path.name]):
                haptic_sim.load(path)
            continue
        run(haptic_sim.load(path, base="free" if path.name in STILL else None))
        done.add(path.name)
    assert done >= STILL
    assert len(files) >= 69
    assert len(done) == len({path.name for path in files} - IMPOSSIBLE.keys())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "rate"), [("alex_psyonic_hands", 1e3), ("alex_psyonic_hands", 4e3), ("alex_sake_hands", 1e3)]
)
def test_robots_that_fall_on_their_fingers_are_stable(name: str, rate: float) -> None:
    """Fingers of grams at their stops carry the arms."""
    path = next(ROBOTS.rglob(f"{name}.urdf"))
    scene = {
        "bodies": {"floor": {"joint": "fixed", "shapes": [{"type": "plane"}], "position": [0, 0, -0.3]}},
        "files": {"f": {"path": str(path), "base": "free"}},
        "tool": f"f/{last_link(path)}",
        "ignore": [["f", "f"]],
        "gravity": [0, 0, -9.81],
    }
    world = haptic_sim.World(scene, rate=rate, environment={"method": "penalty"})
    for _ in range(int(rate)):
        world.step()


def models(package: str) -> Iterator[tuple[str, Path, Any]]:
    """Name, path and model of each MJCF file of a package that MuJoCo compiles."""
    mujoco = pytest.importorskip("mujoco")
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    root = Path(found.origin).parent
    for path in sorted(root.rglob("*.xml")):
        try:
            model = mujoco.MjModel.from_xml_path(str(path))
        except ValueError:  # a part of a model, or without its meshes
            continue
        if model.nv:
            yield str(path.relative_to(root)), path, model


@pytest.mark.exhaustive
@pytest.mark.parametrize("package", PACKAGES)
def test_models_are_felt_with_nothing_written_but_what_is_held(package: str) -> None:
    """Held by the last named body that moves, with 0.5 N for 0.2 s."""
    cases, done, wrong = 0, 0, {}
    for name, path, model in models(package):
        moving = [model.body(i).name for i in range(1, model.nbody) if model.body_dofnum[i] and model.body(i).name]
        if not moving:
            continue
        document = {
            "name": "felt",
            "duration": 0.2,
            "rate": 1000.0,
            "operator": {"type": "constant", "wrench": [0.5, 0, 0, 0, 0, 0]},
            "scene": {"type": "mujoco", "file": str(path), "tool": moving[-1]},
        }
        cases += 1
        try:
            (trial,) = load_document(document, path)
        except ParameterError as error:
            wrong[name] = str(error)
            continue
        trial = trial.in_mode("offline")
        samples, reason = analysis_of(trial.experiment).attempt(trial)
        verdict = verdict_of(trial, samples)
        assert verdict is not None
        if reason or verdict.failure:
            wrong[name] = reason or verdict.failure
        else:
            done += 1
    unexpected = {
        name: said
        for name, said in wrong.items()
        if not any(name.endswith(end) and known in said for end, known in NOT_FELT.items())
    }
    assert not unexpected
    assert (cases, done) >= PACKAGES[package]


def free_motion(path: Path, period: float, steps: int) -> tuple[float, float]:
    """Largest difference [m] between our positions of bodies and MuJoCo's, and how far they moved [m].

    Both move from random velocities of the joints, by steps of semi-implicit Euler, without contacts, limits,
    constraints, actuators and medium. MuJoCo's dry friction is a soft constraint: a joint that rests creeps. Here it is
    as hard as MuJoCo has it, with a time constant of two steps and an impedance of 0.9999.
    """
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(path))
    flag, options = mujoco.mjtDisableBit, model.opt
    falls = not options.disableflags & flag.mjDSBL_GRAVITY
    options.disableflags |= flag.mjDSBL_CONTACT | flag.mjDSBL_LIMIT | flag.mjDSBL_ACTUATION | flag.mjDSBL_EQUALITY
    model.dof_solref[:], model.dof_solimp[:] = (2.0 * period, 1.0), (0.9999, 0.9999, 0.001, 0.5, 2.0)
    options.iterations, options.tolerance = 200, 1e-14
    options.integrator, options.timestep = int(mujoco.mjtIntegrator.mjINT_EULER), period
    options.density = options.viscosity = options.wind[:] = 0.0
    scene = {
        "files": {"f": {"path": str(path), "limits": "none", "constraints": "none"}},
        "tool": f"f/{last_link(path)}",
        "ignore": [["f", "f"]],
        "gravity": options.gravity.tolist() if falls else [0.0, 0.0, 0.0],
    }
    world = haptic_sim.World(scene, rate=1.0 / period)
    data, rng, kick = mujoco.MjData(model), np.random.default_rng(20264), {}
    for joint in range(model.njnt):
        name, single = f"f/{model.joint(joint).name}", model.jnt_type[joint] >= int(mujoco.mjtJoint.mjJNT_SLIDE)
        if single and name in world.velocities:
            kick[name] = data.qvel[model.jnt_dofadr[joint]] = rng.normal()
    world.reset(velocities=kick)
    mujoco.mj_kinematics(model, data)
    start = np.array(data.xpos)
    for _ in range(steps):
        world.step()
        mujoco.mj_step(model, data)
    mujoco.mj_kinematics(model, data)
    bodies, difference = world.bodies, 0.0
    for i in range(1, model.nbody):
        body = bodies.get(f"f/{model.body(i).name or f'body{i}'}")
        if body is not None:
            difference = max(difference, float(np.abs(body.position - data.xpos[i]).max()))
    return difference, float(np.abs(data.xpos - start).max())


FIXED = """<mujoco><worldbody><body name="a" pos="0 0 1" euler="10 20 0"><joint name="j" axis="0 1 1" damping=".1"/>
    <geom size=".05" pos=".2 0 0"/><body name="b" pos=".4 0 0"><joint name="k" type="slide" axis="1 0 1" stiffness="5"
    springref=".1"/><joint name="l" axis="0 1 0" armature=".01"/><geom type="box" size=".1 .05 .02" pos=".1 .05 0"/>
    </body></body></worldbody></mujoco>"""
FREE = FIXED.replace('<joint name="j" axis="0 1 1" damping=".1"/>', "<freejoint/>")


def test_what_hangs_on_the_world_moves_as_in_mujoco_to_rounding(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(FIXED.replace(' stiffness="5"', ""))
    difference, moved = free_motion(tmp_path / "x.xml", 1e-3, 100)
    assert difference < 1e-12
    assert moved > 0.05


@pytest.mark.parametrize("content", [FIXED, FREE], ids=["springs", "free"])
def test_free_bodies_and_springs_move_as_in_mujoco_to_the_order_of_the_step(tmp_path: Path, content: str) -> None:
    """MuJoCo moves a free body by the velocity of its origin, we by that of its centre of mass."""
    (tmp_path / "x.xml").write_text(content)
    difference, moved = free_motion(tmp_path / "x.xml", 1e-3, 100)
    half, _ = free_motion(tmp_path / "x.xml", 5e-4, 200)
    assert difference < 1e-3 * moved
    assert half < 0.6 * difference


def test_dry_friction_is_that_of_mujoco_where_joints_move_and_differs_by_its_creep_where_they_rest(
    tmp_path: Path,
) -> None:
    """Where all joints slide both give F; where some rest, MuJoCo's creep, in proportion to the step."""
    rubs = FIXED.replace(' stiffness="5"', "").replace("<joint ", '<joint frictionloss="{}" ')
    for friction, rests in ((1e-3, False), (1.0, True)):
        (tmp_path / "x.xml").write_text(rubs.replace("{}", str(friction)))
        difference, moved = free_motion(tmp_path / "x.xml", 1e-3, 100)
        quarter, _ = free_motion(tmp_path / "x.xml", 2.5e-4, 400)
        assert moved > 0.005
        if rests:
            assert 1e-9 < difference < 1e-4 * moved
            assert quarter < 0.5 * difference
        else:
            assert difference < 1e-12


@pytest.mark.exhaustive
@pytest.mark.parametrize(("package", "count"), [("dm_control", 32), ("gymnasium_robotics", 13), ("robosuite", 20)])
def test_files_of_others_move_freely_as_in_mujoco(package: str, count: int) -> None:
    compared = 0
    for name, path, model in models(package):
        try:
            difference, moved = free_motion(path, 1e-3, 100)
        except (ParameterError, ModelFileError) as error:  # the latter before there is a world
            assert "<tendon>" in str(error) or "<equality>" in str(error), f"{name}: {error}"
            continue
        compared += 1
        if difference > 1e-12 and model.dof_frictionloss.any():  # MuJoCo's joints creep where they rest, see above
            quarter, _ = free_motion(path, 2.5e-4, 400)
            assert difference < 1e-4 * moved, name
            assert quarter < 0.5 * difference, name
        elif difference > 1e-12:
            half, _ = free_motion(path, 5e-4, 200)
            assert difference < 1e-3 * moved, name
            assert half < 0.6 * difference, name
    assert compared >= count
