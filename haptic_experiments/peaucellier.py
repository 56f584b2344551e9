"""Peaucellier's linkage (1864): seven rods that draw a straight line, in closed loops."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import formula_systems
from haptic_experiments.common.formula_systems import FormulaAnalysis, Motion, claims_of, over_time, thin_path
from haptic_view.figures import BLUE, GREEN, VERMILION, Axis, Figure, Line, Style, draw, thin

EXACT = 1e-9  # of the length of the line's distance
STROKE = 0.2  # of the same: a point that hardly moves draws no line
EVERY = 0.5  # [s] between the linkages that are drawn
SHOWN = 3.0  # [s] of the motion

METRICS = {
    "line_error": Quantity("Largest distance of P from the line", "nm", 1e9),
    "stroke": Quantity("Length of the line that P draws", "mm", 1e3),
    "inversion_error": Quantity("Largest relative error of the product of the distances"),
    **formula_systems.METRICS,
}
STRAIGHT_LINE = Statement(
    "straight_line",
    "The outer corner P stays on the line y = -(L^2 - s^2) / (2 d), to 1e-9 of its distance, while it moves along it "
    "by more than a fifth of that",
    "Peaucellier 1864",
    Quantity("largest error; stroke", "m"),
)
INVERSION = Statement(
    "inversion",
    "The linkage inverts: the distances of both corners from the fixed joint have the product L^2 - s^2, and their "
    "directions are the same, to 1e-9",
    "Peaucellier 1864; Lipkin 1871",
    Quantity("largest error, relative; largest angle [rad]"),
)


class Peaucellier(FormulaAnalysis):
    METRICS = METRICS
    CLAIMS = claims_of(STRAIGHT_LINE, INVERSION)
    COORDINATES = ("xA", "yA", "xB", "yB", "xC", "yC", "xP", "yP")
    PARAMETERS = ("L", "s", "d")

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        p = motion.parameters
        away = _line(p)
        error = float(np.abs(motion.q("yP") + away).max())
        stroke = float(np.ptp(motion.q("xP")))
        C, P = motion.q("xC", "yC"), motion.q("xP", "yP")
        product = np.linalg.norm(C, axis=1) * np.linalg.norm(P, axis=1) / (p["L"] ** 2 - p["s"] ** 2) - 1.0
        inverts = float(np.abs(product).max())
        angle = float(np.abs(np.arctan2(C[:, 0] * P[:, 1] - C[:, 1] * P[:, 0], np.sum(C * P, axis=1))).max())
        metrics: dict[str, float | None] = {"line_error": error, "stroke": stroke, "inversion_error": inverts}
        straight = error < EXACT * away
        return metrics, [
            STRAIGHT_LINE.judged(
                {"error": error, "stroke": stroke},
                straight if stroke > STROKE * away or not straight else None,
                "P has hardly moved",
            ),
            INVERSION.judged({"product": inverts, "angle": angle}, inverts < EXACT and angle < EXACT),
        ]

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """The linkage in several positions, and the motion of P."""
        step = max(1, round(EVERY * motion.trial.experiment.rate))
        d = motion.parameters["d"]
        lasts = motion.time <= motion.time[0] + SHOWN
        joints = {name: motion.q(f"x{name}", f"y{name}")[lasts][::step] for name in "ABCP"}
        rows = len(joints["A"])
        fixed = {"O": np.zeros((rows, 2)), "Q": np.tile([0.0, -d], (rows, 1))}
        lines = [
            Line(*thin_path(*motion.q("xP", "yP").T), "path of P", Style(VERMILION, width=2.2)),
            Line(*thin_path(*motion.q("xC", "yC").T), "path of C", Style(GREEN, width=1.8)),
            _rods(joints | fixed, ("OA", "OB"), "long rods", Style(BLUE, width=0.8)),
            _rods(joints | fixed, ("AC", "BC", "AP", "BP"), "rhombus", Style("#7f9db9", width=0.8)),
            _rods(joints | fixed, ("QC",), "crank", Style("#444444", width=0.8)),
        ]
        error = motion.q("yP") + _line(motion.parameters)
        panels = [
            draw(
                "linkage",
                f"The linkage every {EVERY:g} s, for {SHOWN:g} s",
                lines,
                "x [m]",
                "y [m]",
                equal=True,
                tall=True,
            ),
            over_time("stroke", "Motion of P along the line", motion, "x [m]", P=(motion.q("xP"), Style(BLUE))),
            draw(
                "line_error",
                "Distance of P from the line",
                [Line(*thin(motion.time, 1e9 * error), "P", Style(VERMILION))],
                "time [s]",
                Axis("distance [nm]", least=1.0),
            ),
        ]
        caption = (
            "C turns on a circle through the fixed joint (0, 0); the rhombus inverts the circle to a line. P is pushed "
            "along it by the operator, and swings under gravity."
        )
        return [Figure("Motion", caption, panels)]


def _line(p: Mapping[str, float]) -> float:
    """Distance of the line from the fixed joint [m]."""
    return (p["L"] ** 2 - p["s"] ** 2) / (2.0 * p["d"])


def _rods(joints: Mapping[str, np.ndarray], names: tuple[str, ...], label: str, style: Style) -> Line:
    """Rods between joints, each with its two letters, as one broken line."""
    pieces = []
    for name in names:
        first, second = name[0], name[1]
        gap = np.full_like(joints[first], math.nan)
        pieces.append(np.stack([joints[first], joints[second], gap], axis=1).reshape(-1, 2))
    points = np.concatenate(pieces)
    return Line(points[:, 0], points[:, 1], label, style)


ANALYSIS = Peaucellier()
