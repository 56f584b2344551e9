"""Motions and pulls of a world, built from their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw
from haptic_sim.dynamics.multibody import coordinate_names
from haptic_sim.geometry.shapes import locate
from haptic_sim.motions import trajectory as trajectories
from haptic_sim.motions.inverse_kinematics import reach
from haptic_sim.motions.motion import QUATERNION, Motion, Places, Pull, find_places
from haptic_sim.motions.parameters import (
    CartesianLineParameters,
    ComputedTorqueParameters,
    FileTrajectoryParameters,
    JointLineParameters,
    MotionParameters,
    PullParameters,
    SplineParameters,
)
from haptic_sim.motions.trajectory import Trajectory
from haptic_sim.parameters import ParameterError, did_you_mean

REACHED = 1e-6  # [m, rad] what may be left where a straight line is followed
STRAIGHT = 1e-4  # [m] by which a line may bend between two points of its inverse kinematics
_KNOTS, _MOST_KNOTS = 25, 400
_TURN = 1e-3  # by which a given quaternion may miss unit length


@dataclass(frozen=True)
class _Setting:
    """Context that a motion is built in.

    Attributes:
        model: of the world, at q and v, which trajectories that begin elsewhere change; laws: of its joints.
        files: names of the files; tool: joint of the tool.
        folder: where paths start from.
    """

    model: pin.Model
    q: np.ndarray
    v: np.ndarray
    laws: Sequence[JointLaw]
    files: Sequence[str]
    tool: int
    folder: Path


def build_motions(
    model: pin.Model,
    q: np.ndarray,
    v: np.ndarray,
    laws: Sequence[JointLaw],
    motions: Mapping[str, MotionParameters],
    *,
    files: Sequence[str],
    tool: int,
    folder: Path,
    prefix: str = "",
) -> tuple[Motion, ...]:
    """The motions of a world; bodies whose trajectory says where it begins start there, in q and v.

    Args:
        model: whose BODY frames are the bodies of the world, at q (nq,) and v (nv,).
        laws: of the joints.
        motions: parameters by name.
        files: names of the world's files, which begin those of their joints.
        tool: joint of the held body.
        folder: where the paths of files start from.
        prefix: what goes before the keys in messages.

    Raises:
        ParameterError: one line for each problem.
    """
    setting = _Setting(model, q, v, laws, files, tool, folder)
    built, problems, moved = [], [], dict[int, str]()
    for name, given in motions.items():
        try:
            motion = _build(name, given, setting)
        except ParameterError as error:
            problems += [f"{prefix}motions.{name}{problem}" for problem in error.problems]
            continue
        for column in motion.places.columns.tolist():
            if column in moved:
                problems.append(f"{prefix}motions.{name}.of = {given.of}: moves what motions.{moved[column]} moves")
                break
            moved[column] = name
        built.append(motion)
    if problems:
        raise ParameterError(problems)
    return tuple(built)


def _build(name: str, given: MotionParameters, setting: _Setting) -> Motion:
    model = setting.model
    joints = _joints(given, setting)
    try:
        places = find_places(model, joints, coordinate_names(model)[0])
    except ValueError as error:
        raise ParameterError([f".of = {given.of}: {error}"]) from error
    path, starts = _trajectory(given, places, setting)
    if starts:
        places.put(path.evaluate(0.0)[0], setting.q)
        places.put_rates(path.evaluate(0.0)[0], path.evaluate(0.0, 1)[0], setting.v)
    if problem := _beyond_limits(path, places, setting):
        raise ParameterError([f".trajectory: {problem}"])
    tracking, m = given.tracking, places.columns.size
    if isinstance(tracking, ComputedTorqueParameters):
        stiffness, damping = np.full(m, tracking.stiffness), np.full(m, tracking.damping)
    else:
        stiffness, damping = (_gains(getattr(tracking, key), f".tracking.{key}", m) for key in ("stiffness", "damping"))
    return Motion(
        name=name,
        title=given.of,
        trajectory=path,
        places=places,
        torque=isinstance(tracking, ComputedTorqueParameters),
        gravity=getattr(tracking, "gravity", True),
        stiffness=stiffness,
        damping=damping,
        effort=_efforts(given, model, places.columns),
        keeps=given.after_touch == "keep",
    )


def _gains(values: tuple[float, ...], key: str, count: int) -> np.ndarray:
    if len(values) not in (1, count):
        raise ParameterError([f"{key}: has {len(values)} values: must have 1, or {count}, one for each velocity"])
    return np.full(count, values[0]) if len(values) == 1 else np.array(values)


def _efforts(given: MotionParameters, model: pin.Model, columns: np.ndarray) -> np.ndarray:
    """Least and largest force of each drive (2, m), of the parameters or of the model's joints."""
    if given.effort is not None:
        most = _gains(given.effort, ".effort", columns.size)
        return np.stack([-most, most])
    found = np.stack([model.lowerEffortLimit[columns], model.upperEffortLimit[columns]])
    found[:, ~found.any(axis=0)] = [[-np.inf], [np.inf]]  # 0 stands for none given, as in URDF
    return found


def _joints(given: MotionParameters, setting: _Setting) -> list[int]:
    """Numbers of the joints that move."""
    model, of = setting.model, given.of
    names = list(model.names)
    if of in setting.files:
        found = [i for i in range(1, model.njoints) if names[i] == of or names[i].startswith(f"{of}/")]
    else:
        joint = body_joint(model, of, ".of")[0]
        if joint == 0:
            raise ParameterError([f".of = {of}: is fixed; must be a body that moves, or a file"])
        found = [int(i) for i in model.subtrees[int(model.supports[joint][1])]]
    if not found:
        raise ParameterError([f".of = {of}: nothing of it moves"])
    roots = {int(model.supports[i][1]) for i in found}
    if setting.tool and int(model.supports[setting.tool][1]) in roots:
        raise ParameterError([f".of = {of}: is held by the hand (tool); a motion is of other bodies"])
    if not given.joints:
        return found
    known = {names[i].removeprefix(f"{of}/"): i for i in found} | {names[i]: i for i in found}
    for joint_name in given.joints:
        if joint_name not in known:
            listed = ", ".join(names[i].removeprefix(f"{of}/") for i in found)
            raise ParameterError([f".joints: {joint_name}: unknown joint (known: {listed})"])
    chosen = {known[joint_name] for joint_name in given.joints}
    return [i for i in found if i in chosen]


def body_joint(model: pin.Model, name: str, key: str) -> tuple[int, pin.SE3, int]:
    """Joint of a body by name, its pose in the joint's axes, and its frame.

    Raises:
        ParameterError: there is no such body.
    """
    bodies = {frame.name: i for i, frame in enumerate(model.frames) if frame.type == pin.FrameType.BODY}
    if name not in bodies:
        raise ParameterError([f"{key} = {name}: unknown body{did_you_mean(name, bodies)}"])
    frame = model.frames[bodies[name]]
    return int(frame.parentJoint), frame.placement, bodies[name]


# Trajectories


def _trajectory(given: MotionParameters, places: Places, setting: _Setting) -> tuple[Trajectory, bool]:
    """The trajectory of some parameters, and whether the bodies start where it does."""
    line, start = given.trajectory, places.of(setting.q)
    match line:
        case JointLineParameters():
            end = _coordinates(line.to, places, ".trajectory.to")
            smooth = line.profile == "smooth"
            start, end = _continuous(np.array([start, end]), places)
            return trajectories.straight(places.names, start, end, line.duration, smooth=smooth), not smooth
        case CartesianLineParameters():
            return _cartesian(line, places, setting), line.profile == "constant"
        case SplineParameters():
            problem = trajectories.point_problem(line.points, len(places.names))
            if problem:
                raise ParameterError([f".trajectory.{problem}"])
            if any(point.velocities or point.accelerations for point in line.points):
                raise ParameterError([".trajectory.points: a spline has positions alone; give them in a file instead"])
            times = np.array([point.time_from_start for point in line.points])
            positions = np.array([point.positions for point in line.points])
            return _from_points(places, start, times, (positions,), smooth=True)
        case FileTrajectoryParameters():
            try:
                content = trajectories.read(locate(line.path, setting.folder))
            except ParameterError as error:
                raise ParameterError([f".trajectory.path{problem}" for problem in error.problems]) from error
            order = _order(content.joint_names, places, given.of)
            times = np.array([point.time_from_start for point in content.points])
            keys = [key for key in ("positions", "velocities", "accelerations") if getattr(content.points[0], key)]
            parts = [np.array([getattr(point, key) for point in content.points])[:, order] for key in keys]
            return _from_points(places, start, times, tuple(parts), smooth=False)


def _order(names: Sequence[str], places: Places, of: str) -> list[int]:
    """Places of the coordinates in a file, whose names may leave out that of the world's file."""
    known = {name.removeprefix(f"{of}/"): i for i, name in enumerate(names)} | {name: i for i, name in enumerate(names)}
    wanted = [name if name in known else name.removeprefix(f"{of}/") for name in places.names]
    if len(set(names)) != len(names) or len(names) != len(wanted) or not set(wanted) <= known.keys():
        raise ParameterError(
            [f".trajectory.path: its joint_names are {', '.join(names)}: must be {', '.join(places.names)}"]
        )
    return [known[name] for name in wanted]


def _from_points(
    places: Places, start: np.ndarray, times: np.ndarray, parts: tuple[np.ndarray, ...], *, smooth: bool
) -> tuple[Trajectory, bool]:
    """The trajectory through points; from the start on, where the first is later."""
    starts = not times[0] > 0.0
    if not starts:
        times = np.concatenate([[0.0], times])
        begin = [start, *(np.zeros_like(start) for _ in parts[1:])]
        parts = tuple(np.vstack([row, part]) for row, part in zip(begin, parts, strict=True))
    for k in places.x[places.kind == QUATERNION]:
        lengths = np.linalg.norm(parts[0][:, k : k + 4], axis=1)
        if np.abs(lengths - 1.0).max() > _TURN:
            raise ParameterError([f".trajectory: {places.names[k]} to qw are not a quaternion of length 1"])
    positions = _continuous(parts[0], places, parts[1:])
    if times.size == 1:
        rest = np.repeat(positions, 2, axis=0)
        return trajectories.through(places.names, [0.0, 1.0], rest), True
    if smooth:
        return trajectories.spline(places.names, times, positions), starts
    return trajectories.through(places.names, times, positions, *parts[1:]), starts


def _continuous(positions: np.ndarray, places: Places, rates: Sequence[np.ndarray] = ()) -> np.ndarray:
    """The same positions (k, n), of the two quaternions of an orientation that nearer to the row before; with rates."""
    positions = positions.copy()
    for k in places.x[places.kind == QUATERNION]:
        own = slice(k, k + 4)
        for row in range(1, len(positions)):
            if positions[row, own] @ positions[row - 1, own] < 0.0:
                for table in (positions, *rates):
                    table[row, own] *= -1.0
    return positions


def _coordinates(values: tuple[float, ...], places: Places, key: str) -> np.ndarray:
    if len(values) != len(places.names):
        raise ParameterError(
            [f"{key}: has {len(values)} values: must have {len(places.names)}, of {', '.join(places.names)}"]
        )
    return np.array(values)


def _cartesian(line: CartesianLineParameters, places: Places, setting: _Setting) -> Trajectory:
    """The straight line of a point in space, as a spline through inverse kinematics."""
    model = setting.model.copy()
    joint, pose, _ = body_joint(model, line.body, ".trajectory.body")
    columns = places.columns
    if not np.isin(columns, _columns_above(model, joint)).any():
        raise ParameterError([f".trajectory.body = {line.body}: is not moved by the joints of the motion"])
    at = pin.SE3(pose.rotation, pose.act(np.array(line.point)))
    frame = model.addFrame(pin.Frame("line", joint, at, pin.FrameType.OP_FRAME))
    data = model.createData()
    pin.framesForwardKinematics(model, data, setting.q)
    begin = data.oMf[frame].copy()
    displacement = np.array(line.by) if line.by is not None else np.array(line.to) - begin.translation
    lower, upper = _limits(columns, setting)
    count = _KNOTS
    while True:
        parts = np.linspace(0.0, 1.0, count)
        shares = trajectories.progress(parts) if line.profile == "smooth" else parts
        q, rows = setting.q.copy(), []
        for share in shares:
            goal = pin.SE3(begin.rotation, begin.translation + share * displacement)
            found = reach(model, frame, goal, q, columns, lower=lower, upper=upper, rotation=line.rotation == "keep")
            if found.error > REACHED or found.angle > REACHED:
                raise ParameterError([_unreachable(line, goal, share, found)])
            q = found.q
            rows.append(places.of(q))
        path = trajectories.spline(
            places.names,
            parts * line.duration,
            _continuous(np.array(rows), places),
            at_rest=line.profile == "smooth",
        )
        bend = _bend(model, frame, path, places, setting, begin, displacement)
        if bend <= STRAIGHT:
            return path
        if count > _MOST_KNOTS:
            raise ParameterError(
                [
                    f".trajectory: the joints leave the straight line by {bend:.3g} m between two points; is it near a "
                    "singularity? choose another line, or rotation = free"
                ]
            )
        count *= 2


def _unreachable(line: CartesianLineParameters, goal: pin.SE3, share: float, found: Any) -> str:
    where = ", ".join(f"{value:.4g}" for value in goal.translation)
    left = f"{found.error:.3g} m" + (f" and {found.angle:.3g} rad" if line.rotation == "keep" else "")
    return (
        f".trajectory: the straight line cannot be followed: after {100.0 * share:.0f} % of it, at ({where}) m, the "
        f"joints bring {line.body} no nearer than {left}, within their limits"
    )


def _bend(
    model: pin.Model,
    frame: int,
    path: Trajectory,
    places: Places,
    setting: _Setting,
    begin: pin.SE3,
    displacement: np.ndarray,
) -> float:
    """Largest distance from the line at the middles between points [m]."""
    data, q, length = model.createData(), setting.q.copy(), float(np.linalg.norm(displacement))
    along = displacement / length if length > 0.0 else displacement
    worst = 0.0
    for x in path.evaluate(0.5 * (path.times[:-1] + path.times[1:])):
        places.put(x, q)
        pin.framesForwardKinematics(model, data, q)
        off = data.oMf[frame].translation - begin.translation
        worst = max(worst, float(np.linalg.norm(off - (off @ along) * along)))
    return worst


def _columns_above(model: pin.Model, joint: int) -> np.ndarray:
    """Velocity coordinates that move a joint."""
    parts = [np.arange(model.idx_vs[i], model.idx_vs[i] + model.nvs[i]) for i in list(model.supports[joint])[1:]]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _limits(columns: np.ndarray, setting: _Setting) -> tuple[np.ndarray, np.ndarray]:
    """Limits of position of velocity coordinates, infinite where there are none."""
    lower, upper = np.full(setting.model.nv, -np.inf), np.full(setting.model.nv, np.inf)
    for law in setting.laws:
        if law.position >= 0:
            lower[law.velocity], upper[law.velocity] = law.lower, law.upper
    return lower[columns], upper[columns]


def _beyond_limits(path: Trajectory, places: Places, setting: _Setting) -> str:
    """The first limit of a joint that a trajectory leaves; empty if it leaves none."""
    instants = path.instants()
    positions, rates = path.evaluate(instants), path.evaluate(instants, 1)
    for k, v in zip(places.x, places.v, strict=True):
        for law in setting.laws:
            if law.velocity != v:
                continue
            within = 1e-9 * (1.0 + abs(law.lower) if np.isfinite(law.lower) else 1.0)
            x, rate = positions[:, k], rates[:, k]
            if law.position >= 0 and ((x < law.lower - within) | (x > law.upper + within)).any():
                row = int(np.argmax(np.maximum(law.lower - x, x - law.upper)))
                return (
                    f"leaves the limits of joint {law.name}: {x[row]:.4g} at {instants[row]:.4g} s, must be from "
                    f"{law.lower:g} to {law.upper:g}"
                )
            if (np.abs(rate) > law.speed * (1.0 + 1e-9)).any():
                row = int(np.argmax(np.abs(rate)))
                return (
                    f"is too fast for joint {law.name}: {abs(rate[row]):.4g}/s at {instants[row]:.4g} s, must be at "
                    f"most {law.speed:g}/s"
                )
    return ""


def without_friction(laws: Sequence[JointLaw], motions: Sequence[Motion]) -> tuple[JointLaw, ...]:
    """The laws of joints; computed torque, which knows all of the dynamics, takes dry friction from those it drives.

    (Damping and springs are among the terms of inverse dynamics; dry friction is found with the contacts.)
    """
    driven = {int(column) for motion in motions if motion.torque for column in motion.places.columns}
    return tuple(replace(law, friction=0.0) if law.velocity in driven else law for law in laws)


# Pulls


def build_pulls(
    model: pin.Model, pulls: Mapping[str, PullParameters], *, tool: int, prefix: str = ""
) -> tuple[Pull, ...]:
    """The pulls of a world.

    Raises:
        ParameterError: one line for each problem.
    """
    return tuple(_pull(model, name, given, tool, f"{prefix}pulls.{name}") for name, given in pulls.items())


def _pull(model: pin.Model, name: str, given: PullParameters, tool: int, key: str) -> Pull:
    joint, pose, _ = body_joint(model, given.body, f"{key}.body")
    problem = ""
    if joint == 0:
        problem = "is fixed; must be a body that moves"
    elif int(model.supports[joint][1]) == int(model.supports[tool][1]):
        problem = "is connected with the tool; must be another body"
    if problem:
        raise ParameterError([f"{key}.body = {given.body}: {problem}"])
    return Pull(
        name=name,
        body=given.body,
        joint=joint,
        point=None if given.point is None else pose.act(np.array(given.point)),
        grabs=np.array(given.grabs, float).reshape(-1, 2),
        stiffness=(given.stiffness, given.turn_stiffness),
        damping=(given.damping, given.turn_damping),
    )
