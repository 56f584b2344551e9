"""A mug that is hung on a hook by its handle: shapes with openings, felt as convex pieces.

Beyond the sources. Where the mug comes to rest follows from the two shapes alone, so that the error of their convex
pieces is felt, and no more than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import PASSIVE
from haptic_sim.geometry.generate import numbers_of
from haptic_sim.geometry.shapes import GeneratedParameters
from haptic_sim.worlds.parameters import FreeBodyParameters, WorldParameters
from haptic_view.figures import BLACK, BLUE, VERMILION, Axis, Figure, Line, Style, draw, thin

MUG, HOOK = "mug", "hook"
DOWN = 1e-4  # [m] by which the mug has been lowered when it counts as being so
scene_of = partial(scene_as, kind=WorldParameters)

THROUGH = Statement(
    "through",
    "The opening of the handle goes over the hook without touching it",
    "geometry",
    Quantity("ticks in contact before the mug is lowered"),
    of=lambda case: {"touching": case.touching, "travel [mm]": 1e3 * case.travel},
    holds=lambda m: m["touching"] == 0,
)
HANGS = Statement(
    "hangs",
    "The handle comes to rest on the rod where the shapes say, but for the errors of their pieces and the depth F / K "
    "of the contact",
    "geometry",
    Quantity("descent of the mug to the rod", "mm", 1e3),
    of=lambda case: {"mug": case.fall, "shapes": case.clearance, "allowed": case.allowed},
    holds=lambda m: abs(m["mug"] - m["shapes"]) <= m["allowed"],
    when=lambda case: case.rests,
)


METRICS = {
    "fall": Quantity("Descent of the mug to the rod", "mm", 1e3, of=lambda case: case.fall),
    "clearance": Quantity("Distance of handle and rod by the shapes", "mm", 1e3, of=lambda case: case.clearance),
    "pieces_error": Quantity("Errors of the convex pieces together", "mm", 1e3, of=lambda case: case.errors),
    "max_force": Quantity(
        "Largest force on the mug",
        "N",
        of=lambda case: np.linalg.norm(case.samples.wrench("env")[:, :3], axis=1).max(),
    ),
}


@dataclass(frozen=True)
class Hanging:
    """A trial with what the shapes say of it.

    Attributes:
        clearance: between handle and rod at the start, along z [m].
        errors: of the pieces of both shapes together [m].
    """

    trial: Trial
    samples: Samples
    clearance: float
    errors: float

    @classmethod
    def of(cls, trial: Trial, samples: Samples) -> Hanging:
        mug, hook = (_numbers(trial.experiment, name) for name in (MUG, HOOK))
        # the handle is up: the side of its tube that is turned to the mug is this high over the mug's axis
        inner = mug["radius"] * np.cos(2.0 * np.pi / mug["sides"]) + mug["reach"] - mug["handle"]
        body = scene_of(trial.experiment).bodies[MUG]
        assert isinstance(body, FreeBodyParameters)  # `lacking` has looked
        height = body.position[2] + inner
        errors = sum(mesh["error"] or 0.0 for mesh in trial.meshes)
        return cls(trial, samples, float(height - hook["rod"]), float(errors))

    @property
    def down(self) -> np.ndarray:
        """Downward displacement of the mug from its start [m] (rows,)."""
        z = self.samples["tool_pz"]
        return np.asarray(z[0] - z)

    @property
    def lowered(self) -> np.ndarray:
        """Rows from which on the hand lowers the mug."""
        asked = self.trial.experiment.operator.path  # type: ignore[attr-defined]
        begins = next(point[0] for point, after in pairwise(asked) if after[3] < point[3])
        rows: np.ndarray = self.samples["time"] >= begins
        return rows

    @property
    def touching(self) -> int:
        """Number of ticks in contact before the mug is lowered."""
        return int(np.count_nonzero(self.samples["contacts"][~self.lowered]))

    @property
    def travel(self) -> float:
        """Travel of the mug along the hook before it is lowered [m]."""
        x = self.samples["tool_px"][~self.lowered]
        return float(x[0] - x[-1]) if x.size else 0.0

    @property
    def force(self) -> float:
        """Upward force on the mug at the end [N]."""
        return float(self.samples["env_fz"][-1])

    @property
    def fall(self) -> float:
        """Downward displacement of the mug at the end [m]."""
        return float(self.down[-1])

    @property
    def allowed(self) -> float:
        """Deviation from the shapes that errors of the meshes and the penetration depth explain [m]."""
        return self.errors + abs(self.force) / float(self.trial.experiment.contact.stiffness)

    @property
    def rests(self) -> bool:
        """Whether the trial goes on until the mug is pressed down."""
        return bool(self.samples["time"][-1] >= self.trial.experiment.operator.path[-1][0])  # type: ignore[attr-defined]


def _numbers(experiment: Experiment, body: str) -> dict[str, float]:
    """The numbers of the generated shape of a body.

    Raises:
        KeyError: it has none.
    """
    found = scene_of(experiment).bodies[body]
    if body == MUG and not isinstance(found, FreeBodyParameters):
        raise KeyError(body)
    for shape in found.shapes:
        if isinstance(shape, GeneratedParameters) and shape.shape == body:
            return numbers_of(shape.shape) | shape.numbers
    raise KeyError(body)


class MugOnHook(Analysis):
    SCENES = ("world",)
    METRICS = METRICS
    CLAIMS = (THROUGH, HANGS, PASSIVE)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        try:
            _numbers(experiment, MUG), _numbers(experiment, HOOK)
        except KeyError as error:
            yield f"a body {error.args[0]} with the generated shape of that name"
        if experiment.standalone or not hasattr(experiment.operator, "path"):
            yield "a device, and an operator of type arm"

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Hanging:
        return Hanging.of(trial, samples)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        case, time = Hanging.of(trial, samples), samples["time"]
        lines: Sequence[Line] = [
            Line(*thin(time, 1e3 * case.down), "mug", Style(BLUE)),
            Line(time[[0, -1]], np.full(2, 1e3 * case.clearance), "rod, by the shapes", Style(BLACK, (4, 2))),
        ]
        panels = [
            draw("down", "(a) descent of the mug", lines, "time [s]", "descent [mm]"),
            draw(
                "rod",
                "(b) force of the hook",
                [Line(*thin(time, samples["env_fz"]), "upwards", Style(VERMILION))],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
        ]
        text = (
            "The mug is lowered until its handle rests on the rod, and is pressed down. It stops where the shapes say, "
            "but for the errors of their convex pieces and the depth of the contact."
        )
        return [Figure("Mug on hook", text, panels), *super().figures(trial, samples, findings)]


ANALYSIS = MugOnHook()
