"""Balls that roll to a stop, and one that spins on its point, by rolling and torsional friction (`contact/moments.py`).

A ball of mass m, radius r and inertia I that rolls without slip obeys m a = -F and I a / r = F r - rho m g, with the
force F of the table and its moment rho m g against the rotation. So it slows by

    a = rho g / (r (1 + I / (m r^2)))

and stops after the time v / a and the distance v^2 / (2 a). A ball that spins about the normal slows by sigma m g / I.
Each time it is the energy of its motion that friction dissipates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.geometry.shapes import SphereParameters
from haptic_sim.worlds.parameters import FreeBodyParameters, WorldParameters
from haptic_view.figures import BLUE, GREEN, VERMILION, Axis, Figure, Line, Style, draw, thin

TABLE, ROLLING, TOP = "table", ("rubber", "felt"), "top"
COLOURS = dict(zip((*ROLLING, TOP), (BLUE, VERMILION, GREEN), strict=True))
PART = 0.01  # of a closed form
AT_REST = 1e-6  # of the first speed

DISTANCE = Statement(
    "rolls_as_far",
    "Each ball rolls as far as its coefficient of rolling friction says",
    "closed form",
    Quantity("distance [m]"),
)
RATIO = Statement(
    "as_coefficients",
    "The distances of the two balls are inversely proportional to their coefficients",
    "closed form",
    Quantity("ratio of distances"),
)
SLOWS = Statement(
    "top_slows",
    "The top slows at the rate of its torsional friction, and stops when that says",
    "closed form",
    Quantity("rate [rad/s^2] and time [s]"),
)
RESTS = Statement("rests", "All come to rest, and stay", "closed form", Quantity("speed, of the first"))
ENERGY = Statement(
    "energy",
    "Friction dissipates the energy of their motion",
    "balance of energy",
    Quantity("energy [J]"),
)


@dataclass(frozen=True)
class Ball:
    """A ball of a trial (rows of the samples).

    Attributes:
        radius: [m]; mass: [kg]; inertia: about a diameter [kg m^2]; gravity: [m/s^2].
        rolling, torsional: coefficients between it and the table [m].
        place: in the plane of the table [m], (rows, 2).
        velocity: [m/s], (rows, 3); spin: angular velocity [rad/s], (rows, 3), in the axes of the ball.
    """

    radius: float
    mass: float
    inertia: float
    gravity: float
    rolling: float
    torsional: float
    place: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray

    @property
    def deceleration(self) -> float:
        """Deceleration of a ball that rolls [m/s^2]."""
        return self.rolling * self.gravity / (self.radius * (1.0 + self.inertia / (self.mass * self.radius**2)))

    @property
    def slowing(self) -> float:
        """Angular deceleration of a ball that spins on its point [rad/s^2]."""
        return self.torsional * self.mass * self.gravity / self.inertia

    @property
    def energy(self) -> np.ndarray:
        """Kinetic energy [J], (rows,)."""
        found: np.ndarray = 0.5 * self.mass * np.sum(self.velocity**2, 1) + 0.5 * self.inertia * np.sum(self.spin**2, 1)
        return found

    @property
    def speed(self) -> np.ndarray:
        """Speed of the centre plus that of the surface about it: 0 only at rest [m/s], (rows,)."""
        found: np.ndarray = np.linalg.norm(self.velocity, axis=1) + self.radius * np.linalg.norm(self.spin, axis=1)
        return found


def balls_of(trial: Trial, samples: Samples) -> dict[str, Ball]:
    """The balls of a trial that `RollingBalls.check` has accepted, by name."""
    world, friction = trial.world, trial.experiment.contact.friction
    pairs = world.materials(0.0, (0.0, 0.0), (friction.rolling, friction.torsional)).resistance
    model, found = world.model, {}
    for name in (*ROLLING, TOP):
        joint = model.getJointId(name)
        q, v = int(model.idx_qs[joint]), int(model.idx_vs[joint])
        (shape,) = scene_as(trial.experiment, WorldParameters).bodies[name].shapes
        assert isinstance(shape, SphereParameters)
        pair = next(i for i, names in enumerate(world.touching) if set(names) == {name, TABLE})
        inertia = model.inertias[joint]
        found[name] = Ball(
            shape.radius,
            float(inertia.mass),
            float(inertia.inertia[0, 0]),
            float(-model.gravity.linear[2]),
            float(pairs[pair, 0]),
            float(pairs[pair, 1]),
            np.stack([samples[f"q{q + i}"] for i in range(2)], axis=-1),
            np.stack([samples[f"v{v + i}"] for i in range(3)], axis=-1),
            np.stack([samples[f"v{v + i}"] for i in range(3, 6)], axis=-1),
        )
    return found


class RollingBalls(Analysis):
    METRICS: ClassVar = {
        **{f"{name}_distance": Quantity(f"Distance that the ball of {name} has rolled", "m") for name in ROLLING},
        "top_rate": Quantity("Rate at which the top slows", "rad/s^2"),
        "top_time": Quantity("Time after which the top stands", "s"),
        "dissipated": Quantity("Energy that friction has dissipated", "J"),
    }
    CLAIMS = (DISTANCE, RATIO, SLOWS, RESTS, ENERGY)
    SCENES = ("world",)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        bodies = scene_as(experiment, WorldParameters).bodies
        balls = [bodies.get(name) for name in (*ROLLING, TOP)]
        free = [ball for ball in balls if isinstance(ball, FreeBodyParameters)]
        round_ones = all([shape.type for shape in ball.shapes] == ["sphere"] for ball in free)
        if not (len(free) == len(balls) and round_ones and TABLE in bodies) or experiment.asynchronous:
            yield f"free balls {', '.join(ROLLING)} and {TOP}, a {TABLE}, and no local model"

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        balls, period = balls_of(trial, samples), 1.0 / trial.experiment.rate
        claims: list[Claim] = []
        found: dict[str, float | None] = {}
        wanted: dict[str, float | None] = {}
        for name in ROLLING:
            ball = balls[name]
            v, a = float(np.linalg.norm(ball.velocity[0])), ball.deceleration
            found[name] = float(np.linalg.norm(ball.place[-1] - ball.place[0]))
            stops = a > 0.0 and v / a < float(samples["time"][-1])
            wanted[name] = v * v / (2.0 * a) if stops else None  # of the semi-implicit step h v / 2 is missing
        metrics: dict[str, float | None] = {f"{name}_distance": found[name] for name in ROLLING}
        claims.append(_near(DISTANCE, found, wanted))
        one, other = (balls[name] for name in ROLLING)
        comparable = None not in wanted.values() and np.allclose(one.velocity[0], other.velocity[0], atol=1e-12)
        ratio = found[ROLLING[0]] / found[ROLLING[1]] if found[ROLLING[1]] else None  # type: ignore[operator]
        inverse = other.deceleration / one.deceleration if comparable else None
        claims.append(_near(RATIO, {"ratio": ratio}, {"ratio": inverse}))

        top = balls[TOP]
        spin = np.abs(top.spin[:, 2])
        stands = np.flatnonzero(spin <= AT_REST * spin[0])
        ticks = int(stands[0]) if stands.size else len(spin)
        middle = max(2, ticks // 2)
        metrics["top_rate"] = rate = float((spin[0] - spin[middle - 1]) / ((middle - 1) * period))
        metrics["top_time"] = time = (ticks + 1) * period if stands.size else None
        wanted_rate = top.slowing if top.slowing > 0.0 else None
        end = float(spin[0]) / top.slowing + period if top.slowing > 0.0 else None
        claims.append(_near(SLOWS, {"rate": rate, "time": time}, {"rate": wanted_rate, "time": end}))

        last = {name: float(ball.speed[-1] / ball.speed[0]) for name, ball in balls.items()}
        claims.append(RESTS.judged(dict(last), all(value <= AT_REST for value in last.values())))
        dissipated = float(samples["energy_friction"][-1] - samples["energy_friction"][0])
        metrics["dissipated"] = dissipated
        lost = float(sum(ball.energy[0] - ball.energy[-1] for ball in balls.values()))
        claims.append(_near(ENERGY, {"energy": dissipated}, {"energy": lost}))
        return Findings(metrics, claims)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        balls, time = balls_of(trial, samples), samples["time"]
        speeds = []
        for name in ROLLING:
            speed = np.linalg.norm(balls[name].velocity, axis=1)
            form = np.maximum(speed[0] - balls[name].deceleration * (time - time[0]), 0.0)
            speeds += [
                Line(*thin(time, form), f"{name}, closed form", Style(COLOURS[name], (5, 1.8), 2.4)),
                Line(*thin(time, speed), name, Style(COLOURS[name])),
            ]
        spin = np.abs(balls[TOP].spin[:, 2])
        form = np.maximum(spin[0] - balls[TOP].slowing * (time - time[0]), 0.0)
        spins = [
            Line(*thin(time, form), "closed form", Style(COLOURS[TOP], (5, 1.8), 2.4)),
            Line(*thin(time, spin), TOP, Style(COLOURS[TOP])),
        ]
        panels = [
            draw("speed", "(a) balls", speeds, "time [s]", Axis("speed [m/s]", least=0.01)),
            draw("spin", "(b) top", spins, "time [s]", Axis("angular velocity [rad/s]", least=0.1)),
        ]
        text = "Each slows at a constant rate, and then stands."
        return [Figure("Rolling and torsional friction", text, panels), *super().figures(trial, samples, findings)]


def _near(statement: Statement, found: dict[str, float | None], wanted: dict[str, float | None]) -> Claim:
    """A claim that numbers are closed forms; undecided where one of them is not known."""
    numbers: dict[str, float | None] = {}
    holds: bool | None = True
    for name, value in found.items():
        expected = wanted[name]
        numbers |= {name: value, f"expected {name}": expected}
        if value is None or expected is None:
            holds = None
        elif holds is not None:
            holds = holds and abs(value - expected) <= PART * abs(expected)
    return statement.judged(numbers, holds)


ANALYSIS = RollingBalls()
