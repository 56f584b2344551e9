"""Tracking error of an admittance device (FAULRING IV): metrics, a claim and a figure for any analysis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from haptic_bench.analysis.claims import Claim, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.operators import build_operator
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Axis,
    Figure,
    Line,
    Style,
    draw,
    thin,
)

IMPEDANCE_DISPLAY = 1e4  # [N/m] FAULRING IV-A: "can only render constraints of a few kN/m"

METRICS = {
    "tracking_error": Quantity("Largest distance of the device from the tool", "µm", 1e6),
    "tracking_angle": Quantity("Largest rotation of the device from the tool", "mrad", 1e3),
    "tracking_error_rms": Quantity("Root mean square of the distance of the device from the tool", "µm", 1e6),
    "sensor_error": Quantity("Root mean square of the sensed force less the operator's", "N"),
    "drive_force": Quantity("Largest force of the drive", "N"),
    "drive_limited": Quantity("Time for which the drive was at its limit", "s"),
}
DEVICE_FOLLOWS = Statement(
    "device_follows",
    "The device stays with its tool, and so on the tool's constraints: nearer than an impedance display of 10 kN/m "
    "would be that yields to the operator's largest force",
    "FAULRING IV-A (impedance displays: a few kN/m); its errors are in figures 9, 11 and 12 only",
    Quantity("distance, and what would yield as much"),
)
CLAIMS = (DEVICE_FOLLOWS,)
_AXES = (("x", BLUE, ()), ("y", VERMILION, (5, 1.8)), ("z", GREEN, (5, 1.6, 1.2, 1.6)))


def is_tracked(experiment: Experiment) -> bool:
    """Whether the device is moved as the tool moves, as an admittance device."""
    return experiment.device.tracking is not None


def errors(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the device at t_k, in world axes: positions [m], rotation vectors [rad] to the tool, (rows, 3) each."""
    tool, hand = samples.pose("tool"), samples.pose("hand")
    a, b = tool[:, 3:], hand[:, 3:]
    vector = b[:, 3:] * a[:, :3] - a[:, 3:] * b[:, :3] - np.cross(a[:, :3], b[:, :3])  # of R_tool R_hand^T
    scalar = np.sum(a * b, axis=1, keepdims=True)
    sine = np.linalg.norm(vector, axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, np.abs(scalar)) * np.where(scalar < 0.0, -1.0, 1.0)
    return tool[:, :3] - hand[:, :3], angle * vector / np.where(sine > 0.0, sine, 1.0)


def operator_wrench(trial: Trial, samples: Samples) -> np.ndarray | None:
    """Wrench of the operator at t_k, computed again from the device's states (rows, 6) [N, N m].

    The samples have what the device sensed. None where rows are missing: an operator may remember.
    """
    ticks, rate = samples["tick"], trial.experiment.rate
    if not ticks.size or ticks[0] != 0 or ticks[-1] != ticks.size - 1:
        return None
    if trial.experiment.operator.EVENTS:  # its events are in the bag
        return None
    operator = build_operator(trial.experiment.operator, trial.table, trial.experiment.seed)
    wrenches = np.zeros((len(samples), 6))
    rows = zip(ticks.tolist(), samples.pose("hand"), samples.twist("hand"), wrenches, strict=True)
    for tick, pose, twist, wrench in rows:
        operator.wrench(tick / rate, np.ascontiguousarray(pose), np.ascontiguousarray(twist), wrench)
    return wrenches


def metrics(trial: Trial, samples: Samples) -> dict[str, float | None]:
    """Values of METRICS; None each where the device is another."""
    experiment = trial.experiment
    if (tracking := experiment.device.tracking) is None:
        return dict.fromkeys(METRICS)
    position, rotation = (np.linalg.norm(error, axis=1) for error in errors(samples))
    limited = np.abs(samples.wrench("rendered")) >= tracking.limit
    applied = operator_wrench(trial, samples)
    noise = None if applied is None else np.linalg.norm(samples.wrench("operator")[:, :3] - applied[:, :3], axis=1)
    return {
        "tracking_error": float(position.max()),
        "tracking_angle": float(rotation.max()),
        "tracking_error_rms": float(np.sqrt(np.mean(position**2))),
        "sensor_error": None if noise is None else float(np.sqrt(np.mean(noise**2))),
        "drive_force": float(np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1).max()),
        "drive_limited": float(np.any(limited, axis=1).sum()) / experiment.rate,
    }


def claims(trial: Trial, samples: Samples, found: Mapping[str, float | None]) -> list[Claim]:
    """Claims about the display by FAULRING; `found` are the metrics."""
    distance = found["tracking_error"]
    if distance is None:
        return []
    applied = operator_wrench(trial, samples)
    force = float(np.linalg.norm((samples.wrench("operator") if applied is None else applied)[:, :3], axis=1).max())
    yields = force / IMPEDANCE_DISPLAY
    measured = {"distance [m]": distance, "yielding [m]": yields, "largest force [N]": force}
    return [DEVICE_FOLLOWS.judged(measured, distance < yields if force > 0.0 else None)]


def figure(trial: Trial, samples: Samples) -> Figure:
    """Figure of tool and device, of the error between them, and of the force sensor."""
    time = samples["time"]
    position, rotation = errors(samples)
    applied, sensed = operator_wrench(trial, samples), samples.wrench("operator")
    paths = [
        Line(1e3 * samples["hand_px"], 1e3 * samples["hand_py"], "device", Style(VERMILION, (5, 1.8), 1.2)),
        Line(1e3 * samples["tool_px"], 1e3 * samples["tool_py"], "tool", Style("#9ec5e8", width=3.2)),
    ]
    panels = [
        draw("device_path", "Tool and device, seen along z", paths, "x [mm]", Axis("y [mm]", least=1.0), equal=True),
        draw("device_position", "Tool less device: position", _three(time, 1e6 * position), "time [s]", "error [µm]"),
        draw("device_rotation", "Tool less device: rotation", _three(time, 1e3 * rotation), "time [s]", "error [mrad]"),
    ]
    for kind, unit, first in (("force", "N", 0), ("torque", "N m", 3)):
        lines = []
        if applied is not None:
            lines = [
                Line(*thin(time, applied[:, first + i]), f"applied, {axis}", Style(BLACK, dashes, 1.3))
                for i, (axis, _, dashes) in enumerate(_AXES)
            ]
        lines += [
            Line(*thin(time, sensed[:, first + i]), f"sensed, {axis}", Style(colour, width=0.9))
            for i, (axis, colour) in enumerate(zip("xyz", (SKY, ORANGE, PURPLE), strict=True))
        ]
        title = f"Operator's {kind}, applied and sensed"
        panels.append(draw(f"sensed_{kind}", title, lines, "time [s]", Axis(f"{kind} [{unit}]", least=0.01)))
    drive = _three(time, samples.wrench("rendered")[:, :3])
    panels.append(draw("drive_force", "Force of the drive", drive, "time [s]", Axis("force [N]", least=0.1)))
    return Figure("Tool and device", _caption(trial), panels)


def _three(time: np.ndarray, values: np.ndarray) -> list[Line]:
    """Components along the axes."""
    return [
        Line(*thin(time, values[:, i]), axis, Style(colour, dashes)) for i, (axis, colour, dashes) in enumerate(_AXES)
    ]


def _caption(trial: Trial) -> str:
    tracking = trial.experiment.device.tracking
    return (
        "Both at t_k: the tool answers tick k with its state at its end, the device is commanded the tool's mean "
        "acceleration over the same tick and a feedback of their difference. "
        f"{tracking.text if tracking else ''} Held accelerations and semi-implicit Euler place it T/2 times the "
        "acceleration, each tick, from a tool that is integrated to a higher order, which the feedback takes back: a "
        f"part of the error is that. {_hand(trial)}"
    )


def _hand(trial: Trial) -> str:
    if trial.experiment.operator.REACTS:
        return "The hand reacts to the device, so that the display is stable here is a statement about this hand."
    return (
        "The hand follows its script and does not react: that nothing oscillates says nothing of a hand that holds on."
    )
