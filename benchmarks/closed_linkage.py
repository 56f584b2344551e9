"""Peaucellier's linkage (config/systems/peaucellier.yaml) as a model of Pinocchio's: a tree of rods with closed loops.

Its constrained forward dynamics is what others would take for a holonomic system; the benchmark compares with it, and
a test its accelerations with those of the formulas.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from haptic_sim.constraints.equations import Equations

_RODS = (("OA", ""), ("AC", "OA"), ("AP", "OA"), ("OB", ""), ("BC", "OB"), ("BP", "OB"), ("DC", ""))  # and parents
_LOOPS = (("AC", "DC"), ("BC", "DC"), ("BP", "AP"))  # whose ends meet
_DAMPING, _ACCURACY, _ITERATIONS = 1e-12, 1e-10, 10  # proximal: the rows across the plane depend on each other


class ClosedLinkage:
    """The linkage of a system of formulas with the parameters of `peaucellier`.

    Attributes:
        q, v, tau: angles between rods [rad], their rates and torques, (7,).
    """

    def __init__(self, system: Equations):
        p = system.parameters
        self._lengths = {name: p["L"] if name[0] == "O" else p["d"] if name[0] == "D" else p["s"] for name, _ in _RODS}
        self._foot = np.array([0.0, -p["d"]])
        model = pin.Model()
        model.gravity.linear = np.array([0.0, -p["g"], 0.0])
        joints: dict[str, int] = {"": 0}
        for name, parent in _RODS:
            start = np.array([self._lengths[parent] if parent else 0.0, -p["d"] if name == "DC" else 0.0, 0.0])
            joints[name] = model.addJoint(joints[parent], pin.JointModelRZ(), pin.SE3(np.eye(3), start), name)
            length = self._lengths[name]
            mass = p["rho"] * length
            inertia = np.diag([0.0, 1.0, 1.0]) * mass * length**2 / 12.0
            rod = pin.Inertia(mass, np.array([0.5 * length, 0.0, 0.0]), inertia)
            model.appendBodyToJoint(joints[name], rod, pin.SE3.Identity())
        tip = pin.Inertia(p["mP"], np.zeros(3), np.zeros((3, 3)))
        model.appendBodyToJoint(joints["AP"], tip, self._end("AP"))
        self._hand = model.addFrame(pin.Frame("P", joints["AP"], 0, self._end("AP"), pin.FrameType.OP_FRAME))
        self._model, self._data = model, model.createData()
        self._loops, self._loop_data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for one, other in _LOOPS:
            contact = pin.RigidConstraintModel(
                pin.ContactType.CONTACT_3D,
                model,
                joints[one],
                self._end(one),
                joints[other],
                self._end(other),
                pin.ReferenceFrame.LOCAL,
            )
            self._loops.append(contact)
            self._loop_data.append(contact.createData())
        pin.initConstraintDynamics(model, self._data, self._loops, self._loop_data)
        self._proximal = pin.ProximalSettings(_ACCURACY, _DAMPING, _ITERATIONS)
        self.q, self.v, self.tau = np.zeros(7), np.zeros(7), np.zeros(7)
        self.put(system.q, system.v)

    def _end(self, rod: str) -> pin.SE3:
        return pin.SE3(np.eye(3), np.array([self._lengths[rod], 0.0, 0.0]))

    def put(self, q: np.ndarray, v: np.ndarray) -> None:
        """Take configuration and velocity of the formulas: x and y of A, B, C, P, (8,) each."""
        places = {"O": np.zeros(2), "D": self._foot} | {name: q[2 * i : 2 * i + 2] for i, name in enumerate("ABCP")}
        rates = {"O": np.zeros(2), "D": np.zeros(2)} | {name: v[2 * i : 2 * i + 2] for i, name in enumerate("ABCP")}
        angle, turn = {"": 0.0}, {"": 0.0}
        for i, (name, parent) in enumerate(_RODS):
            (x, y), (u, w) = places[name[1]] - places[name[0]], rates[name[1]] - rates[name[0]]
            angle[name], turn[name] = float(np.arctan2(y, x)), float((x * w - y * u) / (x * x + y * y))
            self.q[i], self.v[i] = angle[name] - angle[parent], turn[name] - turn[parent]

    def accelerate(self) -> np.ndarray:
        """Accelerations of the angles (7,) under `tau`."""
        found: np.ndarray = pin.constraintDynamics(
            self._model, self._data, self.q, self.v, self.tau, self._loops, self._loop_data, self._proximal
        )
        return found

    def hand_acceleration(self, force: np.ndarray) -> np.ndarray:
        """Acceleration of P [m/s^2] (3,) under a force on it [N] (3,)."""
        J = pin.computeFrameJacobian(self._model, self._data, self.q, self._hand, pin.LOCAL_WORLD_ALIGNED)
        self.tau[:] = J[:3].T @ force
        a = self.accelerate()
        pin.forwardKinematics(self._model, self._data, self.q, self.v, a)
        found = pin.getFrameClassicalAcceleration(self._model, self._data, self._hand, pin.LOCAL_WORLD_ALIGNED)
        return np.asarray(found.linear)
