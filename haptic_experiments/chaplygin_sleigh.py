"""Chaplygin's sleigh: a body on a knife edge (Chaplygin 1911). Does it turn around, and tend to a straight line?"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import formula_systems
from haptic_experiments.common.formula_systems import (
    NO_OPERATOR,
    FormulaAnalysis,
    Motion,
    claims_of,
    over_time,
    thin_path,
)
from haptic_view.figures import BLACK, BLUE, VERMILION, Axis, Figure, Line, Style, draw

EXACT = 1e-7  # error of the speed and the rate of turning, relative to those of all of the energy
STRAIGHT = 1e-2  # rate of turning that is left, relative to the largest

METRICS = {
    "speed_error": Quantity("Largest error of the speed from the closed form, relative to that of all energy"),
    "turning_error": Quantity("Largest error of the rate of turning from the closed form, relative"),
    "heading_change": Quantity("Change of the heading", "deg", 180.0 / math.pi),
    "final_speed": Quantity("Speed of the knife edge at the end", "m/s"),
    "turning_left": Quantity("Rate of turning at the end, of the largest"),
    **formula_systems.METRICS,
}
CLOSED_FORM = Statement(
    "closed_form",
    "Speed of the knife edge and rate of turning are V tanh and V/k sech of the time, to 1e-7 of V and V/k",
    "Chaplygin 1911: u' = a w^2, k^2 w' = -a u w, with m k^2 = I + m a^2",
    Quantity("largest errors, relative"),
)
STRAIGHT_LINE = Statement(
    "straight_line",
    "The sleigh tends to a straight line, with its centre of mass ahead of the knife edge: the rate of turning at the "
    "end is below 1 % of the largest",
    "u' = a w^2 >= 0",
    Quantity("rate of turning at the end, of the largest; speed [m/s]"),
)


def closed_form(parameters: Mapping[str, float], u: float, w: float, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Speed of the knife edge [m/s] and rate of turning [rad/s] over time, from u and w at time[0].

    Sides of u^2 + k^2 w^2 = V^2: u = V tanh(x), k w = V sech(x), x' = a V / k^2.
    """
    m, a = parameters["m"], parameters["a"]
    k = math.sqrt(parameters["I"] / m + a * a)
    V = math.hypot(u, k * w)
    if w == 0.0:  # straight on for ever
        return np.full(time.shape, u), np.zeros(time.shape)
    x = math.asinh(u / (k * abs(w))) + a * V / k**2 * (time - time[0])
    return V * np.tanh(x), math.copysign(V / k, w) / np.cosh(x)


class ChaplyginSleigh(FormulaAnalysis):
    METRICS = METRICS
    CLAIMS = claims_of(CLOSED_FORM, STRAIGHT_LINE)
    COORDINATES = ("x", "y", "phi")
    PARAMETERS = ("m", "I", "a")

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        u, w = _edge(motion)
        exact_u, exact_w = closed_form(motion.parameters, u[0], w[0], motion.time)
        k = math.sqrt(motion.parameters["I"] / motion.parameters["m"] + motion.parameters["a"] ** 2)
        V = math.hypot(u[0], k * w[0])
        speed, turning = (
            (float(np.abs(u - exact_u).max()) / V, float(np.abs(w - exact_w).max()) * k / V) if V else (0.0, 0.0)
        )
        largest = float(np.abs(w).max())
        left = float(abs(w[-1])) / largest if largest else None
        phi = motion.q("phi")
        metrics: dict[str, float | None] = {
            "speed_error": speed,
            "turning_error": turning,
            "heading_change": float(phi[-1] - phi[0]),
            "final_speed": float(u[-1]),
            "turning_left": left,
        }
        straight = left is not None and left < STRAIGHT and float(u[-1]) > 0.0
        decided = w[0] != 0.0 and not motion.pushed and abs(exact_w[-1]) < STRAIGHT * np.abs(exact_w).max()
        return metrics, [
            CLOSED_FORM.judged(
                {"speed": speed, "turning": turning},
                None if motion.pushed else speed < EXACT and turning < EXACT,
                NO_OPERATOR,
            ),
            STRAIGHT_LINE.judged(
                {"turning": left, "speed": float(u[-1])},
                straight if decided else None,
                NO_OPERATOR if motion.pushed else "by the closed form it is not there yet",
            ),
        ]

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """Path, and speed beside the closed form."""
        u, w = _edge(motion)
        exact_u, exact_w = closed_form(motion.parameters, u[0], w[0], motion.time)
        x, y, phi = motion.q("x", "y", "phi").T
        a = motion.parameters["a"]
        edge = Line(*thin_path(x - a * np.cos(phi), y - a * np.sin(phi)), "knife edge", Style(VERMILION, width=1.8))
        centre = Line(*thin_path(x, y), "centre of mass", Style(BLUE, (5, 1.8)))
        panels = [
            draw("path", "Path, seen from above", [edge, centre], "x [m]", Axis("y [m]", least=0.1), equal=True),
            over_time(
                "speed",
                "Speed of the knife edge",
                motion,
                "speed [m/s]",
                closed_form=(exact_u, Style(BLACK, (3, 3))),
                simulated=(u, Style(BLUE, width=2.2)),
            ),
            over_time(
                "turning",
                "Rate of turning",
                motion,
                "rate [rad/s]",
                closed_form=(exact_w, Style(BLACK, (3, 3))),
                simulated=(w, Style(BLUE, width=2.2)),
            ),
        ]
        caption = (
            "The sleigh starts backwards, with the knife edge ahead. That motion is unstable: the sleigh turns around "
            "and goes on with its centre of mass ahead, along a straight line. No energy is lost."
        )
        return [Figure("Motion", caption, panels)]


def _edge(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Speed of the knife edge along itself [m/s], and rate of turning [rad/s]."""
    vx, vy, w = motion.v("x", "y", "phi").T
    phi = motion.q("phi")
    return np.cos(phi) * vx + np.sin(phi) * vy, w


ANALYSIS = ChaplyginSleigh()
