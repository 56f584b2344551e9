"""A ball that rolls in a spherical bowl: period, spin and energy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import formula_systems
from haptic_experiments.common.formula_systems import (
    NO_OPERATOR,
    FormulaAnalysis,
    Motion,
    claims_of,
    over_time,
    thin_path,
    with_parameters,
)
from haptic_view.figures import BLUE, GREEN, ORANGE, VERMILION, Axis, Figure, Line, Style, draw

PERIOD = 1e-6  # relative error of the period
SPIN = 1e-9  # error of the spin, relative to the largest angular velocity
SIDEWAYS, SPINNING = 0.5, 20.0  # [m/s], [rad/s] start of the ball that rolls beside
ASIDE = "rolled sideways, with spin"
PLANE = 1e-9  # part of the motion that may be out of a vertical plane

METRICS = {
    "period": Quantity("Mean period of the swings", "s"),
    "spin_change": Quantity("Largest change of the spin about the normal", "rad/s"),
    "depth": Quantity("Largest height above the lowest point", "mm", 1e3),
    **formula_systems.METRICS,
}
PERIOD_IS_KNOWN = Statement(
    "period",
    "The ball swings with the period 4 sqrt(7 (R - r) / (5 g)) K(sin(angle/2)), K the complete elliptic integral: 1e-6",
    "pendulum of the length 7 (R - r) / 5",
    Quantity("period", "s"),
)
SPIN_IS_KEPT = Statement(
    "spin_is_kept",
    "The angular velocity about the normal of the bowl is constant, whatever the path (also of a ball that is rolled "
    "sideways with a spin of 20 rad/s): to 1e-9 of the largest one",
    "Routh 1905: a sphere that rolls on a sphere",
    Quantity("largest change", "rad/s"),
)


def period(parameters: Mapping[str, float], angle: float) -> float:
    """Period [s] of a ball that is released at an angle [rad] from the lowest point."""
    from scipy.special import ellipk

    length = 1.4 * (parameters["R"] - parameters["r"])  # 7/5: of a homogeneous ball
    return float(4.0 * math.sqrt(length / parameters["g"]) * ellipk(math.sin(0.5 * angle) ** 2))


class BallInBowl(FormulaAnalysis):
    METRICS = METRICS
    CLAIMS = claims_of(PERIOD_IS_KNOWN, SPIN_IS_KEPT)
    COORDINATES = ("x", "y", "z", "e0", "e1", "e2", "e3")
    PARAMETERS = ("m", "r", "R", "g", "v", "spin")

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The same ball, rolled sideways with a spin."""
        return {ASIDE: with_parameters(trial, 4.0, v=SIDEWAYS, spin=SPINNING)}

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        found, exact = _period(motion), _exact_period(motion)
        spin, omega = _spin(motion)
        change = _change(spin)
        aside = _change(_spin(Motion(motion.trial, references[ASIDE]))[0]) if ASIDE in references else None
        fast = float(np.linalg.norm(omega, axis=1).max())
        z, reach = motion.q("z"), motion.parameters["R"] - motion.parameters["r"]
        metrics: dict[str, float | None] = {
            "period": found,
            "spin_change": change,
            "depth": float(z.max()) + reach,
        }
        decided = found is not None and exact is not None
        return metrics, [
            PERIOD_IS_KNOWN.judged(
                {"period": found, "closed form": exact},
                abs(found - exact) < PERIOD * exact if found is not None and exact is not None else None,
                "" if decided else "it is that of swings in a vertical plane from rest, without an operator",
            ),
            SPIN_IS_KEPT.judged(
                {"change": change, "sideways": aside, "largest": fast},
                max(change, aside) < SPIN * fast if aside is not None and not motion.pushed else None,
                NO_OPERATOR if motion.pushed else "",
            ),
        ]

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        claim = next(claim for claim in findings.claims if claim.name == "period")
        exact = claim.measured["closed form"]
        return {} if exact is None else {"period": (exact, "4 sqrt(7 (R - r) / (5 g)) K")}

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """Path and angular velocity."""
        x, y, z = motion.q("x", "y", "z").T
        _, omega = _spin(motion)
        spin, _ = _spin(motion)
        turn = np.linspace(-0.5 * math.pi, 0.5 * math.pi, 181)
        R, r = motion.parameters["R"], motion.parameters["r"]
        side = [
            Line(*thin_path(x, z), "centre of the ball", Style(BLUE, width=1.8)),
            Line(R * np.sin(turn), -R * np.cos(turn), "bowl", Style("#8a8f98")),
        ]
        above = [Line(*thin_path(x, y), "this run", Style(BLUE, width=1.8))]
        if ASIDE in findings.references:
            beside = Motion(motion.trial, findings.references[ASIDE])
            above.append(Line(*thin_path(*beside.q("x", "y").T), ASIDE, Style(ORANGE, (5, 1.8))))
        panels = [
            draw("side", "From the side", side, "x [m]", "z [m]", equal=True),
            draw("above", "From above", above, "x [m]", Axis("y [m]", least=0.1 * (R - r)), equal=True),
            over_time(
                "spin",
                "Angular velocity",
                motion,
                "angular velocity [rad/s]",
                about_the_normal=(spin, Style(VERMILION)),
                about_y=(omega[:, 1], Style(GREEN, (5, 1.8))),
            ),
        ]
        caption = (
            "The ball rolls without slip, so it swings as a pendulum of 7/5 of its distance from the bowl's centre."
        )
        return [Figure("Motion", caption, panels)]


def _change(spin: np.ndarray) -> float:
    return float(np.abs(spin - spin[0]).max())


def _exact_period(motion: Motion) -> float | None:
    """Closed form; None where the motion is no swing from rest in a vertical plane."""
    x, y, z = motion.q("x", "y", "z").T
    across = abs(float(x[0])) * np.abs(y) if y[0] == 0.0 else np.abs(x * y[0] - y * x[0])
    away = math.hypot(float(x[0]), float(y[0]))
    still = not motion.v("x", "y", "z")[0].any() and not motion.v("e0", "e1", "e2", "e3")[0].any()
    if motion.pushed or not still or away == 0.0 or float(across.max()) > PLANE * away * away:
        return None
    return period(motion.parameters, math.atan2(away, -float(z[0])))


def _period(motion: Motion) -> float | None:
    """Mean period of the passages through the lowest point [s]; None if there are less than three.

    The time of a passage is that of the cubic through position and velocity on both sides.
    """
    axis = motion.q("x", "y")[0]
    if not axis.any():
        return None
    along, rate = (columns @ axis for columns in (motion.q("x", "y"), motion.v("x", "y")))
    passages = []
    for row in np.flatnonzero((along[:-1] > 0.0) != (along[1:] > 0.0)):
        h = motion.time[row + 1] - motion.time[row]
        a, b, da, db = along[row], along[row + 1], h * rate[row], h * rate[row + 1]
        cubic = np.array([2.0 * (a - b) + da + db, 3.0 * (b - a) - 2.0 * da - db, da, a])
        s = a / (a - b)
        for _ in range(4):
            s -= np.polyval(cubic, s) / np.polyval(np.polyder(cubic), s)
        passages.append(float(motion.time[row] + h * s))
    whole = (len(passages) - 1) // 2 * 2
    return 2.0 * (passages[whole] - passages[0]) / whole if whole else None


def _spin(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Angular velocity about the normal of the bowl (rows,), and in world axes (rows, 3) [rad/s]."""
    e0, e1, e2, e3 = motion.q("e0", "e1", "e2", "e3").T
    d0, d1, d2, d3 = motion.v("e0", "e1", "e2", "e3").T
    omega = 2.0 * np.stack(
        [
            e0 * d1 - e1 * d0 + e2 * d3 - e3 * d2,
            e0 * d2 - e2 * d0 + e3 * d1 - e1 * d3,
            e0 * d3 - e3 * d0 + e1 * d2 - e2 * d1,
        ],
        axis=-1,
    )
    normal = -motion.q("x", "y", "z")
    return np.sum(omega * normal, axis=1) / np.linalg.norm(normal, axis=1), omega


ANALYSIS = BallInBowl()
