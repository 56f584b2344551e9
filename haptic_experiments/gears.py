"""Two gears in mesh: the second one is turned by contact alone, between convex pieces of involute teeth.

Beyond the sources. The ratio of a pair of gears is that of their teeth, whatever they are like; the transmission error
is what the pieces make of the involutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.geometry.generate import numbers_of
from haptic_sim.geometry.shapes import GeneratedParameters
from haptic_sim.worlds.parameters import RevoluteBodyParameters, WorldParameters
from haptic_view.figures import BLACK, BLUE, VERMILION, Axis, Figure, Line, Style, draw, thin

BODIES = ("driver", "driven")
SETTLED = 0.5  # of the duration, from which on the gears are in steady motion
LOAD = 0.05  # of the torque: chosen
scene_of = partial(scene_as, kind=WorldParameters)

RATIO = Statement(
    "ratio",
    "The gears turn by the ratio of their teeth, to what the errors of the pieces make of the angle",
    "geometry",
    Quantity("angle of the second gear, of that of the first"),
    of=lambda case: {"gears": case.ratio, "teeth": case.teeth, "allowed": case.allowed},
    holds=lambda m: abs(m["gears"] - m["teeth"]) <= m["allowed"],
    when=lambda case: case.turned > 0.0,
)
SMOOTH = Statement(
    "smooth",
    "The transmission error at the pitch circle is at most the errors of the pieces of both gears",
    "geometry",
    Quantity("range of the transmission error", "mm", 1e3),
    of=lambda case: {"gears": case.transmission_error, "pieces": case.errors},
    holds=lambda m: m["gears"] <= m["pieces"],
    when=lambda case: case.turned > 0.0,
)
TORQUE = Statement(
    "torque",
    f"In steady motion the hand carries the load through the ratio of the teeth, to {100 * LOAD:g} %",
    "balance of work; what is allowed is chosen",
    Quantity("mean torque", "N m"),
    of=lambda case: {"hand": case.torque, "load": case.load},
    holds=lambda m: abs(m["hand"] - m["load"]) <= LOAD * abs(m["load"]),
    when=lambda case: case.turned > 0.0,
)


METRICS = {
    "ratio": Quantity("Angle of the second gear, of that of the first", of=lambda case: case.ratio),
    "transmission_error": Quantity(
        "Range of the transmission error at the pitch circle", "mm", 1e3, of=lambda case: case.transmission_error
    ),
    "pieces_error": Quantity("Errors of the convex pieces together", "mm", 1e3, of=lambda case: case.errors),
    "torque": Quantity("Mean torque of the gears on the hand", "N m", of=lambda case: case.torque),
    "turned": Quantity("Angle of the first gear in steady motion", "deg", 180.0 / np.pi, lambda case: case.turned),
}


@dataclass(frozen=True)
class Mesh:
    """A trial of two gears.

    Attributes:
        numbers: of both gears.
        errors: of their pieces together [m].
    """

    trial: Trial
    samples: Samples
    numbers: tuple[dict[str, float], dict[str, float]]
    errors: float

    @property
    def teeth(self) -> float:
        """Angle of the second gear by that of the first, as their teeth have it; it turns the other way."""
        return -self.numbers[0]["teeth"] / self.numbers[1]["teeth"]

    @property
    def rows(self) -> slice:
        """Rows in steady motion."""
        return slice(int(SETTLED * len(self.samples)), len(self.samples))

    @property
    def angles(self) -> np.ndarray:
        """Angles of both gears in steady motion [rad] (rows, 2)."""
        return np.stack([self.samples["q0"][self.rows], self.samples["q1"][self.rows]], axis=-1)

    @property
    def turned(self) -> float:
        """Angle of the first gear in steady motion [rad]."""
        return float(abs(self.angles[-1, 0] - self.angles[0, 0]))

    @property
    def ratio(self) -> float:
        """Angle of the second gear by that of the first."""
        first, second = self.angles[-1] - self.angles[0]
        return float(second / first)

    @property
    def radius(self) -> float:
        """Radius of the pitch circle of the second gear [m]."""
        return 0.5 * self.numbers[1]["module"] * self.numbers[1]["teeth"]

    @property
    def allowed(self) -> float:
        """Difference of the ratio that the errors explain."""
        return self.errors / (self.radius * self.turned)

    @property
    def transmission(self) -> np.ndarray:
        """Angle of the second gear less that by the teeth, at the pitch circle [m] (rows,)."""
        angles = self.angles
        return np.asarray(self.radius * (angles[:, 1] - self.teeth * angles[:, 0]))

    @property
    def transmission_error(self) -> float:
        """Range of that [m]."""
        return float(np.ptp(self.transmission))

    @property
    def torque(self) -> float:
        """Mean torque of the hand on the first gear about its axis, less what accelerates it [N m]."""
        return float(-self.samples["env_tz"][self.rows].mean())

    @property
    def load(self) -> float:
        """Mean torque of the load as the first gear has it [N m]."""
        driven = scene_of(self.trial.experiment).bodies[BODIES[1]]
        assert isinstance(driven, RevoluteBodyParameters)  # `lacking` has looked
        return float(driven.damping * self.samples["v1"][self.rows].mean() * self.teeth)


def _numbers(experiment: Experiment, body: str) -> dict[str, float]:
    """The numbers of the gear of a body.

    Raises:
        KeyError: it has none.
    """
    found = scene_of(experiment).bodies[body]
    for shape in found.shapes if isinstance(found, RevoluteBodyParameters) else ():
        if isinstance(shape, GeneratedParameters) and shape.shape == "gear":
            return numbers_of("gear") | shape.numbers
    raise KeyError(body)


class Gears(Analysis):
    SCENES = ("world",)
    METRICS = METRICS
    CLAIMS = (RATIO, SMOOTH, TORQUE)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        for name in BODIES:
            try:
                _numbers(experiment, name)
            except KeyError:
                yield f"a revolute body {name} with the generated shape gear"

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Mesh:
        first, second = (_numbers(trial.experiment, name) for name in BODIES)
        return Mesh(trial, samples, (first, second), sum(mesh["error"] or 0.0 for mesh in trial.meshes))

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        case, time = self.case(trial, samples, {}), samples["time"]
        panels = [
            draw(
                "angles",
                "(a) angles",
                [
                    Line(*thin(time, samples["q0"]), "driver", Style(BLUE)),
                    Line(*thin(time, samples["q1"]), "driven", Style(VERMILION)),
                    Line(*thin(time, case.teeth * samples["q0"]), "by the teeth", Style(BLACK, (4, 2))),
                ],
                "time [s]",
                "angle [rad]",
            ),
            draw(
                "transmission",
                "(b) transmission error",
                [
                    Line(
                        *thin(time[case.rows], 1e3 * (case.transmission - case.transmission.mean())),
                        "at the pitch circle",
                        Style(BLUE),
                    )
                ],
                "time [s]",
                Axis("error less its mean [mm]", least=0.01),
            ),
        ]
        text = "The second gear turns by the ratio of the teeth; the transmission error is that of the convex pieces."
        return [Figure("Gears", text, panels), *super().figures(trial, samples, findings)]


ANALYSIS = Gears()
