"""Trajectories: coordinates as piecewise polynomials of time, made from points, and read from and written to files.

Between two points the degree follows from what the points have, as in ROS 2's joint_trajectory_controller: positions
alone give straight lines, with velocities cubic and with accelerations quintic polynomials. Before its first and after
its last point a trajectory rests there.

A file has the fields of trajectory_msgs/JointTrajectory, in YAML or JSON:

    joint_names: [shoulder, elbow]
    points:
      - {positions: [0.0, 0.5], time_from_start: 0.0}
      - {positions: [0.4, 0.9], time_from_start: {sec: 1, nanosec: 0}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, ValidationError

from haptic_sim import inputs
from haptic_sim.kernels import kernel
from haptic_sim.parameters import ParameterError, Parameters, explain, quantity

ORDER = 6  # coefficients of a polynomial
_PER_SEGMENT, _INSTANTS = 24, 100_000  # instants at which limits are checked: of a segment, and of all at most


@dataclass(frozen=True)
class Trajectory:
    """Coordinates as functions of time.

    Attributes (S: segments, n: coordinates):
        names: of the coordinates.
        times: of the points, the first is 0 [s], (S + 1,).
        coefficients: of powers of the time since the beginning of a segment, the constant one first, (S, 6, n).
    """

    names: tuple[str, ...]
    times: np.ndarray
    coefficients: np.ndarray

    @property
    def duration(self) -> float:
        """[s]."""
        return float(self.times[-1])

    def evaluate(self, times: ArrayLike, derivative: int = 0) -> np.ndarray:
        """Coordinates, or a derivative of them, at times [s] (k,): (k, n)."""
        instants = np.atleast_1d(np.asarray(times, float))
        out = np.zeros((instants.size, len(self.names)))
        _evaluate_all(self.times, self.coefficients, instants, derivative, out)
        return out

    def instants(self) -> np.ndarray:
        """Times that are dense enough to look for extremes [s], (k,)."""
        count = max(2, min(_PER_SEGMENT, _INSTANTS // (self.times.size - 1)))
        parts = self.times[:-1, None] + np.diff(self.times)[:, None] * np.arange(count) / count
        return np.concatenate([parts.ravel(), self.times[-1:]])


@kernel
def evaluate(times, coefficients, time, derivative, out):
    """Fill `out` (n,) with a derivative (0: the coordinates themselves, 1, 2) of a `Trajectory` at a time [s]."""
    last = coefficients.shape[0] - 1
    if time < times[0] or time > times[last + 1]:
        outside = 0 if time < times[0] else last
        x = 0.0 if time < times[0] else times[last + 1] - times[last]
        for k in range(out.shape[0]):
            out[k] = _value(coefficients[outside], k, x, 0) if derivative == 0 else 0.0
        return
    low, high = 0, last
    while low < high:
        middle = (low + high + 1) // 2
        if times[middle] <= time:
            low = middle
        else:
            high = middle - 1
    for k in range(out.shape[0]):
        out[k] = _value(coefficients[low], k, time - times[low], derivative)


@kernel
def _evaluate_all(times, coefficients, instants, derivative, out):
    """Evaluate the trajectory at several times; see `evaluate`."""
    for i in range(instants.shape[0]):
        evaluate(times, coefficients, instants[i], derivative, out[i])


@kernel
def _value(c, k, x, derivative):
    """Horner's rule."""
    s = 0.0
    for i in range(ORDER - 1, derivative - 1, -1):
        factor = 1.0
        for d in range(derivative):
            factor *= i - d
        s = s * x + factor * c[i, k]
    return s


def through(
    names: Sequence[str],
    times: ArrayLike,
    positions: ArrayLike,
    velocities: ArrayLike | None = None,
    accelerations: ArrayLike | None = None,
) -> Trajectory:
    """The trajectory through points, see the module.

    Args:
        names: of the coordinates, n.
        times: they grow, the first is 0 [s], (k,).
        positions, velocities, accelerations: (k, n).
    """
    t, q = np.asarray(times, float), np.asarray(positions, float)
    h = np.diff(t)[:, None]
    c = np.zeros((h.size, ORDER, q.shape[1]))
    c[:, 0] = q[:-1]
    if velocities is None:
        c[:, 1] = np.diff(q, axis=0) / h
        return Trajectory(tuple(names), t, c)
    v = np.asarray(velocities, float)
    c[:, 1] = v[:-1]
    displacement = q[1:] - q[:-1] - h * v[:-1]
    if accelerations is None:
        turn = v[1:] - v[:-1]
        c[:, 2], c[:, 3] = 3.0 * displacement / h**2 - turn / h, -2.0 * displacement / h**3 + turn / h**2
        return Trajectory(tuple(names), t, c)
    a = np.asarray(accelerations, float)
    displacement = displacement - 0.5 * h**2 * a[:-1]
    turn = v[1:] - v[:-1] - h * a[:-1]
    bend = a[1:] - a[:-1]
    c[:, 2] = 0.5 * a[:-1]
    c[:, 3] = 10.0 * displacement / h**3 - 4.0 * turn / h**2 + 0.5 * bend / h
    c[:, 4] = -15.0 * displacement / h**4 + 7.0 * turn / h**3 - bend / h**2
    c[:, 5] = 6.0 * displacement / h**5 - 3.0 * turn / h**4 + 0.5 * bend / h**3
    return Trajectory(tuple(names), t, c)


def spline(names: Sequence[str], times: ArrayLike, positions: ArrayLike, *, at_rest: bool = True) -> Trajectory:
    """The cubic spline through points: accelerations are continuous; `at_rest` at both ends, or as smooth as inside."""
    t, q = np.asarray(times, float), np.asarray(positions, float)
    from scipy.interpolate import CubicSpline  # takes a while to import, for the few worlds with splines

    found: Any = CubicSpline(t, q, bc_type="clamped" if at_rest else "not-a-knot")
    c = np.zeros((t.size - 1, ORDER, q.shape[1]))
    for power in range(found.c.shape[0]):
        c[:, power] = found.c[found.c.shape[0] - 1 - power]
    return Trajectory(tuple(names), t, c)


def straight(names: Sequence[str], start: ArrayLike, end: ArrayLike, duration: float, *, smooth: bool) -> Trajectory:
    """The straight line from start to end (n,) in `duration` [s]: at constant speed, or smooth, from rest to rest."""
    points, rest = np.array([start, end], float), np.zeros((2, len(names)))
    return through(names, [0.0, duration], points, *((rest, rest) if smooth else ()))


def progress(part: np.ndarray) -> np.ndarray:
    """Part of the way of a smooth straight line at a part of its duration: the polynomial of `straight`."""
    return part**3 * (10.0 - 15.0 * part + 6.0 * part**2)


# Files


def _duration(value: Any) -> Any:
    """Seconds, also of a builtin_interfaces/Duration."""
    if isinstance(value, dict) and value.keys() <= {"sec", "nanosec"}:
        return float(value.get("sec", 0)) + 1e-9 * float(value.get("nanosec", 0))
    return value


class PointParameters(Parameters):
    """A point of a trajectory, with the fields of trajectory_msgs/JointTrajectoryPoint."""

    time_from_start: Annotated[float, BeforeValidator(_duration)] = quantity(
        unit="s", description="Time of the point since the start of the trajectory", ge=0.0
    )
    positions: tuple[float, ...] = quantity(description="Positions of the joints at the point [m, rad]", min_length=1)
    velocities: tuple[float, ...] = quantity((), description="Velocities of the joints; left out: see the trajectory")
    accelerations: tuple[float, ...] = quantity(
        (), description="Accelerations of the joints; left out: see the trajectory"
    )
    effort: tuple[float, ...] = quantity((), description="Not used")


class JointTrajectory(Parameters):
    """The content of a file, with the fields of trajectory_msgs/JointTrajectory."""

    header: dict[str, Any] = quantity({}, description="Not used")
    joint_names: tuple[str, ...] = quantity(description="Names of the joints", min_length=1)
    points: tuple[PointParameters, ...] = quantity(description="Points in the order of their times", min_length=1)


def read(path: str | os.PathLike[str]) -> JointTrajectory:
    """The content of a trajectory file.

    Raises:
        ParameterError: it cannot be read, is no trajectory, or its times do not increase.
    """
    name = inputs.shown(os.fspath(path))
    try:
        text = inputs.read_text(path, inputs.DATA)
        document = inputs.read_json(text) if os.fspath(path).endswith(".json") else inputs.read_yaml(text)
    except inputs.InputError as error:
        raise ParameterError([f" = {name}: {error}"]) from error
    if not isinstance(document, dict):
        raise ParameterError([f" = {name}: must be a mapping of keys to values, joint_names and points"])
    try:
        found = JointTrajectory.model_validate(document)
    except ValidationError as error:
        raise ParameterError(explain(error, JointTrajectory, f" = {name}: ")[:1]) from error
    if problem := point_problem(found.points, len(found.joint_names)):
        raise ParameterError([f" = {name}: {problem}"])
    return found


def point_problem(points: Sequence[PointParameters], count: int) -> str:
    """Error text for the points of `count` joints; empty if they are valid."""
    first = points[0]
    for i, point in enumerate(points):
        if i and not point.time_from_start > points[i - 1].time_from_start:
            return (
                f"points[{i}].time_from_start = {point.time_from_start:g} s: must be later than the point before, "
                f"{points[i - 1].time_from_start:g} s"
            )
        for key in ("positions", "velocities", "accelerations"):
            size = len(getattr(point, key))
            if size != count and (key == "positions" or size):
                return f"points[{i}].{key}: has {size} values: must have {count}, one for each joint"
            if bool(size) != bool(len(getattr(first, key))):
                return f"points[{i}].{key}: must be given at all points or at none"
        if point.accelerations and not point.velocities:
            return f"points[{i}].accelerations: need velocities, too"
    return ""


def document(names: Sequence[str], times: np.ndarray, *parts: np.ndarray) -> dict[str, Any]:
    """The content of a trajectory file: positions, velocities and accelerations (k, n) at times (k,)."""
    keys = ("positions", "velocities", "accelerations")[: len(parts)]
    points = [
        {**{key: part[i].tolist() for key, part in zip(keys, parts, strict=True)}, "time_from_start": float(time)}
        for i, time in enumerate(times)
    ]
    return {"joint_names": list(names), "points": points}


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write what `document` made, a point a line, as JSON, which is YAML too."""
    points = ",\n".join(f"  {json.dumps(point)}" for point in content["points"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"joint_names": {json.dumps(content["joint_names"])},\n"points": [\n{points}\n]}}\n')
