"""Trees of models that MuJoCo has compiled, as Pinocchio models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from haptic_sim.dynamics.joints import JointLaw, free_joint_laws
from haptic_sim.dynamics.multibody import free_joint
from haptic_sim.parameters import ParameterError
from haptic_sim.worlds.parameters import WORLD

REQUIREMENT = "mujoco>=3.5"  # from there on the margins of two geoms add up
FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's types of joints, mjtJoint."""
CENTRED = 1e-9  # [m] a centre of mass so near to the origin of its body is there


def library() -> Any:
    """The module `mujoco`.

    Raises:
        ParameterError: it is not installed, or too old.
    """
    try:
        import mujoco  # not above: it is optional
    except ImportError as error:
        reason = f"MuJoCo is needed and not there: python3 -m pip install '{REQUIREMENT}'"
        raise ParameterError([reason]) from error
    if version(mujoco) < (3, 5):
        raise ParameterError([f"mujoco {mujoco.__version__} found: python3 -m pip install '{REQUIREMENT}'"])
    return mujoco


def version(mujoco: Any) -> tuple[int, int]:
    """Major and minor version."""
    major, minor, *_ = mujoco.__version__.split(".")
    return int(major), int(minor)


def body_names(model: Any) -> tuple[str, ...]:
    """Names of all bodies; of one without a name, `body` and its number."""
    return tuple(model.body(i).name or f"body{i}" for i in range(model.nbody))


def coordinate_names(model: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the coordinates in the order of qpos, and of the velocities in that of qvel.

    Named as by `haptic_sim.dynamics.multibody.coordinate_names`: a joint with one coordinate gives it its name, others
    have `ball.qw` and `ball.wz`. A quaternion has the order w x y z.
    """
    names, q_names, v_names = body_names(model), list[str](), list[str]()
    for k in range(model.njnt):
        name, kind = joint_name(model, names, k), int(model.jnt_type[k])
        if kind in (FREE, BALL):
            place = 3 if kind == FREE else 0
            q_names += [f"{name}.{part}" for part in ("x", "y", "z")[:place] + ("qw", "qx", "qy", "qz")]
            v_names += [f"{name}.{part}" for part in ("vx", "vy", "vz")[:place] + ("wx", "wy", "wz")]
        else:
            q_names.append(name)
            v_names.append(name)
    return tuple(q_names), tuple(v_names)


def joint_name(model: Any, names: tuple[str, ...], joint: int) -> str:
    """Name of a joint; of one without a name, that of its body and its number there."""
    body = int(model.jnt_bodyid[joint])
    return model.joint(joint).name or f"{names[body]}.{joint - int(model.body_jntadr[body])}"


class CompiledTree:
    """The bodies that hang on one root as a Pinocchio model: joints in MuJoCo's order, inertias, armature and laws.

    Args:
        model, data: MuJoCo's, with the poses of bodies in `data`.
        bodies: numbers of the bodies, parents first.
        names: of all bodies of the model.
        free_joints: whether a free body is on a joint; else it is fixed where the model shows it.

    Attributes:
        model: the bodies.
        places: joint of each body, and the body's pose in its axes.
        joints: numbers of the joints of each body in `model`.
        joint_bodies: name of the body of each joint.
        laws: of the joints.
        balanced: what gravity does not pull at (`gravcomp`): mass and centre of mass of each joint in its axes.
        centre: centre of mass of a free body on a joint, in its axes [m] (3,).
        free: whether the root is a free body; root_damping: that of `FileTree`, where it is on no joint.
        start: configuration that the model shows.
        ignored: what of the joints is not simulated.
    """

    def __init__(self, model: Any, data: Any, bodies: list[int], names: tuple[str, ...], *, free_joints: bool = True):
        self.model, self._mj, self._free_joints = pin.Model(), model, free_joints
        self.model.name = WORLD
        self.model.gravity.linear[:] = model.opt.gravity
        self.places: dict[int, tuple[int, pin.SE3]] = {}
        self.centre: np.ndarray | None = None
        self.joints: dict[int, list[int]] = {}
        self.joint_bodies: list[str] = []
        self.balanced = [pin.Inertia.Zero()]
        self.free, self.root_damping = False, 0.0
        self.start: list[float] = []
        self.laws: list[JointLaw] = []
        self._order: list[int] = []  # place in qpos of each of our coordinates
        self.ignored: list[str] = []
        if self.disabled("GRAVITY"):
            self.model.gravity.linear[:] = 0.0
        for body in bodies:
            self._add(body, data, names)

    def _add(self, body: int, data: Any, names: tuple[str, ...]) -> None:
        mj = self._mj
        above = int(mj.body_parentid[body])
        X_PB = pose_of(mj.body_pos[body], mj.body_quat[body])
        if above in self.places:
            joint, X_JP = self.places[above]
            X_JB = X_JP * X_PB
        else:  # on what does not move
            joint, X_JB = 0, pose_of(data.xpos[above], data.xquat[above]) * X_PB
        inertia = inertia_of(mj, body)
        first = int(mj.body_jntadr[body])
        for k in range(first, first + int(mj.body_jntnum[body])):
            name = joint_name(mj, names, k)
            if int(mj.jnt_type[k]) == FREE:
                self.free = True
                if not self._free_joints:
                    self.root_damping = self._free_damping(k, name)
                    continue
            self.joint_bodies.append(names[body])
            joint, X_JB = self._add_joint(k, name, joint, X_JB)
            self.joints.setdefault(body, []).append(joint)
            self.balanced.append(pin.Inertia.Zero())
        self.places[body] = joint, X_JB
        self.model.appendBodyToJoint(joint, inertia, X_JB)
        part = pin.Inertia(inertia.mass * float(mj.body_gravcomp[body]), inertia.lever, np.zeros((3, 3)))
        self.balanced[joint] += X_JB.act(part)

    def _add_joint(self, k: int, name: str, parent: int, X_PB: pin.SE3) -> tuple[int, pin.SE3]:
        """Add joint k of MuJoCo between a joint and a body that is at X_PB in its axes; returns as `places`."""
        mj, model = self._mj, self.model
        kind, q, v = int(mj.jnt_type[k]), int(mj.jnt_qposadr[k]), int(mj.jnt_dofadr[k])
        if kind == FREE:
            self.centre = self._centre_of(int(mj.jnt_bodyid[k]))
            self._order += [q, q + 1, q + 2, q + 4, q + 5, q + 6, q + 3]
            self.start += [0.0] * 6 + [1.0]
            damping = self._free_damping(k, name)
            self.laws += free_joint_laws(name, damping, damping)
            return model.addJoint(0, free_joint(), pin.SE3.Identity(), name), pin.SE3(np.eye(3), -self.centre)
        axis, anchor = np.array(mj.jnt_axis[k]), np.array(mj.jnt_pos[k])
        X_BJ = pin.SE3(np.eye(3), anchor)  # the joint's axes are the body's, at its anchor
        at = float(mj.qpos0[q])  # the coordinate in which the body is where the file has it
        if kind == BALL:
            joint, placed = pin.JointModelSpherical(), X_BJ
            self._order += [q + 1, q + 2, q + 3, q]
        elif kind == HINGE:
            joint, placed = pin.JointModelRevoluteUnaligned(axis), X_BJ * pin.SE3(pin.exp3(-at * axis), np.zeros(3))
            self._order.append(q)
        else:
            joint, placed = pin.JointModelPrismaticUnaligned(axis), X_BJ * pin.SE3(np.eye(3), -at * axis)
            self._order.append(q)
        self.start += [0.0, 0.0, 0.0, 1.0] if kind == BALL else [at]
        count = 3 if kind == BALL else 1
        number = model.addJoint(parent, joint, X_PB * placed, name)
        first = model.idx_vs[number]
        model.armature[first : first + count] = mj.dof_armature[v : v + count]
        efforts = mj.jnt_actfrcrange[k] if mj.jnt_actfrclimited[k] else (-np.inf, np.inf)
        model.lowerEffortLimit[first : first + count], model.upperEffortLimit[first : first + count] = efforts
        limited = bool(mj.jnt_limited[k]) and not self.disabled("LIMIT")
        lower, upper = mj.jnt_range[k] if limited and count == 1 else (-np.inf, np.inf)
        for i in range(count):
            self.laws.append(
                JointLaw(
                    name,
                    velocity=first + i,
                    position=model.idx_qs[number] if count == 1 else -1,
                    lower=float(lower),
                    upper=float(upper),
                    damping=float(mj.dof_damping[v + i]),
                    friction=float(mj.dof_frictionloss[v + i]),
                    stiffness=float(mj.jnt_stiffness[k]) if count == 1 else 0.0,
                    reference=float(mj.qpos_spring[q]),
                )
            )
        if count > 1 and (limited or mj.jnt_stiffness[k]):
            self.ignored.append(f"limits and springs of the ball joint {name}")
        for table in ("dof_dampingpoly", "jnt_stiffnesspoly"):  # since MuJoCo 3.6
            values = getattr(mj, table, None)
            if values is not None and np.any(values[v if table.startswith("dof") else k]):
                self.ignored.append(f"{table[4:]} of {name}")
        return number, X_BJ.inverse()

    def _free_damping(self, k: int, name: str) -> float:
        """Damping of a free joint that is simulated; the rest of its laws are listed as ignored.

        MuJoCo's force on each velocity is -b v_i: a force -b v_O at the origin O of the body, and a torque -b w. They
        are laws of the free body's own coordinates where its centre of mass is at O.
        """
        v = int(self._mj.jnt_dofadr[k])
        centred = float(np.linalg.norm(self._centre_of(int(self._mj.jnt_bodyid[k])))) < CENTRED
        self._ignore(name, v, 6, ("armature", *(() if centred else ("damping",)), "frictionloss"))
        return float(self._mj.dof_damping[v]) if centred else 0.0

    def disabled(self, flag: str) -> bool:
        """Whether a flag of the options disables something."""
        return bool(self._mj.opt.disableflags & getattr(library().mjtDisableBit, f"mjDSBL_{flag}"))

    def _ignore(self, name: str, v: int, count: int, tables: tuple[str, ...]) -> None:
        unread = [table for table in tables if np.any(getattr(self._mj, f"dof_{table}")[v : v + count])]
        if unread:
            self.ignored.append(f"{', '.join(unread)} of {name}")

    def _centre_of(self, root: int) -> np.ndarray:
        """Centre of mass of a body with those that are fixed on it, in its axes [m] (3,)."""
        mj, poses = self._mj, {root: pin.SE3.Identity()}
        total = inertia_of(mj, root)
        for body in range(root + 1, mj.nbody):
            if mj.body_weldid[body] == root:
                poses[body] = poses[int(mj.body_parentid[body])] * pose_of(mj.body_pos[body], mj.body_quat[body])
                total = total + poses[body].act(inertia_of(mj, body))
        centre: np.ndarray = np.array(total.lever)
        return centre

    def q_place(self) -> np.ndarray:
        """Indices of the tree's coordinates in qpos, in the order of ours; see `MujocoTree.q`."""
        return np.array(self._order, np.int64)


def inertia_of(model: Any, body: int) -> pin.Inertia:
    """Inertia of a body, in its axes."""
    X_BC = pose_of(model.body_ipos[body], model.body_iquat[body])
    moments = X_BC.rotation @ np.diag(model.body_inertia[body]) @ X_BC.rotation.T
    return pin.Inertia(float(model.body_mass[body]), np.array(model.body_ipos[body]), moments)


def pose_of(position: np.ndarray, quat_wxyz: np.ndarray) -> pin.SE3:
    """A placement from a position [m] and a quaternion in MuJoCo's order."""
    w, x, y, z = (float(value) for value in quat_wxyz)
    return pin.SE3(pin.Quaternion(w, x, y, z).normalized().matrix(), np.array(position))
