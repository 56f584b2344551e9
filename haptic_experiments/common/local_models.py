"""Common part of the analyses of local models: variants of an experiment, what is felt, and figures (THESIS 6).

An experiment is compared with its variants: the same with other settings of a few sections. All quantities are of the
hand on the device, or of the force on the tool, so that they are what a user would feel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from haptic_bench.analysis.base import Analysis, Case, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity
from haptic_bench.analysis.figures import Curve as Run
from haptic_bench.analysis.figures import trial_figures
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.direct import DirectParameters
from haptic_control.four_channel import FourChannelParameters
from haptic_sim.messages import columns
from haptic_sim.parts import kind_of
from haptic_sim.worlds.scenes import SlottedEnclosureParameters
from haptic_view.figures import Axis, Figure, Line, Panel, Style, draw, style_of, thin

HORIZON = 10.0  # [s] of a trial that is compared
APPROACH = 0.01  # [m/s] a hand that was faster has moved towards the wall
STOPPED = 2e-3  # [m/s] and one that is slower then has met it
BACK = 1e-3  # [m/s] a hand that moves back faster rebounds
SHORTER = 0.02  # [s] by which a run that ended before the others is shorter than they are
OUTSIDE = 0.05  # [m] beyond the walls: a tool there has passed through them


@dataclass(frozen=True)
class Variant:
    """Settings that make a run one of those that are compared.

    Attributes:
        sections: keys and values, by section.
        direct: whether the device is coupled directly, or by four channels; None: as it is.
        text: what its short name means, for captions.
    """

    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    direct: bool | None = None
    text: str = ""

    def of(self, experiment: Experiment) -> Experiment:
        """An experiment with these settings."""
        update: dict[str, Any] = {}
        for name, keys in self.sections.items():
            section, kind = getattr(experiment, name), kind_of(type(experiment).model_fields[name])
            changed = section.model_copy(update=dict(keys)) if kind is None else kind.changed(section, keys)
            update[name] = changed
        if self.direct is not None and self.direct != isinstance(experiment.controller, DirectParameters):
            update["controller"] = DirectParameters() if self.direct else FourChannelParameters()
        return experiment.model_copy(update=update)


def local_model(**keys: Any) -> dict[str, Mapping[str, Any]]:
    """Sections of a local model of the type `full`, unless `keys` say otherwise."""
    return {"local_model": {"type": "full"} | keys}


SYNCHRONOUS: Mapping[str, Mapping[str, Any]] = {
    "local_model": {"type": "none"},
    "environment": {"rate": None, "delay": None},
}
"""Sections of an environment at the servo rate."""

SERVO_RATE = Variant(SYNCHRONOUS, direct=False, text="environment at the servo rate")

COMPARED = {
    "IR": Variant(
        local_model(type="intermediate_representation", epsilon=0.0),
        direct=True,
        text="intermediate representation, directly coupled",
    ),
    "LM0": Variant(local_model(epsilon=0.0), direct=False, text="local model of the active constraints"),
    "LM5": Variant(local_model(epsilon=0.005), direct=False, text="local model of the constraints within 5 mm"),
}
"""Variants that THESIS 6.4.2 compares: the intermediate representation, directly coupled, and the local models of the
active constraints and of the constraints within 5 mm."""


def with_geometry_tick(trial: Trial, samples: Samples, messages: Mapping[str, Sequence[bytes]]) -> Samples:
    """The samples with the tick whose survey a local model had, `geometry_tick`, -1: none; as they are without one."""
    if not trial.experiment.asynchronous:
        return samples
    states = columns(trial.tool_sizes.tool_state(), messages.get("tool_state", ()))
    by_tick = dict(zip(states["tick"].tolist(), states["geometry_tick"].tolist(), strict=True))
    known = [by_tick[tick] for tick in samples["tick"].tolist()]
    return samples.with_columns({"geometry_tick": np.array(known, np.int64)})


def felt_clearance(samples: Samples, axis: str) -> float:
    """Travel of the hand along an axis, peak to peak [m]."""
    return float(np.ptp(samples[f"hand_p{axis}"]))


def force_step(samples: Samples) -> float | None:
    """Largest change of the force on the tool to a tick in which an update arrives, from the tick before [N].

    Ticks of collisions are left out. None if no update arrives.
    """
    if "geometry_tick" not in samples.names or len(samples) < 2:
        return None
    tick, quiet = samples["tick"], samples["colliding"] == 0
    arrives = (np.diff(samples["geometry_tick"]) > 0) & (np.diff(tick) == 1) & quiet[1:] & quiet[:-1]
    steps = np.linalg.norm(np.diff(samples.wrench("env")[:, :3], axis=0), axis=1)[arrives]
    return float(steps.max()) if steps.size else None


def contact_losses(samples: Samples) -> float:
    """Number of times that the tool loses all its contacts."""
    return float(np.count_nonzero(np.diff((samples["contacts"] > 0).astype(int)) < 0))


def along_push(samples: Samples) -> np.ndarray:
    """Velocity of the hand along the operator's force, which is constant (rows,) [m/s]."""
    push = samples.wrench("operator")[:, :3]
    size = float(np.linalg.norm(push[0]))
    return samples.twist("hand")[:, :3] @ push[0] / size if size > 0.0 else np.zeros(len(samples))


def rebounds(samples: Samples) -> float:
    """Number of times that the hand returns against the operator's constant force, faster than BACK, without contact.

    A tool that is pushed out of a wall by as much as it overlapped when it was stopped does not rebound.
    """
    count, back = 0, False
    for speed, touching in zip(along_push(samples), samples["contacts"] > 0, strict=True):
        if not back and speed < -BACK and not touching:
            back, count = True, count + 1
        elif speed > 0.0:
            back = False
    return float(count)


def perceived_wall(samples: Samples) -> float | None:
    """Position where the wall stops the hand for the first time, along y [m]; None if it does not."""
    speed = along_push(samples)
    moving = np.flatnonzero(speed > APPROACH)
    if not moving.size:
        return None
    stopped = np.flatnonzero(speed[moving[0] :] < STOPPED)
    return float(samples["hand_py"][moving[0] + stopped[0]]) if stopped.size else None


CLEARANCE = Quantity("Distance that the hand moves between the walls, peak to peak", "mm", 1e3)
MEASURES: Mapping[str, Quantity] = {
    "felt_clearance": replace(CLEARANCE, of=lambda case: felt_clearance(case.samples, "x")),
    "felt_clearance_x": Quantity(
        "Distance that the hand moves along x, peak to peak", "mm", 1e3, lambda case: felt_clearance(case.samples, "x")
    ),
    "felt_clearance_y": Quantity(
        "Distance that the hand moves along y, peak to peak", "mm", 1e3, lambda case: felt_clearance(case.samples, "y")
    ),
    "perceived_wall_position": Quantity(
        "Position of the hand along y where the wall stops it for the first time",
        "mm",
        1e3,
        lambda case: perceived_wall(case.samples),
    ),
    "rebounds": Quantity(
        f"How often the hand moves back against the operator's force, faster than {1e3 * BACK:g} mm/s, and nothing "
        "touches",
        of=lambda case: rebounds(case.samples),
    ),
    "contact_losses": Quantity(
        "How often the tool loses all its contacts", of=lambda case: contact_losses(case.samples)
    ),
    "max_force_step": Quantity(
        "Largest change of the force on the tool from one tick to the next where an update arrives, and no "
        "collision is resolved",
        "N",
        of=lambda case: force_step(case.samples),
    ),
}


def declared(*names: str) -> dict[str, Quantity]:
    """Metrics by name, of MEASURES."""
    return {name: MEASURES[name] for name in names}


class Compared(NamedTuple):
    """The case of a claim: a trial, and the variants by name, of which it may be one."""

    trial: Trial
    references: Mapping[str, Samples]


class LocalModelAnalysis(Analysis):
    """A trial beside its variants."""

    SCENES = ("slotted_enclosure",)
    VARIANTS: ClassVar[Mapping[str, Variant]] = {}
    FIGURE: ClassVar[str] = ""
    """Figure of the source with the trajectories."""
    OVER_TIME: ClassVar[Sequence[str]] = ("x", "y")
    """Coordinates of the hand that are drawn over time."""
    PATH: ClassVar[bool] = True
    """Whether the path in the plane is drawn."""

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        if experiment.standalone:
            yield "a device, not device.type = none"

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """Samples of the trial with the column `geometry_tick`."""
        return with_geometry_tick(trial, super().samples(trial, messages), messages)

    def own(self, trial: Trial) -> str | None:
        """Name of the variant that a trial is."""
        return next((name for name, one in self.VARIANTS.items() if one.of(trial.experiment) == trial.experiment), None)

    def runs(self, trial: Trial, samples: Samples, compare: bool = True) -> dict[str, Samples]:
        """The variants by name, as far as the tool is in the enclosure; that of the trial is not simulated again."""
        own = self.own(trial)
        duration = min(float(samples["time"][-1]), HORIZON) if len(samples) else 0.0
        others = {
            name: replace(trial, experiment=one.of(trial.experiment).model_copy(update={"duration": duration}))
            for name, one in self.VARIANTS.items()
            if name != own and compare and duration > 0.0
        }
        runs = self.run_all(others) | ({} if own is None else {own: samples})
        return {name: inside(trial.experiment, runs[name]) for name in self.VARIANTS if name in runs}

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        runs, own = self.runs(trial, samples, compare), self.own(trial)
        references = {name: run for name, run in runs.items() if name != own}
        claims = [_decided_inside(claim, runs) for claim in self.claims(trial, runs)]
        return Findings(self.metrics(trial, samples), claims, references)

    def label(self, trial: Trial) -> str | None:
        return self.own(trial)

    def metrics(self, trial: Trial, samples: Samples) -> dict[str, float | None]:
        """The metrics that are measured of the trial alone."""
        case = Case(trial, samples, {})
        return {name: one.of(case) for name, one in self.METRICS.items() if one.of is not None}

    def claims(self, trial: Trial, runs: Mapping[str, Samples]) -> list[Claim]:
        """The claims of an analysis, as the variants decide them."""
        return [one.claim(Compared(trial, runs)) for one in self.CLAIMS]

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Trajectories of the hand, then wrenches."""
        own = self.own(trial)
        runs = {own or "this run": inside(trial.experiment, samples), **findings.references}
        order = [name for name in ("this run", *self.VARIANTS) if name in runs]
        lines: dict[str, list[Line]] = {axis: [] for axis in (*self.OVER_TIME, "path")}
        for i, name in enumerate(order):
            run, style = runs[name], style_of(i)
            label = f"{name}, this run" if name == own else name
            for axis in self.OVER_TIME:
                lines[axis].append(Line(*thin(run["time"], 1e3 * run[f"hand_p{axis}"]), label, style))
            lines["path"].append(Line(1e3 * run["hand_px"], 1e3 * run["hand_py"], label, style))
        panels: list[Panel] = [
            draw(f"hand_{axis}", f"hand along {axis}", lines[axis], "time [s]", Axis(f"{axis} [mm]", least=1.0))
            for axis in self.OVER_TIME
        ]
        if self.PATH:
            panels.append(
                draw("hand_path", "path of the hand", lines["path"], "x [mm]", Axis("y [mm]", least=1.0), equal=True)
            )
        shown = [panel for panel in panels if not panel.empty]
        published = f", beside {self.FIGURE} of THESIS" if self.FIGURE else ""
        names = "; ".join(f"{name}: {one.text}" for name, one in self.VARIANTS.items() if name in order and one.text)
        caption = f"Trajectories of the user's hand on the device{published}.{names and f' {names}.'}"
        return [Figure("Trajectories", caption, shown), *trial_figures([Run("this run", trial, samples, Style())])[1:]]


def inside(experiment: Experiment, samples: Samples) -> Samples:
    """The samples as long as the hand has not passed through a wall."""
    scene = scene_as(experiment, SlottedEnclosureParameters)
    x, y = samples["hand_px"], samples["hand_py"]
    low, high = scene.y[0] - scene.slot_depth - OUTSIDE, scene.y[1] + OUTSIDE
    out = (x < scene.x[0] - OUTSIDE) | (x > scene.x[1] + OUTSIDE) | (y < low) | (y > high)
    return samples.until(float(samples["time"][np.argmax(out)])) if out.any() else samples


def _decided_inside(claim: Claim, runs: Mapping[str, Samples]) -> Claim:
    """A claim, undecided if one of the runs that decide it ended before the others: it left the enclosure."""
    deciding = {name: run for name, run in runs.items() if name in claim.decided_by}
    ended = {name: float(run["time"][-1]) if len(run) else 0.0 for name, run in deciding.items()}
    lasted = max(ended.values(), default=0.0)
    short = [f"{name} at {time:.3g} s" for name, time in ended.items() if time < lasted - SHORTER]
    if not short or claim.of_instability:
        return claim
    return claim.undecided(f"left the enclosure, or was unstable: {', '.join(short)}")
