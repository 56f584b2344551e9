"""The snakeboard: a board that moves by wriggling (Ostrowski, Lewis, Murray, Burdick 1994).

With both trucks turned by phi against each other, the wheels leave free one direction of forward speed u and rate of
turning w, which is (1, tan(phi) / l). The momentum along it is p = m u + tan(phi) H / l, with the angular momentum
H = (J + Jr + 2 Jw) w + Jr psi'. The wheels do no work along it, but it changes: p' = (1 + tan(phi)^2) phi' H / l.
"""

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
from haptic_view.figures import BLACK, BLUE, GREEN, VERMILION, Axis, Figure, Line, Style, draw, thin

MOMENTUM = 1e-4  # error of the momentum, of the largest: that of the trapezoids at 1 kHz is 1e-5
SPEED = 1e-6  # error of the gain of speed in a cycle
MOVED = 1.0  # [m] from where the board began

METRICS = {
    "momentum_error": Quantity("Largest error of the momentum equation", "kg m/s"),
    "gain": Quantity("Mean gain of forward speed in a cycle", "m/s"),
    "distance": Quantity("Distance from the start at the end", "m"),
    "heading_change": Quantity("Change of the heading", "deg", 180.0 / math.pi),
    **formula_systems.METRICS,
}
MOMENTUM_EQUATION = Statement(
    "momentum_equation",
    "The momentum along the directions that the wheels leave free changes as the momentum equation says, to 1e-4 of "
    "the largest",
    "Ostrowski et al. 1994; Bloch, Krishnaprasad, Marsden, Murray 1996",
    Quantity("largest error", "kg m/s"),
)
GAINS_SPEED = Statement(
    "gains_speed",
    "Each cycle of the drives adds 2 pi Jr psi w J1(phi) / (m l) to the speed, to 1e-6 of it (psi, phi: amplitudes; "
    "where J + Jr + 2 Jw = m l^2)",
    "momentum equation, integrated over a cycle: the area that sin(phi) and psi' enclose",
    Quantity("gain in a cycle", "m/s"),
)
WRIGGLES = Statement(
    "wriggles",
    "From rest, and without any force from outside but that of the wheels, the board gets more than a metre away",
    "Ostrowski et al. 1994",
    Quantity("distance", "m"),
)


class Snakeboard(FormulaAnalysis):
    METRICS = METRICS
    CLAIMS = claims_of(MOMENTUM_EQUATION, GAINS_SPEED, WRIGGLES, conservative=False)
    COORDINATES = ("x", "y", "theta", "psi", "phi")
    PARAMETERS = ("m", "l", "J", "Jr", "Jw", "turn", "swing", "w")
    CONSERVATIVE = False

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        p, time = motion.parameters, motion.time
        speed, momentum, expected = _momentum(motion)
        error, largest = float(np.abs(momentum - expected).max()), float(np.abs(momentum).max())
        rows = _cycles(motion)
        gain = float(speed[rows[-1]] - speed[rows[0]]) / (len(rows) - 1) if len(rows) > 1 else None
        exact = _gain(p)
        x, y = motion.q("x", "y").T
        away = math.hypot(float(x[-1] - x[0]), float(y[-1] - y[0]))
        gains: bool | None = None
        if gain is not None and exact is not None and not motion.pushed:
            steps = np.diff(speed[rows])
            gains = bool(np.abs(steps - exact).max() < SPEED * abs(exact))
        metrics: dict[str, float | None] = {
            "momentum_error": error,
            "gain": gain,
            "distance": away,
            "heading_change": float(motion.q("theta")[-1] - motion.q("theta")[0]),
        }
        return metrics, [
            MOMENTUM_EQUATION.judged(
                {"error": error, "largest momentum": largest}, error < MOMENTUM * largest if largest > 0.0 else None
            ),
            GAINS_SPEED.judged(
                {"gain": gain, "closed form": exact},
                gains,
                NO_OPERATOR if motion.pushed else "it needs a whole cycle in whole ticks, and J + Jr + 2 Jw = m l^2",
            ),
            WRIGGLES.judged({"distance": away}, away > MOVED if not motion.pushed and time.size > 1 else None),
        ]

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """The track, the drives, speed and momentum."""
        speed, momentum, expected = _momentum(motion)
        rows, exact = _cycles(motion), _gain(motion.parameters)
        x, y = motion.q("x", "y").T
        lines = [Line(*thin(motion.time, speed), "simulated", Style(BLUE))]
        if exact is not None and len(rows):
            marks = float(speed[0]) + exact * np.arange(len(rows))
            lines.insert(
                0, Line(motion.time[rows], marks, "closed form, after each cycle", Style(VERMILION), points=True)
            )
        panels = [
            draw(
                "track",
                "Track of the board, seen from above",
                [Line(*thin_path(x, y), "centre", Style(BLUE))],
                "x [m]",
                Axis("y [m]", least=0.1),
                equal=True,
            ),
            over_time(
                "drives",
                "Drives",
                motion,
                "angle [rad]",
                rotor_psi=(motion.q("psi"), Style(BLUE)),
                trucks_phi=(motion.q("phi"), Style(VERMILION, (5, 1.8))),
                heading_theta=(motion.q("theta"), Style(GREEN, (8, 2))),
            ),
            draw("speed", "Forward speed", lines, "time [s]", Axis("speed [m/s]", least=0.1)),
            over_time(
                "momentum",
                "Momentum along the free direction",
                motion,
                "momentum [kg m/s]",
                momentum_equation=(expected, Style(BLACK, (3, 3))),
                simulated=(momentum, Style(BLUE, width=2.2)),
            ),
        ]
        caption = (
            "The rotor swings, and the trucks turn in phase with it. No force from outside acts along the board but "
            "those of its wheels, which do no work; so the board gains speed in every cycle."
        )
        return [Figure("Motion", caption, panels)]


def _momentum(motion: Motion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forward speed [m/s], momentum along the free direction, and by the momentum equation [kg m/s], (rows,) each."""
    p = motion.parameters
    m, half, Jr = p["m"], p["l"], p["Jr"]
    inertia = p["J"] + Jr + 2.0 * p["Jw"]
    theta, phi = motion.q("theta", "phi").T
    vx, vy, turning, psi_rate, phi_rate = motion.v("x", "y", "theta", "psi", "phi").T
    speed = np.cos(theta) * vx + np.sin(theta) * vy
    tangent = np.tan(phi)
    spin = inertia * turning + Jr * psi_rate  # angular momentum; the trucks turn against each other
    momentum = m * speed + tangent / half * spin
    wrench = motion.samples.wrench("operator")
    pushed = np.cos(theta) * wrench[:, 0] + np.sin(theta) * wrench[:, 1] + tangent / half * wrench[:, 5]
    rate = (1.0 + tangent**2) * phi_rate * spin / half + pushed
    steps = 0.5 * (rate[1:] + rate[:-1]) * np.diff(motion.time)
    return speed, momentum, momentum[0] + np.concatenate([[0.0], np.cumsum(steps)])


def _cycles(motion: Motion) -> np.ndarray:
    """Rows at the beginnings of the drives' cycles; none where these are not at whole ticks."""
    rate, w = motion.trial.experiment.rate, motion.parameters["w"]
    if w <= 0.0:
        return np.zeros(0, dtype=int)
    ticks = 2.0 * math.pi / w * rate
    whole = round(ticks)
    if abs(ticks - whole) > 1e-6 or whole < 1:
        return np.zeros(0, dtype=int)
    return np.flatnonzero(np.round(motion.time * rate).astype(int) % whole == 0)


def _gain(p: Mapping[str, float]) -> float | None:
    """Gain of the speed in a cycle [m/s]; None where the moments of inertia are not those of the closed form."""
    from scipy.special import j1

    if not math.isclose(p["J"] + p["Jr"] + 2.0 * p["Jw"], p["m"] * p["l"] ** 2, rel_tol=1e-9):
        return None
    return float(2.0 * math.pi * p["Jr"] * p["swing"] * p["w"] * j1(p["turn"]) / (p["m"] * p["l"]))


ANALYSIS = Snakeboard()
