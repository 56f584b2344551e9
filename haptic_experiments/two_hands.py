"""Two hands that lift a body between their tools by friction, and carry it: what each feels of the other.

THESIS 7.2 names cooperation as an application and has no experiment of it. Everything is judged by what the devices
render, by the laws of Newton: the body between the hands has no other support while it is aloft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.operators import ArmParameters
from haptic_sim.worlds.parameters import WorldParameters
from haptic_sim.worlds.world_setup import WorldSetup
from haptic_view.figures import BLACK, BLUE, VERMILION, Figure, Line, Style, draw, thin

ALOFT = 5e-3  # [m] higher than at the start
STEADY = 0.01  # [m/s] slower than this the body is held still
LIFTED = 0.05  # [m] at least
ALONG = 5e-3  # [m] farther than this the body is not where the hands carry it
PART = 0.02  # of a force, by which what is felt may differ
ROUNDING = 1e-9  # [N]
AWAY = 0.1  # [m] to where the second hand is taken for comparison

FORCE = Quantity("force", "N")
CARRIED = Statement(
    "carried",
    f"The hands lift the body by {1e3 * LIFTED:g} mm or more, and it goes where they go, to {1e3 * ALONG:g} mm",
    "THESIS 7.2",
    Quantity("rise of the body, and distance of its way from that of the hands", "mm", 1e3),
)
WEIGHT = Statement(
    "weight",
    "While it is held still, both hands together feel the weight of the body, and half of that of their tools, to "
    f"{100 * PART:g} %",
    "statics; a tool as heavy as its device is held by its hand and by the coupling in equal parts",
    Quantity("vertical force that is felt", "N"),
)
OPPOSITE = Statement(
    "opposite",
    f"Then each hand feels the pressure of the other: across, their forces are opposite, to {100 * PART:g} %",
    "Newton's third law",
    Quantity("force across that is felt", "N"),
)
MOMENTUM = Statement(
    "momentum",
    "In each step in which it is aloft the momentum of the body changes by its weight and what the tools get, reversed",
    "Newton's second and third law",
    Quantity("largest difference", "N"),
)
BOTH = Statement(
    "takes_both",
    f"It takes both: without the second hand the body rises less than {1e3 * ALOFT:g} mm",
    "",
    Quantity("rise of the body", "mm", 1e3),
)


@dataclass(frozen=True)
class Carried:
    """Body that two hands hold between their tools (rows of the samples).

    Attributes:
        mass: of the body [kg]; weight: its own and half of the tools' [N].
        place: position of its center of mass [m], (rows, 3); velocity: of that point [m/s], (rows, 3).
        across: unit vector from the first tool to the second at the start, (3,).
        gravity: gravitational acceleration [m/s^2], (3,).
    """

    mass: float
    weight: float
    place: np.ndarray
    velocity: np.ndarray
    across: np.ndarray
    gravity: np.ndarray

    @property
    def aloft(self) -> np.ndarray:
        """Rows in which it has no other support (rows,) bool."""
        found: np.ndarray = self.rise > ALOFT
        return found

    @property
    def steady(self) -> np.ndarray:
        """Mask of the rows in which the carried body is held still in the air (rows,) bool."""
        found: np.ndarray = self.aloft & (np.linalg.norm(self.velocity, axis=1) < STEADY)
        return found

    @property
    def rise(self) -> np.ndarray:
        """Height above that of the start [m] (rows,)."""
        up = -self.gravity / np.linalg.norm(self.gravity)
        height: np.ndarray = (self.place - self.place[0]) @ up
        return height


def between(world: WorldSetup, names: tuple[str, ...]) -> str:
    """Name of the only free body that is not held; empty if there is not one."""
    found = (str(world.model.names[joint]) for joint in world.free_joints.tolist())
    others = [name for name in found if name not in names]
    return others[0] if len(others) == 1 else ""


def carried(trial: Trial, samples: Samples) -> Carried:
    """The body between the tools of a trial that `TwoHands.check` has accepted."""
    world, names = trial.world, held_names(trial.experiment)
    model = world.model
    joint = model.getJointId(between(world, names))
    q, v = model.joints[joint].idx_q, model.joints[joint].idx_v
    gravity = np.array(model.gravity.linear)
    masses = [model.inertias[model.getJointId(name)].mass for name in names]
    across = samples.pose(f"{trial.experiment.hand_names[0]}_tool")[0, :3]
    across = across - samples.pose("tool")[0, :3]
    mass = float(model.inertias[joint].mass)
    return Carried(
        mass,
        (mass + 0.5 * sum(masses)) * float(np.linalg.norm(gravity)),
        np.stack([samples[f"q{q + i}"] for i in range(3)], axis=1),
        np.stack([samples[f"v{v + i}"] for i in range(3)], axis=1),
        across / np.linalg.norm(across),
        gravity,
    )


def held_names(experiment: Experiment) -> tuple[str, ...]:
    """Names of the tools."""
    return scene_as(experiment, WorldParameters).tool, *(hand.tool for hand in experiment.hands)


def rendered(trial: Trial, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Forces that the two devices render [N], each (rows, 3)."""
    return samples.wrench("rendered")[:, :3], samples.wrench(f"{trial.experiment.hand_names[0]}_rendered")[:, :3]


class TwoHands(Analysis):
    METRICS: ClassVar = {
        "rise": Quantity("Largest rise of the body", "mm", 1e3),
        "felt_weight": Quantity("Mean vertical force that both hands feel while the body is held still", "N"),
        "felt_pressure": Quantity("Mean pressure that the first hand feels then", "N"),
        "momentum_error": Quantity("Largest error of the body's momentum balance while it is aloft", "N"),
    }
    CLAIMS = (CARRIED, WEIGHT, OPPOSITE, MOMENTUM, BOTH)
    SCENES = ("world",)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        kinds = [experiment.operator.type, *(hand.operator.type for hand in experiment.hands)]
        if kinds != ["arm", "arm"]:
            yield "two hands with operator.type = arm"
            return
        scene = scene_as(experiment, WorldParameters)
        free = [name for name, body in scene.bodies.items() if body.joint == "free"]
        if len({*free} - {*held_names(experiment)}) != 1 or not {*held_names(experiment)} <= {*free}:
            yield "two free bodies as tools, and a third"

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        return {"without the second hand": one_handed(trial)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        body = carried(trial, samples)
        rise = float(body.rise.max())
        metrics: dict[str, float | None] = {"rise": rise}
        claims = [self._carried(trial, samples, body, rise)]
        first, second = rendered(trial, samples)
        steady, up = body.steady, -body.gravity / np.linalg.norm(body.gravity)
        felt = one = other = None
        if steady.any():
            felt = -float(np.mean((first + second)[steady] @ up))
            one, other = (float(np.mean(force[steady] @ body.across)) for force in (first, second))
        claims.append(
            WEIGHT.judged(
                {"felt": felt, "weight": body.weight},
                None if felt is None else abs(felt - body.weight) <= PART * body.weight,
            )
        )
        opposite = None if one is None or other is None else one < 0.0 and abs(one + other) <= PART * abs(one)
        claims.append(OPPOSITE.judged({"first": one, "second": other}, opposite))
        error = momentum_error(trial, samples, body)
        claims.append(MOMENTUM.judged({"error": error}, None if error is None else error <= ROUNDING))
        one_hand = None
        if references:
            (run,) = references.values()
            one_hand = float(carried(trial, run).rise.max())
        claims.append(
            BOTH.judged(
                {"both": rise, "one": one_hand}, None if one_hand is None else one_hand < ALOFT and rise >= LIFTED
            )
        )
        metrics |= {
            "felt_weight": felt,
            "felt_pressure": None if one is None else -one,
            "momentum_error": error,
        }
        return Findings(metrics, claims, references)

    def _carried(self, trial: Trial, samples: Samples, body: Carried, rise: float) -> Claim:
        rows = np.flatnonzero(body.aloft)
        if not rows.size:
            return CARRIED.judged({"rise": rise, "distance": None}, False)
        second = f"{trial.experiment.hand_names[0]}_hand"
        hands = 0.5 * (samples.pose("hand")[:, :3] + samples.pose(second)[:, :3])
        paths = (points[rows] - points[rows[0]] for points in (body.place, hands))
        distance = float(np.linalg.norm(np.subtract(*paths), axis=1).max())
        return CARRIED.judged({"rise": rise, "distance": distance}, rise >= LIFTED and distance <= ALONG)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        body, (first, second), time = carried(trial, samples), rendered(trial, samples), samples["time"]
        up = -body.gravity / np.linalg.norm(body.gravity)
        name = trial.experiment.hand_names[0]
        weight = np.where(body.aloft, -body.weight, np.nan)

        def line(values: np.ndarray, label: str, style: Style) -> Line:
            return Line(*thin(time, values), label, style)

        panels = [
            draw(
                "hands_across",
                "pressure that each hand feels",
                [
                    line(second @ body.across, f"hand {name}", Style(VERMILION, (4, 2))),
                    line(-first @ body.across, "first hand", Style(BLUE)),
                ],
                "time [s]",
                "force [N]",
            ),
            draw(
                "hands_up",
                "vertical force",
                [
                    line(second @ up, f"hand {name}", Style(VERMILION, (4, 2))),
                    line(first @ up, "first hand", Style(BLUE)),
                    line((first + second) @ up, "both", Style(BLACK)),
                    Line(time, weight, "weight of body and half of tools", Style(BLACK, (1, 2))),
                ],
                "time [s]",
                "force [N]",
            ),
            draw(
                "body_height",
                "rise of the body",
                [
                    line(1e3 * body.rise, "both hands", Style(BLACK)),
                    *(
                        Line(*thin(run["time"], 1e3 * carried(trial, run).rise), label, Style(VERMILION, (4, 2)))
                        for label, run in findings.references.items()
                    ),
                ],
                "time [s]",
                "rise [mm]",
            ),
        ]
        text = "Forces that the devices render: each hand feels the pressure of the other, and its part of the weight."
        return [Figure("Two hands", text, panels), *super().figures(trial, samples, findings)]


def momentum_error(trial: Trial, samples: Samples, body: Carried) -> float | None:
    """Largest difference of the body's change of momentum and the forces on it, while aloft [N]."""
    consecutive = (np.diff(samples["tick"]) == 1) & body.aloft[:-1] & body.aloft[1:]
    if not consecutive.any():
        return None
    second = f"{trial.experiment.hand_names[0]}_env"
    on_tools = samples.wrench("env")[:-1, :3] + samples.wrench(second)[:-1, :3]
    change = body.mass * np.diff(body.velocity, axis=0) * trial.experiment.rate
    error = np.linalg.norm(change - (body.mass * body.gravity - on_tools), axis=1)
    return float(error[consecutive].max())


def one_handed(trial: Trial) -> Trial:
    """The same trial, the second hand taken away from the body."""
    experiment = trial.experiment
    (hand,) = experiment.hands
    operator = hand.operator
    assert isinstance(operator, ArmParameters)
    time, *displacement = operator.path[min(1, len(operator.path) - 1)]
    size = float(np.linalg.norm(displacement)) or 1.0
    path = ((0.0, 0.0, 0.0, 0.0), (time or 1.0, *(-AWAY * part / size for part in displacement)))
    away = hand.model_copy(update={"operator": operator.model_copy(update={"path": path})})
    return replace(trial, experiment=experiment.model_copy(update={"hands": (away,)}), built=trial.start)


ANALYSIS = TwoHands()
