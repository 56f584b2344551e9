"""Parameters of motions and of pulls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from haptic_sim.geometry.shapes import Vector
from haptic_sim.motions.trajectory import PointParameters
from haptic_sim.parameters import Parameters, quantity


class _Timed(Parameters):
    duration: float = quantity(unit="s", description="Duration of the motion", gt=0.0, le=1e5)
    profile: Literal["smooth", "constant"] = quantity(
        "smooth",
        description="Speed along the path. smooth: from rest to rest, by a polynomial of fifth degree; constant: the "
        "same all the time",
    )


class JointLineParameters(_Timed):
    """A straight line in the coordinates of the joints, from where they start."""

    type: Literal["joint_line"] = "joint_line"
    to: tuple[float, ...] = quantity(
        description="Coordinates at the end, in the order of the joints: m, rad; of a free body x, y, z and a "
        "quaternion x y z w",
        min_length=1,
    )


class CartesianLineParameters(_Timed):
    """A straight line of a point of a body in space, by inverse kinematics from where the joints start."""

    type: Literal["cartesian_line"] = "cartesian_line"
    body: str = quantity(description="Body that moves along the line: NAME, or FILE/LINK")
    point: Vector = quantity(
        (0.0, 0.0, 0.0), unit="m", description="Point that moves along the line, in the body's axes"
    )
    to: Vector | None = quantity(None, unit="m", description="Position at the end")
    by: Vector | None = quantity(None, unit="m", description="Displacement, instead of the position at the end")
    rotation: Literal["keep", "free"] = quantity(
        "keep", description="Orientation of the body. keep: as at the start; free: whatever the joints make of it"
    )

    @model_validator(mode="after")
    def _one_end(self) -> Any:
        if (self.to is None) == (self.by is None):
            raise ValueError(".to: give either to or by")
        return self


class SplineParameters(Parameters):
    """A cubic spline through points in the coordinates of the joints, from rest to rest."""

    type: Literal["spline"] = "spline"
    points: tuple[PointParameters, ...] = quantity(
        description="Points of the spline: time_from_start and positions; a first point later than 0 is preceded by "
        "the start",
        min_length=1,
    )


class FileTrajectoryParameters(Parameters):
    """A trajectory from a file with the fields of trajectory_msgs/JointTrajectory."""

    type: Literal["file"] = "file"
    path: str = quantity(
        description="Trajectory file (.yaml or .json), in the working directory or in the experiment's folder"
    )


AnyTrajectoryParameters = Annotated[
    JointLineParameters | CartesianLineParameters | SplineParameters | FileTrajectoryParameters,
    Field(discriminator="type"),
]


def _not_negative(values: tuple[float, ...]) -> tuple[float, ...]:
    for i, value in enumerate(values):
        if not value >= 0.0:
            raise ValueError(f"[{i}] = {value:g}: must be >= 0")
    return values


JointGains = Annotated[tuple[float, ...], AfterValidator(_not_negative)]


class ComputedTorqueParameters(Parameters):
    """Inverse dynamics of the trajectory's acceleration and of a feedback (Craig, Introduction to Robotics, 10.4)."""

    type: Literal["computed_torque"] = "computed_torque"
    stiffness: float = quantity(
        400.0, unit="1/s^2", description="Acceleration for an error of position, by that error", ge=0.0, le=1e8
    )
    damping: float = quantity(
        40.0, unit="1/s", description="Acceleration for an error of velocity, by that error", ge=0.0, le=1e4
    )


class ProportionalDerivativeParameters(Parameters):
    """A spring and a damper at each joint."""

    type: Literal["pd"] = "pd"
    stiffness: JointGains = quantity(
        description="Stiffness of each velocity coordinate (N m/rad, N/m), or one for all", min_length=1
    )
    damping: JointGains = quantity(
        description="Damping of each velocity coordinate (N m s/rad, N s/m), or one for all", min_length=1
    )
    gravity: bool = quantity(True, description="Whether the weight is balanced")


AnyTrackingParameters = Annotated[
    ComputedTorqueParameters | ProportionalDerivativeParameters, Field(discriminator="type")
]


class MotionParameters(Parameters):
    """A trajectory that bodies of a world follow by forces at their joints."""

    of: str = quantity(description="Body that moves, with all that is connected with it, or a file of the world")
    joints: tuple[str, ...] = quantity(
        (), description="Joints that are driven, the others move freely; left out: all joints, and the free base"
    )
    trajectory: AnyTrajectoryParameters = quantity(description="The trajectory")
    tracking: AnyTrackingParameters = quantity(
        ComputedTorqueParameters(), description="Control law of the forces at the joints"
    )
    effort: JointGains | None = quantity(
        None,
        unit="N m, N",
        description="Largest force of each drive, in the order of the velocities, or one for all; null: those of the "
        "file's joints, where it has some, else without a bound",
        min_length=1,
    )
    after_touch: Literal["return", "keep"] = quantity(
        "return",
        description="Motion after a touch or pull of the tool. return: it goes on to follow its trajectory; "
        "keep: from the first touch on, it has the acceleration that the last touch left (IGMS IV-A)",
    )


def _in_turn(grabs: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    for i, (begin, end) in enumerate(grabs):
        before = grabs[i - 1][1] if i else 0.0
        if not (begin >= before and end > begin):
            raise ValueError(
                f"[{i}] = [{begin:g}, {end:g}] s: must end after it begins, and begin after the one before"
            )
    return grabs


class PullParameters(Parameters):
    """A spring and a damper between a grabbed point of a body and the tool's hand point (IGMS 4)."""

    body: str = quantity(description="Body that is grabbed: NAME, or FILE/LINK")
    point: Vector | None = quantity(
        None,
        unit="m",
        description="Point that is grabbed, in the body's axes; left out: where the hand is when it grabs",
    )
    grabs: Annotated[tuple[tuple[float, float], ...], AfterValidator(_in_turn)] = quantity(
        unit="s", description="Times at which the hand grabs and lets go, in pairs"
    )
    stiffness: float = quantity(unit="N/m", description="Stiffness of the grip", ge=0.0, le=1e6)
    damping: float = quantity(0.0, unit="N s/m", description="Damping of the grip", ge=0.0, le=1e5)
    turn_stiffness: float = quantity(
        0.0, unit="N m/rad", description="Rotational stiffness of the grip, from the orientation when it grabs", ge=0.0
    )
    turn_damping: float = quantity(0.0, unit="N m s/rad", description="Rotational damping of the grip", ge=0.0)
