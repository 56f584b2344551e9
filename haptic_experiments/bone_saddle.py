"""A probe that slides over a scanned bone: 200,000 triangles, felt by a signed distance field.

Beyond the sources. The bone is generated from an implicit function (`bone_function`), so that its normals and the
distances from it are known without triangles and without a field: the nearest point of the surface is found from the
function alone, and is what the claims compare with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pinocchio as pin

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import PASSIVE, largest_force
from haptic_sim.contact_rows import ContactRows
from haptic_sim.geometry.collision.detector import CollisionDetector
from haptic_sim.geometry.collision.field_contacts import BUDGET
from haptic_sim.geometry.fields.field import gather_grids, sample
from haptic_sim.geometry.generate import BONE_LENGTH, bone_function, numbers_of
from haptic_sim.geometry.shapes import GeneratedParameters, SphereParameters
from haptic_sim.worlds.overlaps import ROWS_OF_A_PAIR
from haptic_sim.worlds.parameters import FixedBodyParameters, FreeBodyParameters, WorldParameters
from haptic_view.figures import BLACK, BLUE, GREEN, VERMILION, Axis, Figure, Line, Style, draw, thin

BONE, PROBE = "bone", "probe"
ANGLE = np.radians(5.0)  # chosen: of the force from the normal
FELT = 0.1  # [N] force from which on its direction counts
STEPS = 60  # of the search for the nearest point; each halves its error, or more
scene_of = partial(scene_as, kind=WorldParameters)

NORMAL = Statement(
    "normal",
    f"The force is along the normal of the surface that the bone is generated from, to {np.degrees(ANGLE):g} degrees",
    "gradient of the implicit function; what is allowed is chosen",
    Quantity("largest angle of the force from the gradient", "deg", 180.0 / np.pi),
    of=lambda case: {"force": case.angle, "allowed": ANGLE},
    holds=lambda m: m["force"] <= m["allowed"],
    when=lambda case: case.touching.any(),
)
DISTANCE = Statement(
    "surface",
    "Along the path the field is zero where the implicit surface is, to the accuracy of the field",
    "nearest point of the implicit surface",
    Quantity("largest distance of the field at the implicit surface", "mm", 1e3),
    of=lambda case: {"field": case.distance_error, "accuracy": case.accuracy},
    holds=lambda m: m["field"] <= m["accuracy"],
    when=lambda case: case.touching.any(),
)
ONSET = Statement(
    "onset",
    "The probe is pushed where it is in the bone, and nowhere else, to the accuracy of the field",
    "nearest point of the implicit surface",
    Quantity("largest gap with a force, and largest depth without one", "mm", 1e3),
    of=lambda case: {"gap": case.gap, "depth": case.unfelt, "accuracy": case.accuracy},
    holds=lambda m: max(m["gap"], m["depth"]) <= m["accuracy"],
    when=lambda case: case.touching.any(),
)
STEP = Statement(
    "no_step",
    "From tick to tick the force changes by no more than the motion explains: k |dx| for each contact, and it turns by "
    "|dx| / r",
    "continuity of the rows in the pose",
    Quantity("largest change of the force, of what the motion allows"),
    of=lambda case: {"force": case.step},
    holds=lambda m: m["force"] <= 1.0,
    when=lambda case: case.touching.any(),
    unless=lambda case: "a damper begins with a step" if case.trial.experiment.contact.damping else "",
)
WORK = Statement(
    "work",
    f"No detection along the path leaves out a part of the surface, nor visits more than {BUDGET} leaves of a shell",
    "bound of the work of a tick",
    Quantity("leaves of the shells"),
    of=lambda case: {"omitted": case.leaves[0], "visited": case.leaves[1], "allowed": 2 * BUDGET},
    holds=lambda m: m["omitted"] == 0 and m["visited"] <= m["allowed"],
)

METRICS = {
    "angle": Quantity("Largest angle of the force from the normal", "deg", 180.0 / np.pi, of=lambda case: case.angle),
    "distance_error": Quantity(
        "Largest distance that the field has at the implicit surface", "mm", 1e3, of=lambda case: case.distance_error
    ),
    "depth": Quantity("Largest depth of the probe", "mm", 1e3, of=lambda case: float(-case.separation.min())),
    "slid": Quantity("Path of the probe in contact", "mm", 1e3, of=lambda case: case.slid),
    "largest_force": Quantity("Largest force on the probe", "N", of=lambda case: largest_force(case.samples)),
    "visited": Quantity("Most leaves that a detection visits", of=lambda case: case.leaves[1]),
}


def nearest(points: np.ndarray, start: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """The nearest points of the implicit surface of a bone, and its outward normals there, both (N, 3).

    Each step is one of Newton's method towards the surface and one half of the way along it, which contracts as long as
    a point is closer than twice the radius of curvature where the surface is convex, and than that radius where it is
    concave.

    Args:
        points: in the bone's axes [m], (N, 3).
        start: points near those that are sought [m], (N, 3).
        length: of the bone [m].
    """
    unit = length / BONE_LENGTH
    x, p = points / unit, start / unit
    for _ in range(STEPS):
        gradient = _gradient(p)
        square = np.sum(gradient * gradient, axis=1, keepdims=True)
        p = p - bone_function(p)[:, None] * gradient / square
        off = x - p
        p = p + 0.5 * (off - np.sum(off * gradient, axis=1, keepdims=True) * gradient / square)
    gradient = _gradient(p)
    p = p - bone_function(p)[:, None] * gradient / np.sum(gradient * gradient, axis=1, keepdims=True)
    gradient = _gradient(p)
    return p * unit, gradient / np.linalg.norm(gradient, axis=1, keepdims=True)


def _gradient(p: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Gradient of the implicit function, by central differences (N, 3)."""
    steps = h * np.eye(3)
    return np.stack([(bone_function(p + d) - bone_function(p - d)) / (2.0 * h) for d in steps], axis=-1)


@dataclass(frozen=True)
class Sliding:
    """A trial of a ball on a bone.

    Attributes:
        length: of the bone [m].
        radius: of the ball [m].
    """

    trial: Trial
    samples: Samples
    length: float
    radius: float

    @property
    def _placement(self) -> pin.SE3:
        """Pose of the bone's mesh in the world."""
        body = scene_of(self.trial.experiment).bodies[BONE]
        assert isinstance(body, FixedBodyParameters)  # `lacking` has looked
        return body.pose * body.shapes[0].pose

    @cached_property
    def _in_bone(self) -> np.ndarray:
        """Centre of the ball in the bone's axes [m] (rows, 3)."""
        X_WM = self._placement
        centre = np.stack([self.samples[f"tool_p{axis}"] for axis in "xyz"], axis=-1)
        return np.asarray((centre - X_WM.translation) @ X_WM.rotation)

    @cached_property
    def _nearest(self) -> tuple[np.ndarray, np.ndarray]:
        from scipy.spatial import cKDTree

        mesh = next(one.taken for one in self.trial.world.meshes if one.body == BONE)
        _, first = cKDTree(mesh.vertices).query(self._in_bone)
        return nearest(self._in_bone, mesh.vertices[first], self.length)

    @cached_property
    def _distance(self) -> np.ndarray:
        """Signed distance of the centre from the implicit surface, negative inside [m] (rows,)."""
        p, normal = self._nearest
        return np.asarray(np.sum((self._in_bone - p) * normal, axis=1))

    @property
    def separation(self) -> np.ndarray:
        """Separation of the ball from the implicit surface, negative: depth [m] (rows,)."""
        return self._distance - self.radius

    @property
    def normals(self) -> np.ndarray:
        """Normals of the implicit surface at the nearest point, in the world (rows, 3)."""
        return np.asarray(self._nearest[1] @ self._placement.rotation.T)

    @property
    def force(self) -> np.ndarray:
        """Force of the bone on the ball [N] (rows, 3)."""
        return self.samples.wrench("env")[:, :3]

    @property
    def strength(self) -> np.ndarray:
        """Magnitude of the force of the bone on the ball [N] (rows,)."""
        return np.asarray(np.linalg.norm(self.force, axis=1))

    @property
    def touching(self) -> np.ndarray:
        """Rows in which the force is felt."""
        return self.strength > FELT

    @property
    def angles(self) -> np.ndarray:
        """Angles of the force from the normal [rad] (rows,); 0 where it is not felt."""
        across = np.linalg.norm(np.cross(self.force, self.normals), axis=1)
        along = np.sum(self.force * self.normals, axis=1)
        return np.where(self.touching, np.arctan2(across, along), 0.0)

    @property
    def angle(self) -> float:
        """The largest of these [rad]."""
        return float(self.angles.max())

    @cached_property
    def _of_field(self) -> np.ndarray:
        """Distance that the field has at the nearest points of the implicit surface [m] (rows,)."""
        shape = next(one for one in self.trial.world.meshes if one.body == BONE)
        field = shape.taken.field
        assert field is not None  # `lacking` has looked
        found = np.empty(len(self.samples))
        sample(gather_grids([field.grid]), np.ascontiguousarray(self._nearest[0]), found, np.empty((len(found), 3)))
        return found

    @property
    def distance_error(self) -> float:
        """Largest one of these in contact [m]."""
        return float(np.abs(self._of_field)[self.touching].max(initial=0.0))

    @property
    def accuracy(self) -> float:
        """Accuracy of the field [m]."""
        return float(next(one.taken.field.accuracy for one in self.trial.world.meshes if one.body == BONE))  # type: ignore[union-attr]

    @property
    def gap(self) -> float:
        """Largest distance of ball and bone with a force [m]; negative: none."""
        return float(self.separation[self.strength > 0.0].max(initial=-np.inf))

    @property
    def unfelt(self) -> float:
        """Largest depth of the ball without a force [m]; negative: none."""
        return float((-self.separation[self.strength == 0.0]).max(initial=-np.inf))

    @property
    def step(self) -> float:
        """Largest change of the force in a tick, of that which the motion allows.

        The separation of a row changes by at most |dx|; the number of rows is the larger one of both ticks, as a row
        enters without a force.
        """
        contact = self.trial.experiment.contact
        moved = np.linalg.norm(np.diff(self._in_bone, axis=0), axis=1)
        rows = np.maximum(self.samples["contacts"][1:], self.samples["contacts"][:-1])
        allowed = rows * contact.stiffness * moved
        allowed = allowed + np.maximum(self.strength[1:], self.strength[:-1]) * moved / self.radius
        change = np.linalg.norm(np.diff(self.force, axis=0), axis=1)
        found = (change > 0.0) & (allowed > 0.0)
        return float((change[found] / allowed[found]).max(initial=0.0))

    @property
    def slid(self) -> float:
        """Path in contact [m]."""
        return float(np.linalg.norm(np.diff(self._in_bone, axis=0), axis=1)[self.touching[1:]].sum())

    @cached_property
    def leaves(self) -> tuple[int, int]:
        """Leaves that detections along the path leave out in all, and most that one visits."""
        world = self.trial.world
        pairs = len(world.geometry.collisionPairs)
        detector = CollisionDetector(
            world.model, world.geometry, np.zeros(pairs), np.zeros((pairs, 2)), fields=world.solid_fields
        )
        data, rows = world.model.createData(), ContactRows(ROWS_OF_A_PAIR * pairs)
        q = world.q.copy()
        at = world.model.joints[world.model.getJointId(PROBE)].idx_q
        offset = self._in_bone - self._in_bone[0]
        offset = offset @ self._placement.rotation.T
        omitted = visited = 0
        for i, d in enumerate(offset):
            q[at : at + 3] = world.q[at : at + 3] + d
            pin.forwardKinematics(world.model, data, q)
            detector.detect(data, 0.001, rows)
            omitted += detector.omitted
            visited = max(visited, detector.visited if i else 0)  # the first one looks at everything
        return omitted, visited


def _parts(experiment: Experiment) -> Iterator[str]:
    """Bodies that are not as they must be."""
    bodies = scene_of(experiment).bodies
    bone, probe = bodies.get(BONE), bodies.get(PROBE)
    shapes = bone.shapes if isinstance(bone, FixedBodyParameters) else ()
    first = shapes[0] if shapes else None
    if not (isinstance(first, GeneratedParameters) and first.shape == BONE and first.how == "field"):
        yield "a fixed body bone with the generated shape bone as its first one, as a field"
    shapes = probe.shapes if isinstance(probe, FreeBodyParameters) else ()
    if not (len(shapes) == 1 and isinstance(shapes[0], SphereParameters)):
        yield "a free body probe with a sphere"


class BoneSaddle(Analysis):
    SCENES = ("world",)
    METRICS = METRICS
    CLAIMS = (NORMAL, DISTANCE, ONSET, STEP, WORK, PASSIVE)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        yield from _parts(experiment)
        if experiment.standalone:
            yield "a device"

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Sliding:
        bodies = scene_of(trial.experiment).bodies
        bone, ball = bodies[BONE].shapes[0], bodies[PROBE].shapes[0]
        assert isinstance(bone, GeneratedParameters) and isinstance(ball, SphereParameters)  # `lacking` has looked
        length = (numbers_of(BONE) | bone.numbers)["length"]
        return Sliding(trial, samples, length, ball.radius)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        case, time = self.case(trial, samples, {}), samples["time"]
        expected = case.normals * case.strength[:, None]
        panels = [
            draw(
                "force",
                "(a) force of the bone",
                [
                    *(
                        Line(*thin(time, case.force[:, i]), name, Style(colour))
                        for i, (name, colour) in enumerate((("x", BLUE), ("y", VERMILION), ("z", GREEN)))
                    ),
                    *(
                        Line(*thin(time, expected[:, i]), "along the gradient" if i == 0 else "", Style(BLACK, (4, 2)))
                        for i in range(3)
                    ),
                ],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
            draw(
                "angle",
                "(b) angle of the force from the gradient",
                [Line(*thin(time, np.degrees(case.angles)), "", Style(BLUE))],
                "time [s]",
                Axis("angle [deg]", least=1.0),
            ),
            draw(
                "depth",
                "(c) depth of the probe by the implicit function",
                [Line(*thin(time, np.maximum(-1e3 * case.separation, 0.0)), "", Style(VERMILION))],
                "time [s]",
                Axis("depth [mm]", least=0.1),
            ),
        ]
        text = "The probe slides over the saddle; its force is along the gradient of the function that gave the bone."
        return [Figure("Bone saddle", text, panels), *super().figures(trial, samples, findings)]


ANALYSIS = BoneSaddle()
