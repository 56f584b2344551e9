"""The stiffness that each controller can render, and the impedance that it transmits (THESIS 6.4.3).

A constant force pushes the hand against a wall. Where positions and forces are exchanged, the stiffness of the contact
is the limit; where a spring is between device and tool, that of the spring. The largest one with which the hand comes
to rest is found by bisection, and the hand is then pushed with half the force as well: the stiffness that it feels is
the difference of the forces over that of the places. The damping goes with the root of the stiffness.

The transmitted impedance is that of the hand, F_operator / v_device, under a sum of sines that keeps it pressed
against the wall; the world's is that of the tool on which the same wrench acts without a device. Both are sampled
alike, so that their ratio is 1 where a controller is transparent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_control.direct import DirectParameters
from haptic_control.four_channel import FourChannelParameters
from haptic_control.parameters import ControllerParameters, NoControllerParameters
from haptic_control.unilateral import UnilateralParameters
from haptic_control.virtual_coupling import VirtualCouplingParameters
from haptic_drivers.operators import ConstantParameters, FileParameters
from haptic_drivers.parameters import NoDeviceParameters
from haptic_experiments.common.local_models import SYNCHRONOUS, LocalModelAnalysis, Variant, local_model
from haptic_experiments.static_wall import wall_position
from haptic_view.figures import Axis, Figure, Line, draw, style_of

RANGE = (1e2, 1e6)  # [N/m] of the stiffness that is searched
TRIED, STEPS = 13, 8  # values of RANGE, and steps of the bisection above the last that is stable: to 0.3 %
REST = (0.01, 1e-6)  # of its depth in the wall, and [m]: a hand that moves less than one of both in the end is at rest
LATE = 0.75  # of the time, from which on the hand is at rest or not

BASE = 0.1  # [Hz] of the sum of sines, whose frequencies are multiples of it
HARMONICS = np.array([1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 120, 200, 300])
SETTLING = 4.0  # [s] before a period of BASE is measured
MODULATION = 0.5  # of the constant force: amplitude of the sum of sines
TRANSPARENT = 0.02  # of the world's impedance
LINEAR = 0.99  # of the power of the hand's velocity is at the frequencies of the sum of sines, or it moves by itself
EQUAL = 0.99  # of another stiffness: as stiff
WORLD, THIS = "world", "this run"

STIFFNESS = Quantity("stiffness that the hand feels at the largest stable stiffness", "N/m")
IMPEDANCE = Quantity("largest deviation of the transmitted impedance from the world's", "%", 100.0)


@dataclass(frozen=True)
class Connection:
    """A way to connect the device to the world.

    Attributes:
        controller: with its default gains.
        model: type of the local model.
        limit: section whose `stiffness` and `damping` limit what is rendered.
    """

    controller: ControllerParameters
    model: str = "full"
    limit: str = "contact"

    def of(self, experiment: Experiment) -> Experiment:
        """An experiment with this connection; its own controller is kept where it is of the same type."""
        keys = {} if self.model == "full" else {"epsilon": 0.0}
        connected = Variant(local_model(type=self.model, **keys)).of(experiment)
        if experiment.controller.type == self.controller.type:
            return connected
        return connected.model_copy(update={"controller": self.controller})

    def stiffened(self, experiment: Experiment, stiffness: float) -> Experiment:
        """An experiment with another stiffness [N/m], and the damping that goes with it."""
        section: Any = getattr(experiment, self.limit)
        if self.limit == "contact":
            ratio = stiffness / section.stiffness
            update = {"stiffness": stiffness, "damping": math.sqrt(ratio) * section.damping}
        else:
            ratio = stiffness / section.stiffness[0]
            update = {
                "stiffness": tuple(ratio * value for value in section.stiffness),
                "damping": tuple(math.sqrt(ratio) * value for value in section.damping),
            }
        return experiment.model_copy(update={self.limit: section.model_copy(update=update)})


FOUR, DIRECT, INTERMEDIATE, UNILATERAL, VIRTUAL = (
    "four channels",
    "direct",
    "direct, intermediate representation",
    "unilateral coupling",
    "virtual coupling",
)
CONNECTIONS: Mapping[str, Connection] = {
    FOUR: Connection(FourChannelParameters()),
    DIRECT: Connection(DirectParameters()),
    INTERMEDIATE: Connection(DirectParameters(), "intermediate_representation"),
    UNILATERAL: Connection(UnilateralParameters(), limit="controller"),
    VIRTUAL: Connection(VirtualCouplingParameters(), limit="controller"),
}

RIVALS = (INTERMEDIATE, UNILATERAL, VIRTUAL)


class Felt(NamedTuple):
    """The case of the claims: the stiffness that is felt with each connection, and the deviation with four channels."""

    stiffness: Mapping[str, float | None]
    deviation: float | None

    @classmethod
    def of(cls, *names: str) -> Callable[[Felt], dict[str, float | None]]:
        """The stiffness with four channels and with other connections, by name [N/m]."""
        return lambda felt: {name: felt.stiffness[name] for name in (FOUR, *names)}


def same(felt: Felt) -> str:
    """Reason why two connections are the same; empty if they are not."""
    if felt.stiffness[FOUR] != felt.stiffness[DIRECT]:
        return ""
    return "a device with the tool's inertia needs no coordination: both connections are the same"


STIFFER = Statement(
    "stiffer",
    "With four channels and the local model the hand feels a stiffer contact than with the directly coupled "
    "intermediate representation, and than through a unilateral or a virtual coupling",
    "THESIS 6.4.3",
    STIFFNESS,
    of=Felt.of(*RIVALS),
    holds=lambda m: m[FOUR] > max(m[name] for name in RIVALS),
)
AS_DIRECT = Statement(
    "as_direct",
    "With four channels the hand feels at least as stiff a contact as with the directly coupled local model",
    "THESIS 6.4.3",
    STIFFNESS,
    of=Felt.of(DIRECT),
    holds=lambda m: m[FOUR] >= EQUAL * m[DIRECT],
    unless=same,
)
FOUR_TIMES = Statement(
    "four_times",
    "Than with the directly coupled intermediate representation, at least 15/4 times as stiff a one, the ratio of the "
    "stiffnesses in the source",
    "THESIS 6.4.3",
    STIFFNESS,
    of=Felt.of(INTERMEDIATE),
    holds=lambda m: m[FOUR] >= 15.0 / 4.0 * m[INTERMEDIATE],
)
TRANSPARENCY = Statement(
    "transparent",
    f"With four channels the hand feels the impedance of the world within {100 * TRANSPARENT:g} % from "
    f"{BASE * HARMONICS[0]:g} to {BASE * HARMONICS[-1]:g} Hz, pressed against the wall",
    "THESIS 6.4.2, transparency of the four-channel architecture",
    IMPEDANCE,
    of=lambda felt: {FOUR: felt.deviation},
    holds=lambda m: m[FOUR] <= TRANSPARENT,
)


def late_motion(samples: Samples) -> float:
    """Distance that the hand moves along y in the last part of the time [m]."""
    return float(np.ptp(samples["hand_py"][_late(samples)]))


def depth(experiment: Experiment, samples: Samples) -> float:
    """Penetration depth of the hand in the wall, mean over the last part of the time [m]."""
    return wall_position(experiment) - float(samples["hand_py"][_late(samples)].mean())


def _late(samples: Samples) -> np.ndarray:
    return np.asarray(samples["time"] >= LATE * samples["time"][-1])


def impedance(samples: Samples, rate: float, body: str) -> np.ndarray:
    """F_operator / v of a body along y at BASE * HARMONICS [N s/m], from the last period of BASE."""
    period = round(rate / BASE)
    parts = [np.fft.rfft(samples[name][-period:])[HARMONICS] for name in ("operator_fy", f"{body}_vy")]
    return np.asarray(parts[0] / parts[1])


class FourChannelStiffness(LocalModelAnalysis):
    NEEDS: ClassVar = {"tool": "peg", "operator": "constant"}
    METRICS: ClassVar[Mapping[str, Quantity]] = {
        "felt_stiffness": Quantity("Operator's force over the depth of the hand in the wall, in the end", "N/m"),
        "late_motion": Quantity("Distance that the hand moves in the last quarter of the time", "mm", 1e3),
        "impedance_error": Quantity(
            "Largest deviation of the impedance that the hand feels from the world's, "
            f"{BASE * HARMONICS[0]:g} to {BASE * HARMONICS[-1]:g} Hz",
            "%",
            100.0,
        ),
    }
    CLAIMS: ClassVar[Sequence[Statement]] = (STIFFER, AS_DIRECT, FOUR_TIMES, TRANSPARENCY)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        """Missing requirements: stiffness is measured under a constant force of the operator on the lower wall."""
        yield from super().lacking(experiment)
        operator = experiment.operator
        if isinstance(operator, ConstantParameters) and not (
            operator.wrench[1] < 0.0 and not any(operator.wrench[:1] + operator.wrench[2:])
        ):
            yield "operator.wrench = [0, fy, 0, 0, 0, 0] with fy < 0"
        if not experiment.contact.stiffness > 0.0:
            yield "contact.stiffness > 0"

    def connection(self, trial: Trial) -> str | None:
        """Name in CONNECTIONS of the connection of a trial, with gains of its own; None: another one."""
        return next((name for name, one in CONNECTIONS.items() if one.of(trial.experiment) == trial.experiment), None)

    def label(self, trial: Trial) -> str | None:
        return self.connection(trial)

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Findings:
        """The references are runs under the sum of sines."""
        runs: dict[str, Samples] = {}
        felt: dict[str, float | None] = dict.fromkeys(CONNECTIONS)
        if compare:
            runs[WORLD] = self.modulated(trial, _without_device(trial.experiment))
            for name, connection in CONNECTIONS.items():
                felt[name] = self.stiffest(trial, connection)
                runs[name] = self.modulated(trial, connection.of(trial.experiment))
            if self.connection(trial) is None:
                runs[THIS] = self.modulated(trial, trial.experiment)
        claims = [one.claim(Felt(felt, deviation(trial, runs, FOUR))) for one in self.CLAIMS]
        return Findings(self._metrics(trial, samples, runs), claims, runs)

    def _metrics(self, trial: Trial, samples: Samples, runs: Mapping[str, Samples]) -> dict[str, float | None]:
        deep = depth(trial.experiment, samples)
        return {
            "felt_stiffness": -float(samples["operator_fy"][-1]) / deep if deep > 0.0 else None,
            "late_motion": late_motion(samples),
            "impedance_error": deviation(trial, runs, self.connection(trial) or THIS),
        }

    def stiffest(self, trial: Trial, connection: Connection) -> float | None:
        """The stiffness that the hand feels at the largest one with which it comes to rest [N/m]; None: in RANGE none.

        That of the contact, or of the coupling, is searched downwards, then by bisection.
        """
        experiment = connection.of(trial.experiment)
        operator, whole = experiment.operator, _wrench(experiment)
        half = operator.model_copy(update={"wrench": tuple(0.5 * part for part in whole)})

        def felt(stiffness: float) -> float | None:
            stiff = connection.stiffened(experiment, stiffness)
            deep = self._resting_depth(trial, stiff)
            less = None if deep is None else self._resting_depth(trial, stiff.model_copy(update={"operator": half}))
            return None if deep is None or less is None or deep <= less else -0.5 * whole[1] / (deep - less)

        found, high = None, RANGE[1]
        for low in np.geomspace(*RANGE, TRIED)[::-1].tolist():
            found = felt(low)
            if found is not None:
                break
            high = low
        for _ in range(STEPS if found is not None and low < high else 0):
            middle = math.sqrt(low * high)
            stiffer = felt(middle)
            if stiffer is None:
                high = middle
            else:
                low, found = middle, stiffer
        return found

    def _resting_depth(self, trial: Trial, experiment: Experiment) -> float | None:
        """Penetration depth in the wall at which the hand comes to rest [m]; None if it does not."""
        with np.errstate(over="ignore"):  # what diverges does so in large numbers
            samples, unstable = self.attempt(replace(trial, experiment=experiment))
        if unstable or len(samples.finite()) < len(samples):
            return None
        deep = depth(experiment, samples)
        return deep if late_motion(samples) < max(REST[0] * deep, REST[1]) else None

    def modulated(self, trial: Trial, experiment: Experiment) -> Samples:
        """A run under the sum of sines, of SETTLING and one period of BASE."""
        duration = SETTLING + 1.0 / BASE
        update = {"operator": FileParameters(path="sum_of_sines.csv"), "duration": duration}
        table = sum_of_sines(np.array(_wrench(trial.experiment)), experiment.rate, duration)
        return self.run_unrecorded(replace(trial, experiment=experiment.model_copy(update=update), table=table))

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """The transmitted impedance over the world's, and the trial."""
        made = super().figures(trial, samples, replace(findings, references={}))
        if WORLD not in findings.references:
            return made
        return [_transparency(trial, findings.references), *made]


def _wrench(experiment: Experiment) -> tuple[float, ...]:
    operator = experiment.operator
    assert isinstance(operator, ConstantParameters)
    return operator.wrench


def _without_device(experiment: Experiment) -> Experiment:
    """The world without a device: the operator's wrench acts on the tool."""
    update = {"device": NoDeviceParameters(), "controller": NoControllerParameters()}
    return Variant(SYNCHRONOUS).of(experiment).model_copy(update=update)


def sum_of_sines(wrench: np.ndarray, rate: float, duration: float) -> np.ndarray:
    """Rows of time and wrench [s, N, N m]: a constant wrench (6,) times 1 plus at most MODULATION.

    The phases are Schroeder's, which keep the peak of the sum low.
    """
    time = np.arange(round(duration * rate) + 1) / rate
    n = HARMONICS.size
    phases = -math.pi * np.arange(n) * (np.arange(n) + 1) / n
    waves = np.sin(2.0 * math.pi * BASE * HARMONICS * time[:, None] + phases).sum(axis=1)
    return np.column_stack([time, (1.0 + MODULATION * waves / np.abs(waves).max())[:, None] * wrench])


def ratio(trial: Trial, runs: Mapping[str, Samples], name: str) -> np.ndarray | None:
    """The transmitted impedance over the world's at BASE * HARMONICS; None where a run is missing or was cut short.

    None also where the hand moves by itself, and not as the sum of sines makes it: that is no impedance.
    """
    rate = trial.experiment.rate
    rows = round((SETTLING + 1.0 / BASE) * rate)
    if any(one not in runs or len(runs[one].finite()) < rows for one in (name, WORLD)):
        return None
    power = np.abs(np.fft.rfft(runs[name]["hand_vy"][-round(rate / BASE) :])[1:]) ** 2
    if power[HARMONICS - 1].sum() < LINEAR * power.sum():
        return None
    return impedance(runs[name], rate, "hand") / impedance(runs[WORLD], rate, "tool")


def deviation(trial: Trial, runs: Mapping[str, Samples], name: str) -> float | None:
    """Largest deviation of the transmitted impedance from the world's, relative to it."""
    found = ratio(trial, runs, name)
    return None if found is None else float(np.abs(found - 1.0).max())


def _transparency(trial: Trial, runs: Mapping[str, Samples]) -> Figure:
    frequencies = BASE * HARMONICS
    found = {name: ratio(trial, runs, name) for name in (THIS, *CONNECTIONS)}
    known = {name: values for name, values in found.items() if values is not None}
    panels = [
        draw(
            f"transparency_{key}",
            title,
            [Line(frequencies, part(values), name, style_of(i)) for i, (name, values) in enumerate(known.items())],
            Axis("frequency [Hz]", log=True),
            axis,
        )
        for key, title, part, axis in (
            ("magnitude", "transmitted impedance over the world's", np.abs, Axis("ratio", log=True)),
            ("phase", "its phase", lambda values: np.angle(values, deg=True), Axis("phase [deg]", least=5.0)),
        )
    ]
    shown = [0, 3, 6, 9, 12]
    table = [["ratio, phase", *(f"{frequencies[i]:g} Hz" for i in shown)]]
    for name, values in known.items():
        numbers = (f"{abs(values[i]):.4g}, {np.angle(values[i], deg=True):.3g}°" for i in shown)
        table.append([name, *numbers])
    caption = (
        "Impedance that the hand feels, pressed against the wall by a sum of sines about a constant force, over that "
        f"of the tool alone under the same wrench; contact stiffness {trial.experiment.contact.stiffness:g} N/m. A "
        "connection with which the hand moves by itself transmits no impedance, and is left out."
    )
    return Figure("Transparency", caption, panels, table)


ANALYSIS = FourChannelStiffness()
