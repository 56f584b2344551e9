"""The benchmark bicycle (Meijaard, Papadopoulos, Ruina, Schwab 2007): where does it keep itself upright?

The formulas are those of the bicycle itself, with finite angles; they are linearised here by differences, about upright
motion straight ahead, and stand beside the linearised equations of the paper (its appendix A).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common import formula_systems
from haptic_experiments.common.formula_systems import (
    FormulaAnalysis,
    Motion,
    claims_of,
    over_time,
    thin_path,
    with_parameters,
)
from haptic_sim.constraints.scenes import ConstraintParameters, FormulasParameters, build_setup
from haptic_sim.constraints.system import System
from haptic_view.figures import BLACK, BLUE, GREEN, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, thin

STEP = 1e-4  # [rad], [rad/s] of the differences; the error of the speeds is 1e-7 m/s
FASTEST, SPEED_STEP = 20.0, 0.05  # [m/s] speeds at which stability is looked at
SPEEDS = 1e-5  # [m/s] from the speeds of the paper's equations
FALLEN = 0.5  # [rad] of roll from which a bicycle counts as fallen
LIES = 1.0  # [rad] of roll up to which a motion is judged
UPRIGHT = 0.1  # of the largest roll that is left in the last second
SLOW = 0.75  # of the weave speed: the bicycle that falls beside
GAINED = 0.02  # error of the gain of speed
FALLS_WITHIN = 3.0  # [s] in which the slower bicycle falls
LASTS = 5.0  # [s] of a motion that is judged
BELOW = "below the weave speed"

METRICS = {
    "weave_speed": Quantity("Speed from which on the oscillation of roll and steer decays (formulas)", "m/s"),
    "capsize_speed": Quantity("Speed from which on the bicycle leans over slowly (formulas)", "m/s"),
    "largest_roll": Quantity("Largest roll", "deg", 180.0 / math.pi),
    "roll_left": Quantity("Largest roll in the last second", "deg", 180.0 / math.pi),
    "largest_steer": Quantity("Largest angle of steer", "deg", 180.0 / math.pi),
    "fell_at": Quantity("Time at which the bicycle has fallen: its roll exceeds 0.5 rad", "s"),
    "speed_gained": Quantity("Forward speed gained", "mm/s", 1e3),
    "speed_to_gain": Quantity("Forward speed that the energy of the lateral motion at the start is worth", "mm/s", 1e3),
    **formula_systems.METRICS,
}
STABILITY = Statement(
    "stability",
    "Weave and capsize speed come out of the formulas: 4.292 and 6.024 m/s with the published parameters; with any, "
    "within 1e-5 m/s of those of the paper's linearised equations",
    "Meijaard et al. 2007, section 5 and appendix A",
    Quantity("speed", "m/s"),
)
STEERS_UPRIGHT = Statement(
    "steers_upright",
    "Between weave and capsize speed the bicycle steers itself upright: in the last second it rolls by less than a "
    "tenth of its largest roll",
    "Meijaard et al. 2007, figure 4",
    Quantity("roll [rad]"),
)
FALLS_BELOW = Statement(
    "falls_below",
    "Below the weave speed (here at 0.75 of it) the same bicycle falls",
    "Meijaard et al. 2007, figure 3",
    Quantity("largest roll [rad]"),
)
STEERS_INTO_THE_FALL = Statement(
    "steers_into_the_fall",
    "The front frame steers to the side to which the bicycle falls, by itself: when the roll is largest for the first "
    "time, roll and steer have one sign",
    "Meijaard et al. 2007",
    Quantity("angles", "rad"),
)
SPEEDS_UP = Statement(
    "speeds_up",
    "The energy of the lateral motion goes into the forward motion, which gets faster by what the energy says, to 2 %",
    "Meijaard et al. 2007, figure 4; conservation of energy",
    Quantity("gain of speed", "m/s"),
)


def linearised(parameters: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """M, C1, K0, K2 (2, 2) of the paper: M q'' + v C1 q' + (g K0 + v^2 K2) q = f with q = (roll, steer).

    Meijaard et al. 2007, appendix A: A1-A27.
    """
    p = dict(parameters)
    w, c, lam, rR, rF = p["w"], p["c"], p["lam"], p["rR"], p["rF"]
    mR, mB, mH, mF = p["mR"], p["mB"], p["mH"], p["mF"]
    xB, zB, xH, zH = p["xB"], p["zB"], p["xH"], p["zH"]
    sine, cosine = math.sin(lam), math.cos(lam)
    mT = mR + mB + mH + mF
    xT = (xB * mB + xH * mH + w * mF) / mT
    zT = (-rR * mR + zB * mB + zH * mH - rF * mF) / mT
    front = mH * zH**2 + mF * rF**2
    ITxx = p["IRxx"] + p["IBxx"] + p["IHxx"] + p["IFxx"] + mR * rR**2 + mB * zB**2 + front
    ITxz = p["IBxz"] + p["IHxz"] - mB * xB * zB - mH * xH * zH + mF * w * rF
    ITzz = p["IRxx"] + p["IBzz"] + p["IHzz"] + p["IFxx"] + mB * xB**2 + mH * xH**2 + mF * w**2
    mA = mH + mF
    xA, zA = (xH * mH + w * mF) / mA, (zH * mH - rF * mF) / mA
    IAxx = p["IHxx"] + p["IFxx"] + mH * (zH - zA) ** 2 + mF * (rF + zA) ** 2
    IAxz = p["IHxz"] - mH * (xH - xA) * (zH - zA) + mF * (w - xA) * (rF + zA)
    IAzz = p["IHzz"] + p["IFxx"] + mH * (xH - xA) ** 2 + mF * (w - xA) ** 2
    uA = (xA - w - c) * cosine - zA * sine
    IAll = mA * uA**2 + IAxx * sine**2 + 2.0 * IAxz * sine * cosine + IAzz * cosine**2
    IAlx = -mA * uA * zA + IAxx * sine + IAxz * cosine
    IAlz = mA * uA * xA + IAxz * sine + IAzz * cosine
    mu = c / w * cosine
    SF = p["IFyy"] / rF
    ST = p["IRyy"] / rR + SF
    SA = mA * uA + mu * mT * xT
    M = np.array([[ITxx, IAlx + mu * ITxz], [IAlx + mu * ITxz, IAll + 2.0 * mu * IAlz + mu**2 * ITzz]])
    K0 = np.array([[mT * zT, -SA], [-SA, -SA * sine]])
    K2 = np.array([[0.0, (ST - mT * zT) / w * cosine], [0.0, (SA + SF * sine) / w * cosine]])
    turning = mu * ST + SF * cosine
    C1 = np.array(
        [
            [0.0, turning + ITxz / w * cosine - mu * mT * zT],
            [-turning, IAlz / w * cosine + mu * (SA + ITzz / w * cosine)],
        ]
    )
    return M, C1, K0, K2


def of_paper(parameters: Mapping[str, float], v: float) -> np.ndarray:
    """Rates of roll rate and steer rate by (roll, steer, roll rate, steer rate), (2, 4), at the speed v [m/s]."""
    M, C1, K0, K2 = linearised(parameters)
    return -np.linalg.solve(M, np.hstack([parameters["g"] * K0 + v * v * K2, v * C1]))


def of_formulas(system: System, v: float) -> np.ndarray:
    """Rates of roll rate and steer rate, as `of_paper`, from the formulas of the system, by central differences."""
    columns = [
        (_lateral(system, v, STEP * unit) - _lateral(system, v, -STEP * unit)) / (2.0 * STEP) for unit in np.eye(4)
    ]
    return np.stack(columns, axis=-1)


def _lateral(system: System, v: float, state: np.ndarray) -> np.ndarray:
    """Accelerations of roll and steer [rad/s^2] at (roll, steer, roll rate, steer rate), with rolling at v [m/s]."""
    place = {name: i for i, name in enumerate(system.coordinates)}
    roll, steer, pitch, spin = place["phi"], place["delta"], place["theta"], place["thR"]
    q, rates = np.zeros((2, system.n))
    q[roll], q[steer], rates[roll], rates[steer] = state
    rates[spin] = -v / system.parameters["rR"]
    for _ in range(4):  # the pitch that lets both wheels touch the ground
        terms = system.evaluate(q, rates)
        q[pitch] -= terms.c[0] / terms.A[0, pitch]
    terms = system.evaluate(q, rates)
    others = [i for i in range(system.n) if i not in (roll, steer, spin)]
    rates[others] = np.linalg.solve(terms.A[:, others], -terms.A @ rates)
    terms = system.evaluate(q, rates)
    balance = np.block([[terms.M, -terms.A.T], [terms.A, np.zeros((system.m, system.m))]])
    forces = np.concatenate([terms.passive - terms.bias, terms.bdot - terms.Adot @ rates])
    return np.linalg.solve(balance, forces)[[roll, steer]]


def eigenvalues(J: np.ndarray) -> np.ndarray:
    """Eigenvalues [1/s] (4,) of linearised motion."""
    return np.linalg.eigvals(np.vstack([np.eye(2, 4, 2), J]))


def critical_speeds(linear: Callable[[float], np.ndarray]) -> tuple[float | None, float | None]:
    """Weave and capsize speed [m/s] of linearised motion; None where there is none up to FASTEST.

    Above the weave speed the oscillation of roll and steer decays: a pair of complex eigenvalues has passed to the
    left. At the capsize speed a real one passes to the right.
    """
    from scipy.optimize import brentq

    speeds = np.arange(SPEED_STEP, FASTEST, SPEED_STEP)
    found: list[float | None] = []
    for side, sign in ((_oscillation, -1.0), (_lean, 1.0)):
        values = np.array([side(linear(v)) for v in speeds])
        crossing = np.flatnonzero((sign * values[:-1] < 0.0) & (sign * values[1:] >= 0.0))
        low, high = speeds[crossing[0] : crossing[0] + 2] if crossing.size else (0.0, 0.0)
        found.append(brentq(lambda v, side=side: side(linear(v)), low, high, xtol=1e-9) if crossing.size else None)
    return found[0], found[1]


def _oscillation(J: np.ndarray) -> float:
    """Largest real part of a complex eigenvalue; not a number where all are real."""
    values = eigenvalues(J)
    return max((float(x.real) for x in values if abs(x.imag) > 1e-6), default=math.nan)


def _lean(J: np.ndarray) -> float:
    """Minus the product of all eigenvalues, det J[:, :2]: its sign is that of a real eigenvalue near 0."""
    return -float(np.linalg.det(J[:, :2]))


@cache
def find_speeds(document: str) -> tuple[float | None, ...]:
    """Weave and capsize speed by the formulas of a scene, and by the paper's equations with its parameters."""
    scene = FormulasParameters.model_validate_json(document)
    system = build_setup(scene, ConstraintParameters()).system
    assert isinstance(system, System)
    return (
        *critical_speeds(lambda v: of_formulas(system, v)),
        *critical_speeds(lambda v: of_paper(scene.parameters, v)),
    )


def _speeds(trial: Trial) -> tuple[float | None, ...]:
    return find_speeds(scene_as(trial.experiment, FormulasParameters).model_dump_json())


class Bicycle(FormulaAnalysis):
    METRICS = METRICS
    CLAIMS = claims_of(STABILITY, STEERS_UPRIGHT, FALLS_BELOW, STEERS_INTO_THE_FALL, SPEEDS_UP)
    COORDINATES = ("x", "y", "psi", "phi", "theta", "delta", "thR", "thF")
    PARAMETERS = (
        "w", "c", "lam", "g", "rR", "mR", "IRxx", "IRyy", "xB", "zB", "mB", "IBxx", "IBxz", "IByy", "IBzz",
        "xH", "zH", "mH", "IHxx", "IHxz", "IHyy", "IHzz", "rF", "mF", "IFxx", "IFyy", "v",
    )  # fmt: skip

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The same bicycle, slower."""
        weave = _speeds(trial)[0]
        return {} if weave is None else {BELOW: with_parameters(trial, FALLS_WITHIN, v=SLOW * weave)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        """A bicycle that falls is judged until it lies; nothing but its wheels is in the formulas."""
        lies = np.abs(Motion(trial, samples).q("phi")) > LIES
        whole = samples if not lies.any() else samples.until(float(samples["time"][np.argmax(lies)]))
        return super().judge(trial, whole, references)

    def own(self, motion: Motion, references: Mapping[str, Samples]) -> tuple[dict[str, float | None], list[Claim]]:
        weave, capsize, *published = _speeds(motion.trial)
        roll, steer, time = motion.q("phi"), motion.q("delta"), motion.time
        speed, gained, worth = _forward(motion)
        largest = float(np.abs(roll).max())
        left = float(np.abs(roll[time >= time[-1] - 1.0]).max())
        fell = _fell_at(time, roll)
        metrics: dict[str, float | None] = {
            "weave_speed": weave,
            "capsize_speed": capsize,
            "largest_roll": largest,
            "roll_left": left,
            "largest_steer": float(np.abs(steer).max()),
            "fell_at": fell,
            "speed_gained": gained,
            "speed_to_gain": worth,
        }
        falls = Motion(motion.trial, references[BELOW]).q("phi") if BELOW in references else None
        slow = None if falls is None else float(np.abs(falls).max())
        peak = _first_peak(roll)
        turned: dict[str, float | None] = {"roll": None, "steer": None}
        if peak is not None:
            turned = {"roll": float(roll[peak]), "steer": float(steer[peak])}
        between = weave is not None and weave < speed[0] < (math.inf if capsize is None else capsize)
        lasted = float(time[-1] - time[0]) > LASTS
        return metrics, [
            STABILITY.judged(
                {"weave": weave, "capsize": capsize, "weave, paper": published[0], "capsize, paper": published[1]},
                _agree(weave, published[0]) and _agree(capsize, published[1]),
            ),
            STEERS_UPRIGHT.judged(
                {"largest": largest, "left": left},
                fell is None and left < UPRIGHT * largest
                if between and (lasted or fell is not None) and largest > 0.0 and not motion.pushed
                else None,
                f"it is about a bicycle between the two speeds, alone, for more than {LASTS:g} s",
            ),
            FALLS_BELOW.judged(
                {"largest": slow},
                None
                if slow is None or (slow <= FALLEN and motion.trial.experiment.duration < FALLS_WITHIN)
                else slow > FALLEN,
                "" if weave is None else f"it has not fallen, but has had less than {FALLS_WITHIN:g} s",
            ),
            STEERS_INTO_THE_FALL.judged(
                turned, None if peak is None or motion.pushed else bool(roll[peak] * steer[peak] > 0.0)
            ),
            SPEEDS_UP.judged(
                {"gained": gained, "of the energy": worth},
                abs(gained - worth) < GAINED * worth
                if between and lasted and worth > 0.0 and left < UPRIGHT * largest and not motion.pushed
                else None,
                "lateral motion is left",
            ),
        ]

    def own_figures(self, motion: Motion, findings: Findings) -> list[Figure]:
        """Motion of this bicycle and of the slower one, its eigenvalues over the speed, and the track."""
        return [_stability(motion), _motion(motion, findings)]


def _agree(one: float | None, other: float | None) -> bool:
    return one is other is None or (one is not None and other is not None and abs(one - other) < SPEEDS)


def _forward(motion: Motion) -> tuple[np.ndarray, float, float]:
    """Forward speed [m/s] (rows,), its gain, and the gain that the lateral energy of the start is worth [m/s]."""
    p = motion.parameters
    speed = -p["rR"] * (motion.v("thR") + motion.v("theta"))
    # mass of the bicycle with its turning wheels, straight ahead
    mass = p["mR"] + p["mB"] + p["mH"] + p["mF"] + p["IRyy"] / p["rR"] ** 2 + p["IFyy"] / p["rF"] ** 2
    kinetic, v = float(motion.samples["energy_kinetic"][0]), float(speed[0])
    worth = math.sqrt(max(0.0, 2.0 * kinetic / mass)) - v
    return speed, float(speed[-1]) - v, worth


def _first_peak(roll: np.ndarray) -> int | None:
    """The row at which the roll is largest for the first time; None if it never returns."""
    size = np.abs(roll)
    turning = np.flatnonzero((size[1:-1] > size[:-2]) & (size[1:-1] >= size[2:]))
    return int(turning[0]) + 1 if turning.size else None


def _fell_at(time: np.ndarray, roll: np.ndarray) -> float | None:
    fallen = np.abs(roll) > FALLEN
    return float(time[np.argmax(fallen)]) if fallen.any() else None


def _until_fallen(motion: Motion) -> Motion:
    """The motion up to the fall, after which the formulas say nothing."""
    fell = _fell_at(motion.time, motion.q("phi"))
    return motion if fell is None else Motion(motion.trial, motion.samples.until(fell))


def _stability(motion: Motion) -> Figure:
    """Figure 3 of the paper, from the formulas."""
    scene = scene_as(motion.trial.experiment, FormulasParameters)
    system = build_setup(scene, ConstraintParameters()).system
    assert isinstance(system, System)
    speeds = np.linspace(0.0, 10.0, 161)
    values = np.array([np.sort_complex(eigenvalues(of_formulas(system, v))) for v in speeds])
    complex_ = np.abs(values.imag) > 1e-6
    grid = np.broadcast_to(speeds[:, None], values.shape)
    paper = np.array([eigenvalues(of_paper(scene.parameters, v)).real for v in speeds[::8]])
    lines = [
        Line(np.repeat(speeds[::8], 4), paper.ravel(), "real parts, paper", Style(BLACK), points=True),
        Line(grid[complex_], values.real[complex_], "real part of a complex pair", Style(BLUE), points=True),
        Line(grid[~complex_], values.real[~complex_], "real eigenvalue", Style(VERMILION), points=True),
        Line(grid[complex_], np.abs(values.imag[complex_]), "imaginary part", Style(GREEN), points=True),
    ]
    weave, capsize, *_ = _speeds(motion.trial)
    marks = [v for v in (weave, capsize) if v is not None]
    edges = Line(np.array(marks), np.zeros(len(marks)), "weave and capsize speed", Style(BLACK))
    panel = draw(
        "eigenvalues",
        "Eigenvalues of the motion straight ahead",
        lines,
        "forward speed [m/s]",
        Axis("eigenvalue [1/s]", span=(-10.0, 10.0)),
        marks=edges,
        tall=True,
    )
    caption = (
        "Linearised from the formulas by differences, beside the linearised equations of the paper. Where all real "
        "parts are negative, the bicycle keeps itself upright: between weave and capsize speed."
    )
    return Figure("Stability", caption, [panel])


def _motion(motion: Motion, findings: Findings) -> Figure:
    degrees = 180.0 / math.pi
    falls = _fell_at(motion.time, motion.q("phi")) is not None
    motion = _until_fallen(motion)
    speed, _, _ = _forward(motion)
    rolls = [Line(*thin(motion.time, degrees * motion.q("phi")), "this run", Style(BLUE))]
    if BELOW in findings.references:
        slow = _until_fallen(Motion(motion.trial, findings.references[BELOW]))
        rolls.append(Line(*thin(slow.time, degrees * slow.q("phi")), BELOW, Style(VERMILION, (5, 1.8))))
    x, y = motion.q("x", "y").T
    panels = [
        draw("roll", "Roll, until the bicycle has fallen", rolls, "time [s]", Axis("angle [deg]", least=1.0)),
        over_time(
            "angles",
            "Roll, steer and heading (positive to the right)",
            motion,
            "angle [deg]",
            roll=(degrees * motion.q("phi"), Style(BLUE)),
            steer=(degrees * motion.q("delta"), Style(VERMILION, (5, 1.8))),
            heading=(degrees * motion.q("psi"), Style(GREEN, (8, 2))),
        ),
        over_time("speed", "Forward speed", motion, "speed [m/s]", forward_speed=(speed, Style(ORANGE))),
        draw(
            "track",
            "Track of the rear wheel, seen from above",
            [Line(*thin_path(x, -y), "contact of the rear wheel", Style(BLUE))],
            "x [m]",
            Axis("to the left [m]", least=0.1),
        ),
    ]
    caption = (
        "The bicycle rolls straight ahead, nobody steers, and it is struck from the side. It steers into the fall, "
    )
    if falls:
        caption += "but falls; all panels end there."
    else:
        caption += "swings back to upright, and goes on in another direction, a little faster. The slower one falls."
    return Figure("Motion", caption, panels)


ANALYSIS = Bicycle()
