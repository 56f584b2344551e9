"""Effect of the device of a trial: comparison with the same trial on the ideal device (THESIS 4.5).

The ideal device has the same inertia to whoever commands it, and neither motors, friction nor encoders; the rest of the
experiment is the same, and so are the claims, which are judged for the device that the hand holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from haptic_bench.analysis.claims import DeviceComparison, Findings, Quantity
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_view import units
from haptic_view.figures import BLACK, BLUE, Figure, Line, Style, draw

WINDOW = 0.05  # [s] of the mean from which vibration is measured
FORCE = Quantity("Largest rendered force", "N")
TORQUE = Quantity("Largest rendered torque", "N m")
VIBRATION = Quantity("Vibration of the hand: root mean square of what differs from the mean of 50 ms", "mm/s", 1e3)
TOOL = Quantity("Largest distance between hand and tool", "mm", 1e3)
AWAY = Quantity("Largest distance of the hand from where it is on the ideal device", "mm", 1e3)
CURRENT = Quantity("Largest current of a motor", "A")
HEAT = Quantity("Root mean square current of the motor that has most (continuous rating in THESIS D.1: 2 A)", "A")
LIMIT = Quantity("Ticks in which a motor is at its limit")


def on_ideal_device(trial: Trial, samples: Samples) -> Trial | None:
    """The same trial on the ideal device, for as many ticks as there are samples; None: it is on one, or on none.

    Trials of several hands are not compared.
    """
    experiment, device = trial.experiment, trial.experiment.device
    if experiment.hands or not len(samples):
        return None
    ideal_device = device.idealised(lambda: trial.coupled_inertias.device)
    if ideal_device is None:
        return None
    ideal = replace(trial, experiment=experiment.model_copy(update={"device": ideal_device}), built=trial.start)
    return ideal.with_ticks(int(samples["tick"][-1]) + 1)


def compare(
    trial: Trial, samples: Samples, findings: Findings, ideal: Samples, ideal_findings: Findings
) -> DeviceComparison:
    """Compare the metrics and claims of a trial and of the same trial on the ideal device."""
    rows = {name: (quantity, own, other) for name, quantity, own, other in _measure(trial, samples, ideal)}
    metrics = {name: (value, ideal_findings.metrics.get(name)) for name, value in findings.metrics.items()}
    holds = {claim.name: claim.holds for claim in ideal_findings.claims}
    claims = {claim.name: (claim.holds, holds.get(claim.name)) for claim in findings.claims}
    return DeviceComparison(rows, metrics, claims, ideal)


def _measure(
    trial: Trial, samples: Samples, ideal: Samples
) -> Iterator[tuple[str, Quantity, float | None, float | None]]:
    """Name, quantity, value on the device and on the ideal one; None where it has no meaning."""
    device, rate = trial.experiment.device, trial.experiment.rate
    force, torque = (
        [float(np.linalg.norm(run.wrench("rendered")[:, part], axis=1).max()) for run in (samples, ideal)]
        for part in (slice(0, 3), slice(3, 6))
    )
    yield "peak_force", FORCE, force[0], force[1]
    yield "peak_torque", TORQUE, torque[0], torque[1]
    yield "vibration", VIBRATION, _vibration(samples, rate), _vibration(ideal, rate)
    yield "hand_tool_distance", TOOL, _distance(samples, samples, "tool"), _distance(ideal, ideal, "tool")
    rows = min(len(samples), len(ideal))
    yield "away", AWAY, _distance(samples, ideal, "hand") if rows else None, None
    motors = device.motor_currents(samples.pose("hand"), samples.wrench("rendered"))
    if motors is None:
        return
    current, most = motors
    yield "peak_current", CURRENT, float(np.abs(current).max()), None
    yield "continuous_current", HEAT, float(np.sqrt(np.mean(current**2, axis=0)).max()), None
    at_limit = np.abs(current).max(axis=1) >= 0.999 * most
    yield "at_limit", LIMIT, float(np.count_nonzero(at_limit)), None


def _vibration(run: Samples, rate: float) -> float | None:
    """Root mean square of the hand's velocity less its mean over WINDOW [m/s]; None of a shorter run."""
    width = 2 * (round(WINDOW * rate) // 2) + 1
    if len(run) < 2 * width:
        return None
    velocity = run.twist("hand")[:, :3]
    mean = np.stack([np.convolve(v, np.full(width, 1.0 / width), "valid") for v in velocity.T], axis=1)
    fast = velocity[width // 2 : width // 2 + len(mean)] - mean
    return float(np.sqrt(np.mean(np.sum(fast**2, axis=1))))


def _distance(run: Samples, other: Samples, what: str) -> float:
    """Largest distance of a run's hand from `what` of another in the same tick [m]."""
    _, mine, theirs = np.intersect1d(run["tick"], other["tick"], return_indices=True)
    distance = run.pose("hand")[mine, :3] - other.pose(what)[theirs, :3]
    return float(np.linalg.norm(distance, axis=1).max(initial=0.0))


def figures(findings: Findings, samples: Samples, quantity_of: Callable[[str], Quantity | None]) -> list[Figure]:
    """Figure and tables of the effect of the device; none where the trial is on the ideal device.

    Args:
        analysis, samples: of the trial.
        quantity_of: the quantity of a metric by its name.
    """
    found = findings.device
    if found is None:
        return []
    runs = (("this device", samples, Style(BLUE, width=2.0)), ("ideal device", found.ideal, Style(BLACK, (2.2, 1.3))))
    path = [Line(1e3 * run["hand_px"], 1e3 * run["hand_py"], label, style) for label, run, style in runs]
    force = [
        Line(run["time"], np.linalg.norm(run.wrench("rendered")[:, :3], axis=1), label, style, steps=True)
        for label, run, style in runs
    ]
    speed = [
        Line(run["time"], 1e3 * np.linalg.norm(run.twist("hand")[:, :3], axis=1), label, style)
        for label, run, style in runs
    ]
    panels = [
        draw("device_path", "(a) path of the hand", path, "x [mm]", "y [mm]", equal=True),
        draw("device_force", "(b) rendered force", force, "time [s]", "force [N]"),
        draw("device_speed", "(c) measured speed of the hand", speed, "time [s]", "speed [mm/s]"),
    ]
    head = ["", "this device", "ideal device"]
    shown = [(quantity, own, other) for quantity, own, other in found.quantities.values()]
    others = {name: pair for name, pair in found.metrics.items() if name not in found.quantities}
    shown += [(quantity, *pair) for name, pair in others.items() if (quantity := quantity_of(name)) is not None]
    table = [head] + [[_titled(quantity), *(_text(quantity, one) for one in pair)] for quantity, *pair in shown]
    text = (
        "The same trial on a device of the same inertia to its controller, without motors, friction and encoders. The "
        "rendered force includes what the drive renders to give the device this inertia."
    )
    differ = {name: pair for name, pair in found.claims.items() if pair[0] != pair[1]}
    if found.claims:
        text += f" Of {len(found.claims)} claims, {len(differ)} are judged otherwise on this device."
    made = [Figure("What the device changes", text, panels, table)]
    if differ:
        words = {True: "holds", False: "does not hold", None: "undecided"}
        statements = {claim.name: claim.statement for claim in findings.claims}
        rows = [[statements[name], words[own], words[other]] for name, (own, other) in differ.items()]
        made.append(
            Figure("Claims that are judged otherwise", "On this device, and on the ideal one.", [], [head, *rows])
        )
    return made


def _titled(quantity: Quantity) -> str:
    return quantity.text + (f" [{quantity.unit}]" if quantity.unit else "")


def _text(quantity: Quantity, value: float | None) -> str:
    return "" if value is None else units.text(quantity.scale * value, 4)
