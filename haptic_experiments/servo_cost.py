"""Cost of a servo step with 3, 6 and 34 degrees of freedom and a device in the loop (IGMS Table IV).

Costs are CPU times of the thread that simulates. As each run computes the same, the cost of a tick is the least of
several runs, which reduces the effect of other programs on caches. Costs are measured when a trial is analysed: the
trial itself is the same bits on every machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from haptic_bench import experiment
from haptic_bench.analysis import motions
from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running.offline import simulate
from haptic_sim.messages import ToolCommand
from haptic_sim.tool.environment import Environment
from haptic_sim.worlds.parameters import WorldParameters
from haptic_view.figures import BLACK, BLUE, VERMILION, Axis, Figure, Line, Style, draw

DEGREES = (3, 6, 34)
SOURCE = {3: 0.7e-3, 6: 1.5e-3, 34: 8.5e-3}  # [s] inverse dynamics, IGMS Table IV
SOURCE_RATE = {3: 750.0, 6: 250.0, 34: 40.0}  # [Hz]
LARGEST_STEP = 600e-6  # [s]
WARM, RUNS = 200, 3  # ticks that are not counted; runs of which the fastest counts, in each tick
STILL = 0.05  # [s] in which the hand does not move yet
_ARM = "{{path: ../worlds/{file}.xml, q: {q}}}"
_MOTION = "{{of: system, trajectory: {{type: joint_line, to: {to}, duration: 1.0}}}}"
VARIANTS = {
    3: ("three_joints", [0, -1.2, 2.0], [0, -1.15, 1.95], "forearm"),
    6: ("manipulator", [0, -1.2, 2.0, 0, -0.8, 0], [0, -1.15, 1.95, 0, -0.8, 0], "flange"),
}
"""File, start, end and grabbed body of the smaller systems."""

AT_SERVO_RATE = Statement(
    "at_servo_rate",
    "A tick of all systems, with driver, controller, contacts, push and pull, takes less than the servo period in 99 "
    "of 100 ticks",
    "IGMS Table IV: 750, 250 and 40 Hz, where 1 kHz are needed",
    Quantity("time of a tick [µs]"),
)
STEP_OF_34 = Statement(
    "step_of_34",
    "A step of the environment with 34 degrees of freedom, push and pull takes at most 600 µs in 99 of 100 ticks",
    "beyond the source",
    Quantity("time of a step [µs]"),
)
FASTER = Statement(
    "faster_than_source",
    "Inverse dynamics of each system takes less than the source's 0.7, 1.5 and 8.5 ms",
    "IGMS Table IV",
    Quantity("time of inverse dynamics [µs]"),
)
FELT = Statement(
    "felt",
    "Push and pull are felt: the device renders a horizontal force during them, and none before",
    "IGMS III-F",
    Quantity("largest horizontal force that the device renders [N]"),
)


@dataclass(frozen=True)
class Cost:
    """CPU times of a system [s].

    Attributes:
        inverse_dynamics: median time of the bodies' terms and of the drives that follow from them.
        step, step_99: of the environment: median, and 99 of 100 are shorter.
        tick, tick_99: of driver, controller and environment.
    """

    inverse_dynamics: float
    step: float
    step_99: float
    tick: float
    tick_99: float


def variant(trial: Trial, degrees: int) -> Trial:
    """The trial with an arm in the place of the figure; itself for 34 degrees of freedom."""
    if degrees not in VARIANTS:
        return trial
    file, q, to, body = VARIANTS[degrees]
    settings = [
        f"rate={trial.experiment.rate!r}",
        "scene.files.system=" + _ARM.format(file=file, q=q),
        "scene.motions.wave=" + _MOTION.format(to=to),
        f"scene.pulls.grip.body=system/{body}",
        "scene.bodies.tip.position=[[0.35,-0.12,0.46]]",
        "operator.path=[[[0.1,0,0,0],[0.5,0,0.1,0],[1.1,0,0.1,0],[1.4,0,0,0]]]",
    ]
    (found,) = experiment.load("servo_cost", settings, trial.experiment.duration)
    return found


def measure(trial: Trial) -> Cost:
    """Simulate a trial RUNS times, and find what its parts cost: in each tick the least of the runs."""
    ticks, steps, dynamics = (
        np.min(times, axis=0)[WARM:] for times in zip(*(_run(trial) for _ in range(RUNS)), strict=True)
    )
    return Cost(
        float(np.median(dynamics)),
        float(np.median(steps)),
        float(np.percentile(steps, 99)),
        float(np.median(ticks)),
        float(np.percentile(ticks, 99)),
    )


def _run(trial: Trial) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times of ticks, of steps of the environment, and of inverse dynamics [s]."""
    stamps: list[int] = []
    commands: list[bytes] = []

    def sink(tick: int, messages: Mapping[str, bytes]) -> None:
        if "tool_state" in messages:
            stamps.append(time.thread_time_ns())
        if "tool_command" in messages:
            commands.append(messages["tool_command"])

    simulate(_quiet(trial), sink)
    return 1e-9 * np.diff(stamps), *_steps(trial, commands)


def _quiet(trial: Trial) -> Trial:
    """The trial without world states, which a node sends outside of its servo path."""
    environment = trial.experiment.environment.model_copy(update={"publish": None})
    return replace(
        trial, experiment=trial.experiment.model_copy(update={"environment": environment}), built=trial.start
    )


def _steps(trial: Trial, commands: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Times of the environment's steps, and of the inverse dynamics in each of them, under recorded commands [s]."""
    environment = trial.tool_side()
    assert isinstance(environment, Environment)
    state, command = environment.tool_state(), ToolCommand()
    body, drives, nothing = environment._tool.body, environment._tool.drives, np.zeros(6)
    assert drives is not None
    steps, dynamics = [], []
    for tick, data in enumerate(commands):
        command.load(data)
        begin = time.thread_time_ns()
        environment.prepare()
        environment.step(command, state)
        steps.append(time.thread_time_ns() - begin)
        # what does not change the state, but for the forces, which the next refresh finds again
        begin = time.thread_time_ns()
        body.refresh()
        drives.begin(tick + 1, nothing)
        dynamics.append(time.thread_time_ns() - begin)
        body.refresh()
    return 1e-9 * np.array(steps, float), 1e-9 * np.array(dynamics, float)


class ServoCost(Analysis):
    METRICS: ClassVar = {
        **{
            f"inverse_dynamics_{n}": Quantity(f"Inverse dynamics of {n} degrees of freedom", "µs", 1e6) for n in DEGREES
        },
        **{f"step_{n}": Quantity(f"Step of the environment with {n} degrees of freedom", "µs", 1e6) for n in DEGREES},
        **{
            f"step_99_{n}": Quantity(f"Step of the environment with {n} degrees of freedom, 99th percentile", "µs", 1e6)
            for n in DEGREES
        },
        **{
            f"tick_99_{n}": Quantity(f"Tick with the device and {n} degrees of freedom, 99th percentile", "µs", 1e6)
            for n in DEGREES
        },
        **{
            f"rate_{n}": Quantity(f"Servo rate that 99 of 100 ticks allow with {n} degrees of freedom", "Hz")
            for n in DEGREES
        },
        "felt_force": Quantity("Largest horizontal force that the device renders", "N"),
    }
    CLAIMS = (AT_SERVO_RATE, STEP_OF_34, FASTER, FELT)
    SCENES = ("world",)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        scene = scene_as(experiment, WorldParameters)
        if not (scene.motions and scene.pulls) or experiment.standalone or experiment.asynchronous:
            yield "a motion, a pull, a device, and an environment without a local model"

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        costs: Mapping[int, Cost] = {}
        if compare and trial.experiment.last_tick > 2 * WARM:
            costs = {degrees: measure(variant(trial, degrees)) for degrees in DEGREES}
        return self.judge_costs(trial, samples, costs)

    def judge_costs(self, trial: Trial, samples: Samples, costs: Mapping[int, Cost]) -> Findings:
        """Metrics and claims of costs."""
        metrics: dict[str, float | None] = dict.fromkeys(self.METRICS)
        for n, cost in costs.items():
            metrics |= {
                f"inverse_dynamics_{n}": cost.inverse_dynamics,
                f"step_{n}": cost.step,
                f"step_99_{n}": cost.step_99,
                f"tick_99_{n}": cost.tick_99,
                f"rate_{n}": 1.0 / cost.tick_99,
            }
        force, held = _horizontal(samples), _while_held(trial, samples)
        peak, before = (float(force[rows].max(initial=0.0)) for rows in (held, samples["time"] < STILL))
        metrics["felt_force"] = peak
        period = 1.0 / trial.experiment.rate
        known = bool(costs)
        ticks = {str(n): 1e6 * cost.tick_99 for n, cost in costs.items()}
        dynamics = {str(n): 1e6 * cost.inverse_dynamics for n, cost in costs.items()}
        step = costs[34].step_99 if known else None
        return Findings(
            metrics,
            [
                AT_SERVO_RATE.judged(ticks, max(c.tick_99 for c in costs.values()) <= period if known else None),
                STEP_OF_34.judged(
                    {"step": None if step is None else 1e6 * step}, None if step is None else step <= LARGEST_STEP
                ),
                FASTER.judged(
                    dynamics, all(cost.inverse_dynamics <= SOURCE[n] for n, cost in costs.items()) if known else None
                ),
                FELT.judged({"touched": peak, "before": before}, peak > motions.FELT >= before if held.any() else None),
            ],
        )

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        x = np.array(DEGREES, float)

        def line(name: str, label: str, style: Style) -> Line:
            values = [findings.metrics.get(f"{name}_{n}") for n in DEGREES]
            return Line(x, np.array([np.nan if v is None else 1e6 * v for v in values]), label, style)

        lines = [
            Line(x, np.array([1e6 * SOURCE[n] for n in DEGREES]), "inverse dynamics, IGMS", Style(BLACK, (5, 1.8))),
            line("inverse_dynamics", "inverse dynamics", Style(BLUE)),
            line("tick_99", "whole tick, 99th percentile", Style(VERMILION)),
        ]
        panel = draw("cost", "CPU time", lines, Axis("degrees of freedom"), Axis("time [µs]", log=True))
        table = [["degrees of freedom", *map(str, DEGREES)]]
        table += [
            [label, *(_shown(findings.metrics.get(f"{name}_{n}"), scale) for n in DEGREES)]
            for name, label, scale in (
                ("inverse_dynamics", "inverse dynamics [µs]", 1e6),
                ("step", "step of the environment [µs]", 1e6),
                ("step_99", "step, 99th percentile [µs]", 1e6),
                ("tick_99", "tick, 99th percentile [µs]", 1e6),
                ("rate", "servo rate [Hz]", 1.0),
            )
        ]
        table.append(["IGMS: inverse dynamics [µs]", *(f"{1e6 * SOURCE[n]:g}" for n in DEGREES)])
        table.append(["IGMS: servo rate [Hz]", *(f"{SOURCE_RATE[n]:g}" for n in DEGREES)])
        text = (
            "CPU time of the simulating thread, in each tick the least of three runs. A tick is driver, controller and "
            "environment, called one by one."
        )
        return [Figure("Cost of a servo step", text, [panel], table), *super().figures(trial, samples, findings)]


def _horizontal(samples: Samples) -> np.ndarray:
    """Horizontal force that the device renders, without the weight of the tool [N], (rows,)."""
    return np.linalg.norm(samples.wrench("rendered")[:, :2], axis=1)


def _while_held(trial: Trial, samples: Samples) -> np.ndarray:
    """Rows in which the hand holds a body, (rows,) bool."""
    now = samples["time"]
    held = np.zeros(now.size, bool)
    for pull in trial.world.pulls:
        for begin, end in pull.grabs:
            held |= (now >= begin) & (now < end)
    return held


def _shown(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{scale * value:.0f}"


ANALYSIS = ServoCost()
