"""A ball that is pushed over the floor: what the hand feels of the floor through the ball (IGMS V, its future work).

With mass m, radius r, inertia 2/5 m r^2, friction mu, pushed at the height of its centre by a force F without friction:
while it rolls F = 7/5 m a, of which the floor's friction is 2/7 F; so it rolls up to F = 7/2 mu m g. While it slides
F = m a + mu m g. Left alone with the speed v and the rate w, it slides for (v - r w) / (7/2 mu g), and then rolls with
(5 v + 2 r w) / 7.
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
from haptic_view.figures import BLACK, BLUE, GREEN, VERMILION, Axis, Figure, Line, Style, draw, thin

BALL, FLOOR = "ball", "floor"
FELT = 0.02  # [N] least force of a push
SLIDES = 1e-3  # [m/s] of the ball's lowest point; it rolls below a hundredth of that
PART = 0.02  # of a closed form, by which what is felt may differ
EXACT = 2e-3  # of a closed form of the ball's motion
ENOUGH, SETTLE = 50, 20  # ticks

ROLLING = Statement(
    "rolling_mass",
    "While the ball rolls the hand feels 7/5 of its mass",
    "closed form; IGMS V",
    Quantity("felt mass [kg]"),
)
SLIDING = Statement(
    "sliding_mass",
    "While the ball slides the hand feels its mass and the friction of the floor",
    "closed form; IGMS V",
    Quantity("felt mass [kg] and friction [N]"),
)
ONSET = Statement(
    "slip_begins",
    "The ball begins to slide when the hand feels 7/2 of the largest friction",
    "closed form; IGMS V",
    Quantity("force that the device renders [N]"),
)
ROLLS_AGAIN = Statement(
    "rolls_again",
    "A ball that is left sliding rolls in the end, with 5/7 of its speed and 2/7 of that of its surface",
    "closed form; IGMS V",
    Quantity("speed [m/s] and time [s]"),
)


@dataclass(frozen=True)
class Ball:
    """The ball of a trial (rows of the samples).

    Attributes:
        mass: [kg]; radius: [m]; friction: of the floor; weight: [N].
        speed: along x [m/s]; surface: speed of its surface by its rotation [m/s]; (rows,).
    """

    mass: float
    radius: float
    friction: float
    weight: float
    speed: np.ndarray
    surface: np.ndarray

    @property
    def slip(self) -> np.ndarray:
        """Velocity of its lowest point [m/s]."""
        found: np.ndarray = self.speed - self.surface
        return found


def ball_of(trial: Trial, samples: Samples) -> Ball:
    """The ball of a trial that `RollingTouch.check` has accepted."""
    world, contact = trial.world, trial.experiment.contact
    model = world.model
    joint = model.getJointId(BALL)
    v, q = int(model.idx_vs[joint]), int(model.idx_qs[joint])
    (shape,) = scene_as(trial.experiment, WorldParameters).bodies[BALL].shapes
    assert isinstance(shape, SphereParameters)
    friction = world.materials(contact.restitution, (contact.friction.static, contact.friction.kinetic)).friction
    pair = next(i for i, names in enumerate(world.touching) if set(names) == {BALL, FLOOR})
    mass = float(model.inertias[joint].mass)
    turns = np.stack([samples[f"q{q + i}"] for i in range(3, 7)], axis=-1)
    rate = np.stack([samples[f"v{v + i}"] for i in range(3, 6)], axis=-1)
    return Ball(
        mass,
        shape.radius,
        float(friction[pair, 1]),
        mass * float(-model.gravity.linear[2]),
        samples[f"v{v}"],
        shape.radius * _about_y(turns, rate),
    )


def _about_y(turns: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """World component about y of angular velocities in the axes of bodies with orientations x y z w, (rows,)."""
    x, y, z, w = turns.T
    row = np.stack([2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)], axis=-1)
    found: np.ndarray = np.sum(row * rate, axis=-1)
    return found


class RollingTouch(Analysis):
    METRICS: ClassVar = {
        "felt_rolling_mass": Quantity("Mass that the hand feels while the ball rolls", "kg"),
        "felt_sliding_mass": Quantity("Mass that the hand feels while the ball slides", "kg"),
        "felt_friction": Quantity("Friction that the hand feels while the ball slides", "N"),
        "onset_force": Quantity("Force that the device renders when the ball begins to slide", "N"),
        "rolling_speed": Quantity("Speed with which the ball rolls in the end", "m/s"),
        "sliding_time": Quantity("Time for which the ball slides after the hand has let go", "s"),
    }
    CLAIMS = (ROLLING, SLIDING, ONSET, ROLLS_AGAIN)
    SCENES = ("world",)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        bodies = scene_as(experiment, WorldParameters).bodies
        ball = bodies.get(BALL)
        round_one = isinstance(ball, FreeBodyParameters) and [shape.type for shape in ball.shapes] == ["sphere"]
        if not (round_one and FLOOR in bodies) or experiment.standalone or experiment.asynchronous:
            yield "a free ball, a floor, a device, and an environment without a local model"

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        ball, rate = ball_of(trial, samples), trial.experiment.rate
        felt, bend = -samples["rendered_fx"][:-1], rate * np.diff(samples["hand_vx"])
        pushed, slip = _settled(felt > FELT), np.abs(ball.slip[:-1])
        rolls, slides = pushed & (slip < 0.01 * SLIDES), pushed & (slip > SLIDES)
        metrics: dict[str, float | None] = dict.fromkeys(self.METRICS)
        claims: list[Claim] = []
        if rolls.sum() >= ENOUGH:
            metrics["felt_rolling_mass"] = float(felt[rolls] @ bend[rolls] / (bend[rolls] @ bend[rolls]))
        claims.append(_near(ROLLING, {"mass": metrics["felt_rolling_mass"]}, {"mass": 1.4 * ball.mass}))
        if slides.sum() >= ENOUGH:
            table = np.stack([bend[slides], np.ones(int(slides.sum()))], axis=-1)
            mass, friction = np.linalg.lstsq(table, felt[slides], rcond=None)[0].tolist()
            metrics["felt_sliding_mass"], metrics["felt_friction"] = mass, friction
        claims.append(
            _near(
                SLIDING,
                {"mass": metrics["felt_sliding_mass"], "friction": metrics["felt_friction"]},
                {"mass": ball.mass, "friction": ball.friction * ball.weight},
            )
        )
        rolled = np.flatnonzero(rolls)
        begins = np.flatnonzero(pushed & (slip > 0.01 * SLIDES))
        begins = begins[begins > rolled[0]] if rolled.size else begins[:0]
        if begins.size:
            metrics["onset_force"] = float(felt[begins[0] - 1])
        claims.append(_near(ONSET, {"force": metrics["onset_force"]}, {"force": 3.5 * ball.friction * ball.weight}))
        claims.append(self._rolls_again(trial, samples, ball, pushed, metrics))
        return Findings(metrics, claims)

    def _rolls_again(
        self, trial: Trial, samples: Samples, ball: Ball, pushed: np.ndarray, metrics: dict[str, float | None]
    ) -> Claim:
        last = int(np.flatnonzero(pushed)[-1]) + 2 if pushed.any() else len(samples)
        after = ball.slip[last:]
        stops = np.flatnonzero(np.abs(after) < 0.01 * SLIDES)
        if not after.size or after[0] < SLIDES or not stops.size:
            return ROLLS_AGAIN.judged({"speed": None, "time": None}, None)
        first = int(stops[0])
        # after it has rolled it goes on to do so: what it does in the end counts
        speed, time = float(ball.speed[-1]), first / trial.experiment.rate
        metrics["rolling_speed"], metrics["sliding_time"] = speed, time
        v, w, gravity = float(ball.speed[last]), float(ball.surface[last]), ball.weight / ball.mass
        wanted_speed, wanted_time = (5.0 * v + 2.0 * w) / 7.0, (v - w) / (3.5 * ball.friction * gravity)
        holds = abs(speed - wanted_speed) <= EXACT * wanted_speed and abs(time - wanted_time) <= (
            2.0 / trial.experiment.rate + EXACT * wanted_time
        )
        holds = holds and abs(float(after[-1])) < 0.01 * SLIDES
        numbers = {"speed": speed, "expected speed": wanted_speed, "time": time, "expected time": wanted_time}
        return ROLLS_AGAIN.judged(numbers, holds)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        ball, time = ball_of(trial, samples), samples["time"]
        felt, bend = -samples["rendered_fx"][:-1], trial.experiment.rate * np.diff(samples["hand_vx"])
        pushed = _settled(felt > FELT)
        expected = np.where(
            np.abs(ball.slip[:-1]) < SLIDES, 1.4 * ball.mass * bend, ball.mass * bend + ball.friction * ball.weight
        )
        panels = [
            draw(
                "felt_force",
                "(a) force that the device renders",
                [
                    Line(
                        *thin(time[:-1], np.where(pushed, expected, np.nan)), "closed form", Style(BLACK, (5, 1.8), 2.4)
                    ),
                    Line(*thin(time[:-1], felt), "felt", Style(VERMILION)),
                ],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
            draw(
                "ball_speed",
                "(b) ball",
                [
                    Line(*thin(time, ball.speed), "speed", Style(BLUE)),
                    Line(*thin(time, ball.surface), "speed of its surface", Style(GREEN, (5, 1.8))),
                ],
                "time [s]",
                Axis("speed [m/s]", least=0.01),
            ),
        ]
        text = "The ball rolls where its speed is that of its surface. The closed form takes the hand's acceleration."
        return [Figure("Pushed ball", text, panels), *super().figures(trial, samples, findings)]


def _settled(pushed: np.ndarray) -> np.ndarray:
    """Ticks of a push that are later than its first ones, in which the tip strikes the ball."""
    found = pushed.copy()
    for ticks in range(1, SETTLE + 1):
        found[ticks:] &= pushed[:-ticks]
    found[:SETTLE] = False
    return found


def _near(statement: Statement, found: dict[str, float | None], wanted: dict[str, float]) -> Claim:
    """A claim that numbers are closed forms."""
    numbers: dict[str, float | None] = {}
    holds: bool | None = True
    for name, value in found.items():
        numbers |= {name: value, f"expected {name}": wanted[name]}
        if value is None:
            holds = None
        elif holds is not None:
            holds = holds and abs(value - wanted[name]) <= PART * abs(wanted[name])
    return statement.judged(numbers, holds)


ANALYSIS = RollingTouch()
