"""Model of the device in a controller: inertia and damping, for impedance shaping and for the observer.

The device has the dynamics M_d a + C_d v = F_h + f (THESIS 5.20, D.3), with the operator's wrench F_h and the rendered
wrench f, all at the hand point in world axes. Its inertia is

  - a mass and an inertia that is the same about every axis through the hand point: a simulated device;
  - a matrix M in world axes, which holds near one configuration, as of a device with links of its own;
  - a matrix M in the axes of the hand (`device_axes: hand`), as of a rigid body that is held anywhere. With the
    rotation R of the hand M_d = diag(R, R) M diag(R, R)^T. The momenta (p, L) = M_d (v, w) change by the force and, as
    the hand point itself moves, by the torque less v x p; and d(M_d)/dt = diag([w], [w]) M_d - M_d diag([w], [w]). So

        C_d (v, w) = (w x p, w x L) - M_d (w x v, 0) + (0, v x p) + device_damping (v, w)

  - that of a twin pantograph (`haptic_sim.dynamics.pantograph`), with its C_d. Its momenta are Lagrange's, which
    change by the wrenches and the gradient of the kinetic energy, so the bias is less this gradient.

A matrix in world axes has C_d = device_damping alone.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator

from haptic_control.matrices import InertiaMatrix, matrix_of
from haptic_control.parameters import AnalysedControllerParameters
from haptic_sim.dynamics.pantograph import (
    NUMBERS,
    Linkage,
    LinkageParameters,
    close_loops,
    find_inertia,
    hand_of_pose,
    into_device,
    into_world,
)
from haptic_sim.kernels import kernel
from haptic_sim.parameters import Gains, quantity, six
from haptic_sim.records import allocate, array, record, shared, value


def _numbers_of_linkage(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != NUMBERS:
        raise ValueError(f"has {len(values)} values: must have {NUMBERS}")
    return values


Numbers = Annotated[tuple[float, ...], AfterValidator(_numbers_of_linkage)]


def linkage_inertia(numbers: tuple[float, ...]) -> np.ndarray:
    """M_d (6, 6) of a twin pantograph at rest in its middle, in world axes; 0 in directions that do not move."""
    linkage, mount = LinkageParameters.read(numbers)
    one = Linkage.of(linkage)
    close_loops(one, np.zeros(3))
    find_inertia(one, np.zeros(3))
    c, s = math.cos(mount[2]), math.sin(mount[2])
    R, M = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]), np.zeros((6, 6))
    M[np.ix_((0, 1, 5), (0, 1, 5))] = R @ one.inertia @ R.T
    return M


class DeviceModelParameters(AnalysedControllerParameters):
    """Inertia and damping of the device, for controllers that need them."""

    device_mass: float | None = quantity(
        None, unit="kg", description="Mass of the device; null: that of the simulated device", gt=0.0, le=1e3
    )
    device_inertia: float | None = quantity(
        None,
        unit="kg m^2",
        description="Inertia of the device about its hand point; null: that of the simulated device",
        gt=0.0,
        le=1e3,
    )
    device_matrix: InertiaMatrix | None = quantity(
        None,
        unit="kg, kg m, kg m^2",
        description="Inertia of the device at its hand point as a symmetric positive definite matrix, row by row, in "
        "place of device_mass and device_inertia; null: these",
    )
    device_axes: Literal["world", "hand"] = quantity(
        "world", description="Axes in which device_matrix is constant; hand: a rigid body, which turns with its matrix"
    )
    device_linkage: Numbers | None = quantity(
        None,
        description="A device that is a twin pantograph: the numbers of device.linkage in their order, and those of "
        "device.mount; null: that of the simulated device, where what it does itself is not enough",
    )
    device_damping: Gains = quantity(
        (0.0, 0.0, 0.0),
        unit="N s/m, N m s/rad",
        description="Damping of the device in world axes, which impedance shaping compensates and an observer knows",
        live=True,
    )

    @property
    def needs_device(self) -> bool:
        """Whether the controller uses the inertia of the device."""
        return False

    def inertia(self) -> np.ndarray:
        """M (6, 6), in the axes of the device.

        Raises:
            TypeError: there is none.
        """
        if self.device_linkage is not None and self.device_mass is None:
            return linkage_inertia(self.device_linkage)
        if self.device_matrix is not None:
            return matrix_of(self.device_matrix)
        if self.device_mass is None or self.device_inertia is None:
            raise TypeError(f"{self.__class__.__name__}: needs device_mass and device_inertia, or device_matrix")
        return np.diag([*(3 * [self.device_mass]), *(3 * [self.device_inertia])])


@record
class DeviceModel(NamedTuple):
    """Inertia and damping of a device, for kernels."""

    matrix: np.ndarray = array("M in the axes of the device", 6, 6, unit="kg, kg m, kg m^2")
    damping: np.ndarray = array("damping in each direction", 6, unit="N s/m, N m s/rad")
    turns: np.ndarray = array("whether the matrix turns with the hand", 1, dtype=np.bool_)
    inertia: np.ndarray = array("M_d at the present pose, in world axes", 6, 6, unit="kg, kg m, kg m^2")
    coriolis: np.ndarray = array("C_d v", 6, unit="N, N m")
    bias: np.ndarray = array("rate of the momenta less all wrenches: (0, v x p) and damping", 6, unit="N, N m")
    rotation: np.ndarray = array("rotation of the hand", 3, 3)
    momentum: np.ndarray = array("M_d v", 6, unit="N s, N m s")
    linked: np.ndarray = array("whether it is a twin pantograph", 1, dtype=np.bool_)
    linkage: Linkage = value("the twin pantograph")
    mount: np.ndarray = shared("place and angle of that in the world", 3, unit="m, rad")
    hand: np.ndarray = array("hand in its axes", 3, unit="m, rad")
    velocity: np.ndarray = array("velocity of the hand in its axes", 3, unit="m/s, rad/s")

    @classmethod
    def of(cls, parameters: DeviceModelParameters, *, moves: bool = True) -> DeviceModel:
        """The model of parameters that have an inertia.

        Args:
            moves: it is of how the device moves, and not of how its own controller lets it answer a command.
        """
        given = parameters.device_linkage
        linkage, mount = (LinkageParameters(), (0.0, 0.0, 0.0)) if given is None else LinkageParameters.read(given)
        model = allocate(cls, linkage=Linkage.of(linkage), mount=np.array(mount))
        model.linked[0] = given is not None and (moves or parameters.device_mass is None)
        model.fill(parameters)
        return model

    def fill(self, parameters: DeviceModelParameters) -> None:
        """Take other parameters."""
        self.matrix[:] = self.inertia[:] = parameters.inertia()
        self.damping[:] = six(parameters.device_damping)
        self.turns[0] = parameters.device_matrix is not None and parameters.device_axes == "hand"


@kernel
def evaluate_device(model, pose, twist):
    """Fill `inertia`, `momentum`, `bias` and `coriolis` of a `DeviceModel` at a pose (7,) and a twist (6,)."""
    p = model.momentum
    if model.linked[0]:
        _evaluate_linkage(model, pose, twist)
        return
    if model.turns[0]:
        _turn(model.matrix, pose, model.rotation, model.inertia)
    for i in range(6):
        s = 0.0
        for j in range(6):
            s += model.inertia[i, j] * twist[j]
        p[i] = s
        model.bias[i] = model.coriolis[i] = model.damping[i] * twist[i]
    if not model.turns[0]:
        return
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        model.bias[3 + i] += twist[j] * p[k] - twist[k] * p[j]
        model.coriolis[3 + i] += twist[j] * p[k] - twist[k] * p[j]
        model.coriolis[i] += twist[3 + j] * p[k] - twist[3 + k] * p[j]
        model.coriolis[3 + i] += twist[3 + j] * p[3 + k] - twist[3 + k] * p[3 + j]
        turned = twist[3 + j] * twist[k] - twist[3 + k] * twist[j]  # w x v
        for row in range(6):
            model.coriolis[row] -= model.inertia[row, i] * turned


@kernel
def _evaluate_linkage(model, pose, twist):
    """Evaluate a twin pantograph, as `evaluate_device`; out of its reach the inertia stays the last one."""
    linkage, mount = model.linkage, model.mount
    hand_of_pose(mount, pose, model.hand)
    into_device(mount, twist, model.velocity)
    close_loops(linkage, model.hand)
    find_inertia(linkage, model.velocity)
    M = linkage.inertia
    c, s = math.cos(mount[2]), math.sin(mount[2])
    xx, xy, yy = M[0, 0], M[0, 1], M[1, 1]
    inertia = model.inertia
    inertia[0, 0] = c * c * xx - 2.0 * c * s * xy + s * s * yy
    inertia[1, 1] = s * s * xx + 2.0 * c * s * xy + c * c * yy
    inertia[0, 1] = inertia[1, 0] = c * s * (xx - yy) + (c * c - s * s) * xy
    inertia[0, 5] = inertia[5, 0] = c * M[0, 2] - s * M[1, 2]
    inertia[1, 5] = inertia[5, 1] = s * M[0, 2] + c * M[1, 2]
    inertia[5, 5] = M[2, 2]
    into_world(mount, linkage.momentum, model.momentum)
    into_world(mount, linkage.coriolis, model.coriolis)
    into_world(mount, linkage.gradient, model.bias)
    for i in range(6):
        damped = model.damping[i] * twist[i]
        model.bias[i] = damped - model.bias[i] if i < 2 or i == 5 else damped
        model.coriolis[i] = model.coriolis[i] + damped if i < 2 or i == 5 else damped


@kernel
def _turn(matrix, pose, R, inertia):
    """Fill the rotation `R` (3, 3) of a pose, and `inertia` with `matrix` turned by it."""
    x, y, z, w = pose[3], pose[4], pose[5], pose[6]
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)
    for row in range(0, 6, 3):
        for column in range(0, 6, 3):
            for i in range(3):
                for j in range(3):
                    s = 0.0
                    for k in range(3):
                        for m in range(3):
                            s += R[i, k] * matrix[row + k, column + m] * R[j, m]
                    inertia[row + i, column + j] = s
