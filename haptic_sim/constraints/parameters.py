"""Parameters of exact constraints in worlds: the constrained bodies, the geometry, and the times of switching."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from haptic_sim.geometry.shapes import ORIGIN, Direction, Vector
from haptic_sim.parameters import Parameters, quantity

WORLD = "world"
Interval = tuple[float, float | None]


def _in_order(intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    if not intervals:
        raise ValueError(": needs at least one interval; leave it out for a constraint that always holds")
    before = -math.inf
    for i, (on, off) in enumerate(intervals):
        if not on >= 0.0:
            raise ValueError(f"[{i}][0] = {on:g} s: must be >= 0 s")
        if not on > before:
            raise ValueError(f"[{i}][0] = {on:g} s: must be after the interval before, which ends at {before:g} s")
        if off is not None and not off > on:
            raise ValueError(f"[{i}][1] = {off:g} s: must be after its beginning at {on:g} s")
        before = math.inf if off is None else off
    return intervals


def _coefficients(sums: dict[str, float]) -> dict[str, float]:
    for name, factor in sums.items():
        if factor == 0.0:
            raise ValueError(f".{name} = 0: must not be 0")
    return sums


class _Constraint(Parameters):
    """Keys common to all constraints."""

    active: Annotated[tuple[Interval, ...], AfterValidator(_in_order)] | None = quantity(
        None,
        unit="s",
        description="Intervals [from, to] in which it is active, to = null: until the end; left out: always",
    )
    fade: float = quantity(
        0.3, unit="s", description="Duration of switching the constraint on or off", ge=1e-3, le=100.0
    )

    @model_validator(mode="after")
    def _time_to_fade(self) -> Any:
        intervals = self.active or ()
        for i in range(1, len(intervals)):
            ends = intervals[i - 1][1]
            if ends is not None and intervals[i][0] - ends < self.fade:
                raise ValueError(
                    f".active[{i}][0] = {intervals[i][0]:g} s: must be at least fade = {self.fade:g} s after the end "
                    "of the interval before"
                )
        return self


class _WorldConstraint(_Constraint):
    """A constraint of the relative pose of two bodies."""

    body: str = quantity(description="Body that is constrained: NAME, or FILE/LINK")
    to: str = quantity(WORLD, description="Body to which it is constrained: world, or NAME, or FILE/LINK")


class _WithPoint(_WorldConstraint):
    at: Vector = quantity(ORIGIN, unit="m", description="Constrained point of the body, in the axes of the body")


class PointOnPlaneParameters(_WithPoint):
    """A point of the body stays on a plane."""

    type: Literal["point_on_plane"] = "point_on_plane"
    normal: Direction = quantity(description="Normal of the plane, of any length, in the axes of `to`")
    point: Vector = quantity(ORIGIN, unit="m", description="A point of the plane, in the axes of `to`")


class PointOnSphereParameters(_WithPoint):
    """A point of the body keeps its distance from a point, as on a rod with two ball joints."""

    type: Literal["point_on_sphere"] = "point_on_sphere"
    centre: Vector = quantity(ORIGIN, unit="m", description="Centre of the sphere, in the axes of `to`")
    radius: float = quantity(unit="m", description="Radius of the sphere", gt=0.0, le=1e3)


class PointFixedParameters(_WithPoint):
    """A point of the body stays where it is, as in a ball joint."""

    type: Literal["point_fixed"] = "point_fixed"
    point: Vector = quantity(ORIGIN, unit="m", description="Position at which the point stays, in the axes of `to`")


class PointOnLineParameters(_WithPoint):
    """A point of the body stays on a straight line."""

    type: Literal["point_on_line"] = "point_on_line"
    direction: Direction = quantity(description="Direction of the line, of any length, in the axes of `to`")
    point: Vector = quantity(ORIGIN, unit="m", description="A point of the line, in the axes of `to`")


class PointOnCircleParameters(_WithPoint):
    """A point of the body stays on a circle."""

    type: Literal["point_on_circle"] = "point_on_circle"
    centre: Vector = quantity(ORIGIN, unit="m", description="Centre of the circle, in the axes of `to`")
    normal: Direction = quantity((0.0, 0.0, 1.0), description="Normal of the circle's plane, in the axes of `to`")
    radius: float = quantity(unit="m", description="Radius of the circle", gt=0.0, le=1e3)


class AxisAlongParameters(_WorldConstraint):
    """An axis of the body keeps its direction: it stays upright, say."""

    type: Literal["axis_along"] = "axis_along"
    axis: Direction = quantity(description="Constrained direction, in the axes of the body")
    direction: Direction = quantity(description="Direction that the axis keeps, in the axes of `to`")


class FrameOnFrameParameters(_WithPoint):
    """A frame of the body stays on a frame, as if welded."""

    type: Literal["frame_on_frame"] = "frame_on_frame"
    rotation: Vector = quantity(ORIGIN, unit="rad", description="Roll, pitch, yaw of the frame in the body's axes")
    point: Vector = quantity(ORIGIN, unit="m", description="Origin of the other frame, in the axes of `to`")
    point_rotation: Vector = quantity(
        ORIGIN, unit="rad", description="Roll, pitch, yaw of the other frame in the axes of `to`"
    )


class AxisThroughPointParameters(_WithPoint):
    """A straight line of the body passes through a point: a shaft through a trocar."""

    type: Literal["axis_through_point"] = "axis_through_point"
    axis: Direction = quantity(description="Direction of the line through `at`, in the body's axes")
    point: Vector = quantity(ORIGIN, unit="m", description="Point that the axis passes through, in the axes of `to`")


class KnifeEdgeParameters(_WithPoint):
    """A point of the body does not move sideways, as on a blade or a wheel (nonholonomic)."""

    type: Literal["knife_edge"] = "knife_edge"
    sideways: Direction = quantity(description="Direction in which the point does not move, in the axes of the body")


class RollingBallParameters(_WithPoint):
    """A ball of the body, with its centre at `at`, rolls on a plane without slipping (nonholonomic)."""

    type: Literal["rolling_ball"] = "rolling_ball"
    radius: float = quantity(unit="m", description="Radius of the ball", gt=0.0, le=1e3)
    normal: Direction = quantity((0.0, 0.0, 1.0), description="Normal of the plane, in the axes of `to`")
    point: Vector = quantity(ORIGIN, unit="m", description="A point of the plane, in the axes of `to`")


class JointCouplingParameters(_Constraint):
    """Positions of joints follow those of others: the sum of `joints` is a polynomial of that of `to`."""

    type: Literal["joint_coupling"] = "joint_coupling"
    joints: Annotated[dict[str, float], AfterValidator(_coefficients)] = quantity(
        unit="rad, m",
        description="Hinges and slides, BODY or FILE/JOINT, with the factor of the position of each in the sum that "
        "follows, as {left: 1}",
    )
    to: Annotated[dict[str, float], AfterValidator(_coefficients)] = quantity(
        {}, unit="rad, m", description="The same of the sum that is followed; left out: the first sum is constant"
    )
    polynomial: tuple[float, ...] = quantity(
        (0.0, 1.0),
        description="Coefficients of the polynomial of the sum that is followed, the constant one first",
        min_length=1,
        max_length=5,
    )


AnyWorldConstraintParameters = Annotated[
    PointOnPlaneParameters
    | PointOnSphereParameters
    | PointFixedParameters
    | PointOnLineParameters
    | PointOnCircleParameters
    | AxisAlongParameters
    | FrameOnFrameParameters
    | AxisThroughPointParameters
    | KnifeEdgeParameters
    | RollingBallParameters
    | JointCouplingParameters,
    Field(discriminator="type"),
]
