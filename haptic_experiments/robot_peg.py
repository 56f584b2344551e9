"""A robot arm that puts a peg into a hole by compliance: what the hand feels of misalignment and friction.

Whitney (1982) gives the forces of a peg that slides into a hole, quasi-statically, with its compliance centre at the
end of the peg, as here. Hand and arm are springs in series. At rest, after the peg has slid in:

Misaligned by e, with the radial clearance c, the peg lies at one side of the bore. The lateral force is
F_x = K (e - c), with K of hand and arm in series, and the axial one F_z = mu |F_x|.

Tilted by theta against the hole, at the depth l below the bore's edge, the end of the peg touches one side and the
bore's edge the other. The spring of the arm that turns the peg, K_t, exerts the moment M = K_t phi, where

    phi = theta - (2 c + e_1 + e_2) / l,

and e_1, e_2 are the overlaps of the two contacts. With N_1 at the end, N_2 at the edge, and F_x counted along N_1,

    F_x + N_1 - N_2 = 0                                       lateral
    M = l N_2 + mu r (N_2 - N_1)                              about the end of the peg
    F_z = mu (N_1 + N_2)                                      axial

which is Whitney's balance, solved for the friction. A contact is a ring of springs of which several points touch:
with the overlap e, point i at the angle a_i has k ((c + e) cos a_i - c) where that is positive. Their sum along the
contact is N, and friction acts on the sum of their sizes, which is a little more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from haptic_bench.analysis.base import Analysis, Case
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.matrices import matrix_of
from haptic_drivers.operators import ArmParameters
from haptic_experiments.robot_wall import (
    ENERGY_GIVEN,
    GIVEN,
    IMPEDANCE_IN_WORLD,
    NOTHING,
    energy_given,
    is_impedance_in_world,
    own_label,
    robot_of,
    with_robot,
)
from haptic_robot.engine import RobotParameters
from haptic_robot.hole import ANGLES, HoleParameters
from haptic_robot.simulated import SimulatedArm
from haptic_view.figures import Axis, Figure, Line, draw, style_of, thin

STIFFNESSES = (500.0, 2000.0, 4000.0)  # [N/m] of the arm
TURNING = (5.0, 10.0, 20.0, 40.0)  # [N m/rad] of the arm
TILT = 0.015  # [rad] of the hole, for the variants that are tilted
BESIDE = 1.5  # times width of chamfer and clearance: the misalignment that the chamfer does not take
DEEP = 0.95  # of the way that the hand is led
OUT = 0.5  # of the chamfer's depth: deeper than this the peg has begun to enter; the face itself gives way by a sixth
EXACT, ROUGH = 0.02, 0.03  # relative errors
REST = 0.05  # [s] at the end of a trial


class Geometry:
    """Geometry of the hole, and of the motion that the operator's arm commands.

    Attributes:
        axis: outward unit vector along the hole, in the axes of the base (3,).
        begun: position of the peg's end at the start, in the base (3,) [m].
        depth: commanded depth below the face, along the axis [m].
        aside: lateral misalignment of the commanded position (3,) [m].
    """

    def __init__(self, experiment: Experiment):
        robot = robot_of(experiment)
        assert isinstance(experiment.operator, ArmParameters)
        self.axis = np.array(robot.arm.hole.axis)
        self.begun = SimulatedArm(robot.arm, robot.adapter, experiment.rate).arm.pose[:3].copy()
        self.centre = np.array(robot.arm.hole.position)
        led = self.begun + np.array(experiment.operator.path[-1][1:4]) - self.centre
        self.depth = -float(led @ self.axis)
        self.aside = led - (led @ self.axis) * self.axis


def compliance(experiment: Experiment) -> np.ndarray:
    """Compliance of the operator's arm and the robot's in series (3, 3) [m/N]."""
    assert isinstance(experiment.operator, ArmParameters)
    return arm_compliance(experiment) + np.eye(3) / experiment.operator.stiffness


def arm_compliance(experiment: Experiment) -> np.ndarray:
    """Compliance of the robot arm at its tool (3, 3) [m/N]."""
    return np.asarray(np.linalg.inv(matrix_of(robot_of(experiment).arm.impedance.stiffness))[:3, :3])


def at_rest(experiment: Experiment, samples: Samples, name: str) -> np.ndarray | None:
    """Mean of three columns at the end of the trial (3,); None if the operator's arm has not come to rest by then."""
    rows = samples["time"] >= experiment.duration - REST
    assert isinstance(experiment.operator, ArmParameters)
    if not rows.any() or experiment.operator.path[-1][0] > experiment.duration - REST:
        return None
    return np.array([float(samples[f"{name}{axis}"][rows].mean()) for axis in "xyz"])


def peg_depth(experiment: Experiment, samples: Samples) -> float | None:
    """Depth of the peg's end below the face, along the hole, at rest [m].

    The arm's tool is where its spring says: at its command, the leading body, displaced by the measured force.
    """
    led, force = at_rest(experiment, samples, "tool_p"), at_rest(experiment, samples, "env_f")
    if led is None or force is None:
        return None
    geometry = Geometry(experiment)
    started = np.array([float(samples[f"tool_p{axis}"][0]) for axis in "xyz"])
    end = geometry.begun + led - started + arm_compliance(experiment) @ force
    return -float((end - geometry.centre) @ geometry.axis)


def forces(experiment: Experiment, samples: Samples) -> tuple[float, np.ndarray] | None:
    """Force of the hole on the peg at rest: out of the hole [N], and across it (3,) [N]."""
    force = at_rest(experiment, samples, "env_f")
    if force is None:
        return None
    axis = Geometry(experiment).axis
    return float(force @ axis), force - (force @ axis) * axis


def lateral_force(experiment: Experiment) -> float:
    """K (e - c) of hand and arm in series [N]."""
    aside, hole = Geometry(experiment).aside, robot_of(experiment).arm.hole
    length = float(np.linalg.norm(aside))
    if not length:
        return 0.0
    along = aside / length
    return max(0.0, length - (hole.radius - hole.peg_radius)) / float(along @ compliance(experiment) @ along)


def axial_stiffness(experiment: Experiment) -> float:
    """Stiffness of hand and arm in series along the hole [N/m]."""
    axis = Geometry(experiment).axis
    return float(1.0 / (axis @ compliance(experiment) @ axis))


def ring_forces(hole: HoleParameters, overlap: float) -> tuple[float, float]:
    """Forces of a contact of the ring [N]: along the contact, and the sum of the sizes; see the module."""
    c = hole.radius - hole.peg_radius
    sizes = hole.stiffness * np.maximum(0.0, (c + overlap) * np.cos(ANGLES) - c)
    return float(sizes @ np.cos(ANGLES)), float(sizes.sum())


def ring_overlap(hole: HoleParameters, force: float) -> float:
    """Overlap of a contact of the ring with that force along it [m]."""
    if force <= 0.0:
        return 0.0
    return float(brentq(lambda e: ring_forces(hole, e)[0] - force, 0.0, 10.0 * force / hole.stiffness, xtol=1e-12))


def two_point_force(hole: HoleParameters, turning: float, tilt: float, depth: float, lateral: float) -> float:
    """F_z of Whitney's two contacts [N]; see the module.

    Args:
        turning: K_t [N m/rad].
        tilt: theta [rad].
        depth: of the peg's end below the face [m].
        lateral: F_x, of the arm on the peg, along the normal of the contact at the peg's end [N].

    Returns 0 where the hole is wide enough for the tilt.
    """
    length, c, mu, r = depth - hole.chamfer, hole.radius - hole.peg_radius, hole.friction, hole.peg_radius

    def normals(overlaps: float) -> tuple[float, float]:
        moment = turning * (tilt - (2.0 * c + overlaps) / length)
        edge = (moment - mu * r * lateral) / length  # N_2 - N_1 = F_x
        return edge - lateral, edge

    def excess(overlaps: float) -> float:
        return overlaps - sum(ring_overlap(hole, force) for force in normals(overlaps))

    if min(normals(0.0)) <= 0.0:
        return 0.0
    overlaps = float(brentq(excess, 0.0, tilt * length, xtol=1e-12))
    sizes = (ring_forces(hole, ring_overlap(hole, force))[1] for force in normals(overlaps))
    return mu * sum(sizes)


def hole_variant(trial: Trial, stiffness: float, turning: float | None, **hole: Any) -> Trial:
    """The trial with another stiffness of the arm [N/m, N m/rad], and another hole."""
    robot = robot_of(trial.experiment)
    turns = np.diag(matrix_of(robot.arm.impedance.stiffness))[3:] if turning is None else [turning] * 3
    impedance = robot.arm.impedance.model_copy(update={"stiffness": (*[stiffness] * 3, *map(float, turns))})
    arm = robot.arm.model_copy(update={"impedance": impedance, "hole": robot.arm.hole.model_copy(update=hole)})
    return with_robot(trial, robot.model_copy(update={"arm": arm}))


def misaligned(trial: Trial) -> Trial:
    """The trial with the hole farther aside than the chamfer reaches."""
    geometry, hole = Geometry(trial.experiment), robot_of(trial.experiment).arm.hole
    wide = BESIDE * (hole.chamfer + hole.radius - hole.peg_radius)
    # the hole is where the hand leads to, less the misalignment
    centre = geometry.centre + geometry.aside - wide * geometry.aside / np.linalg.norm(geometry.aside)
    return hole_variant(trial, own_stiffness(trial.experiment), None, position=tuple(map(float, centre)))


def tilted(trial: Trial, turning: float) -> Trial:
    """The trial with the hole below the peg, tilted about y, and another rotational stiffness of the arm [N m/rad]."""
    geometry = Geometry(trial.experiment)
    return hole_variant(
        trial,
        own_stiffness(trial.experiment),
        turning,
        position=tuple(map(float, geometry.centre + geometry.aside)),
        axis=(float(np.sin(TILT)), 0.0, float(np.cos(TILT))),
    )


def own_stiffness(experiment: Experiment) -> float:
    """Stiffness of the arm along x [N/m]."""
    return float(matrix_of(robot_of(experiment).arm.impedance.stiffness)[0, 0])


def tilted_label(turning: float) -> str:
    """Name of a variant."""
    return f"tilted, {turning:g} N m/rad"


BESIDE_LABEL = "beside the chamfer"
ARMS = tuple(map(own_label, STIFFNESSES))


def _of_arms(case: Case, measure: Any) -> dict[str, float | None]:
    """A number of each run with an arm, from its experiment and samples."""
    found: dict[str, float | None] = {}
    for stiffness, name in zip(STIFFNESSES, ARMS, strict=True):
        one = hole_variant(case.trial, stiffness, None).experiment
        found[name] = measure(one, case.references[name]) if name in case.references else None
    return found


def way_in(experiment: Experiment, samples: Samples) -> float | None:
    """Depth of the peg over that which the operator's arm leads to."""
    depth = peg_depth(experiment, samples)
    return None if depth is None else depth / Geometry(experiment).depth


def beside_misalignment(experiment: Experiment, samples: Samples) -> float | None:
    """The lateral force over K (e - c), less 1."""
    felt = forces(experiment, samples)
    return None if felt is None else float(np.linalg.norm(felt[1])) / lateral_force(experiment) - 1.0


def beside_friction(experiment: Experiment, samples: Samples) -> float | None:
    """The axial force over mu times the lateral one, less 1."""
    felt = forces(experiment, samples)
    if felt is None:
        return None
    return felt[0] / (robot_of(experiment).arm.hole.friction * float(np.linalg.norm(felt[1]))) - 1.0


def beside_two_points(case: Case) -> dict[str, float | None]:
    """The axial force of the tilted runs over that of Whitney's two contacts, less 1."""
    found: dict[str, float | None] = {}
    for turning in TURNING:
        name = tilted_label(turning)
        experiment, samples = tilted(case.trial, turning).experiment, case.references.get(name)
        felt = None if samples is None else forces(experiment, samples)
        depth = None if samples is None else peg_depth(experiment, samples)
        if felt is None or depth is None:
            found[name] = None
            continue
        # the hole goes down to -x of the peg, so that the peg's end touches it at +x, and is pushed to -x
        expected = two_point_force(robot_of(experiment).arm.hole, turning, TILT, depth, float(felt[1][0]))
        found[name] = felt[0] / expected - 1.0 if expected else None
    return found


def beside_the_chamfer(case: Case) -> dict[str, float | None]:
    """Depth over that of the chamfer, and axial force over K times the way that is left, less 1."""
    experiment, samples = misaligned(case.trial).experiment, case.references.get(BESIDE_LABEL)
    felt = None if samples is None else forces(experiment, samples)
    depth = None if samples is None else peg_depth(experiment, samples)
    if felt is None or depth is None:
        return {"depth": None, "force": None}
    pressed = axial_stiffness(experiment) * Geometry(experiment).depth
    return {"depth": depth / robot_of(experiment).arm.hole.chamfer, "force": felt[0] / pressed - 1.0}


REACHES = Statement(
    "reaches_the_depth",
    f"The peg goes at least {100 * DEEP:g} % of the way that the hand is led, with each stiffness of the arm",
    "Whitney 1982; share chosen",
    Quantity("depth beside that which the hand is led to", "%", 100.0),
    f"at least {100 * DEEP:g} %",
    of=lambda case: _of_arms(case, way_in),
    holds=lambda m: min(m.values()) >= DEEP,
)
FEELS_MISALIGNMENT = Statement(
    "feels_the_misalignment",
    "At rest in the hole the lateral force is that of hand and arm as springs in series, displaced by the "
    f"misalignment less the radial clearance, to {100 * EXACT:g} %, with each stiffness of the arm",
    "springs in series",
    Quantity("lateral force beside K (e - c)", "%", 100.0),
    f"within {100 * EXACT:g} %",
    of=lambda case: _of_arms(case, beside_misalignment),
    holds=lambda m: max(map(abs, m.values())) <= EXACT,
)
FEELS_FRICTION = Statement(
    "feels_the_friction",
    f"With one contact the axial force is friction times the lateral one, to {100 * ROUGH:g} %",
    "Whitney 1982, one-point contact",
    Quantity("axial force beside mu F_x", "%", 100.0),
    f"within {100 * ROUGH:g} %",
    of=lambda case: _of_arms(case, beside_friction),
    holds=lambda m: max(map(abs, m.values())) <= ROUGH,
)
TWO_POINTS = Statement(
    "feels_two_contacts",
    f"In a hole tilted by {1e3 * TILT:g} mrad the axial force is that of two contacts, to {100 * ROUGH:g} %, with each "
    "rotational stiffness of the arm",
    "Whitney 1982, two-point contact; haptic_experiments/robot_peg.py",
    Quantity("axial force beside that of two contacts", "%", 100.0),
    f"within {100 * ROUGH:g} %",
    of=beside_two_points,
    holds=lambda m: max(map(abs, m.values())) <= ROUGH,
)
STAYS_OUT = Statement(
    "stays_out",
    f"{BESIDE:g} times as far aside as chamfer and clearance reach, the peg stays on the face, and the axial force is "
    f"that of hand and arm as springs in series, to {100 * EXACT:g} %",
    "springs in series",
    Quantity("depth beside the chamfer's; axial force beside K times the way that is left", "%", 100.0),
    f"depth at most {100 * OUT:g} %, force within {100 * EXACT:g} %",
    of=beside_the_chamfer,
    holds=lambda m: m["depth"] <= OUT and abs(m["force"]) <= EXACT,
)
GIVES_NOTHING = Statement(
    "gives_nothing",
    "The display gives the hand no energy, in the hole, tilted, and on the face",
    "passivity",
    GIVEN,
    f"at most {1e3 * NOTHING:g} mJ",
    of=lambda case: {
        name: energy_given(case.references[name]) if name in case.references else None
        for name in (*ARMS, *map(tilted_label, TURNING), BESIDE_LABEL)
    },
    holds=lambda m: max(m.values()) <= NOTHING,
)


class RobotPeg(Analysis):
    SCENES = ("world",)
    NEEDS: ClassVar = {"operator": "arm", "device": "inertial", "controller": "four_channel"}
    METRICS: ClassVar = {
        "depth": Quantity("Depth of the peg at rest", "mm", 1e3, of=lambda case: peg_depth(*case.run)),
        "lateral_force": Quantity(
            "Lateral force at rest",
            "N",
            of=lambda case: None if (felt := forces(*case.run)) is None else float(np.linalg.norm(felt[1])),
        ),
        "axial_force": Quantity(
            "Axial force at rest", "N", of=lambda case: None if (felt := forces(*case.run)) is None else felt[0]
        ),
        "expected_lateral_force": Quantity(
            "Lateral force of hand and arm as springs in series", "N", of=lambda case: lateral_force(case.run[0])
        ),
        "energy_given": ENERGY_GIVEN,
    }
    CLAIMS = (REACHES, FEELS_MISALIGNMENT, FEELS_FRICTION, TWO_POINTS, STAYS_OUT, GIVES_NOTHING)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        engine = experiment.environment.engine
        if not isinstance(engine, RobotParameters):
            yield f"environment.engine = robot, not {engine.type}"
        elif not engine.arm.hole.stiffness:
            yield "a hole, and environment.engine.arm.hole.stiffness = 0 is none"
        elif not is_impedance_in_world(engine):
            yield IMPEDANCE_IN_WORLD
        elif engine.force_scale[0] != 1.0:
            yield f"environment.engine.force_scale = 1 of forces, not {engine.force_scale[0]:g}"
        elif not Geometry(experiment).aside.any():
            yield "a hole beside where the operator's arm leads the peg"

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """Arms of other stiffnesses, tilted holes, and a hole beside the peg."""
        found = {own_label(stiffness): hole_variant(trial, stiffness, None) for stiffness in STIFFNESSES}
        found |= {tilted_label(turning): tilted(trial, turning) for turning in TURNING}
        return found | {BESIDE_LABEL: misaligned(trial)}

    def figures(self, trial: Trial, samples: Samples, findings: Any) -> list[Figure]:
        """Lateral and axial force over time."""
        made = super().figures(trial, samples, findings)
        panels = []
        for letter, names, what in (("a", ARMS, "misaligned"), ("b", tuple(map(tilted_label, TURNING)), "tilted")):
            runs = [(name, findings.references[name]) for name in names if name in findings.references]
            for column, axis in (("env_fx", "lateral"), ("env_fz", "axial")):
                lines = [Line(*thin(run["time"], run[column]), name, style_of(i)) for i, (name, run) in enumerate(runs)]
                title = f"({letter}) {what}: {axis} force"
                panels.append(draw(f"{what}_{axis}", title, lines, "time [s]", Axis("force [N]", least=1.0)))
        if not findings.references:
            return made
        caption = "Forces of the hole on the peg, as the arm's sensor measures them and the hand feels them."
        return [Figure("A peg in a hole", caption, panels), *made]


ANALYSIS = RobotPeg()
