"""A sphere that rolls on another (YUN V-A): does it reach contact, and again after a displacement?

The motion is compared with independent equations: see `rolling_motion`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples, rotations
from haptic_experiments.common import exact_tools
from haptic_experiments.common.exact_tools import ANGLE, DEVICE_POSITION, POSITION, has_device
from haptic_experiments.common.held_ticks import ticks_held
from haptic_sim.constraints.scenes import RollingSpheresParameters
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILION,
    Axis,
    Figure,
    Line,
    Style,
    draw,
    shown,
    thin,
)

SETTLED = 0.01  # of the error at the start, or after the displacement: what is left when contact is made
TIMES = 5.0  # YUN V-B: converged after about so many time constants 1 / gamma
FOLLOWS = 1e-6  # of the error at the start: how near to the exponential
STILL = 1e-9  # [m/s] of slip when rolling
DEVICE_STILL = 1e-3  # [m/s] the same of a device; chosen
HORIZON = 60.0  # [s] of a trial that is compared
FLOOR = 1e-14  # [m] of rounding; below it an error is drawn as this
NAMES = ("distance", "latitude", "longitude", "psi", "theta", "phi")
UNSTABILISED, TRUE, PRINTED = "gamma 0, from contact", "true rolling", "rolling as printed"

METRICS = {
    "contact_time": Quantity("Time until 1 % of the contact error at the start is left", "s"),
    "regained_time": Quantity("Time from the displacement until 1 % of it is left", "s"),
    "left": Quantity("Contact error at the end", "nm", 1e9),
    "decay_error": Quantity("Largest distance of the contact error from its exponential", "nm", 1e9),
    "max_slip": Quantity("Largest slip of the small sphere on the large one", "mm/s", 1e3),
    "contact_force": Quantity("Largest force of the contact constraint", "N"),
    "ticks_held": Quantity("Ticks in which the solver could not meet the constraints and kept the sphere where it was"),
    "motion_error": Quantity("Largest distance of the small sphere from the independent motion", "nm", 1e9),
    "motion_angle": Quantity("Largest rotation of the small sphere from the independent motion", "nrad", 1e9),
}
ERROR_DECAYS = Statement(
    "error_decays",
    "The contact error follows exp(-gamma t), from the start and from the displacement; that of a device that renders "
    "the sphere, which then decides, to 0.1 mm",
    "YUN (17), figure 2",
    Quantity("largest distance from the exponential, and the error at the start", "µm", 1e6),
)
REGAINED = Statement(
    "regained",
    "Contact is regained after the displacement with stabilisation; without it never (a device that renders the sphere "
    "decides)",
    "YUN figures 2 and 3",
    Quantity("of the displacement, left at the end", "%", 100.0),
)
SETTLED_IN_TIME = Statement(
    "settled",
    "Contact is made within five time constants: 1 % of the error is left after 5 / gamma at the latest, while the "
    "sphere rolls on: the solver never keeps it where it was (a device that renders the sphere decides)",
    "YUN V-B; V-A with gamma 10: in less than 0.5 s",
    Quantity("time [s]; ticks"),
)
ROLLS = Statement(
    "rolls",
    "The rows of this trial are rolling without slip: below 1e-9 m/s; a device that renders the sphere, which then "
    "decides, slips by less than 1 mm/s",
    "v = r omega x n; as YUN (44-45) are printed it does not hold",
    Quantity("largest slip", "mm/s", 1e3),
)
INDEPENDENT_MOTION = Statement(
    "independent_motion",
    "The small sphere moves as independent equations of rolling without slip say: within 0.1 µm and 1 µrad",
    "balance of moments about the contact, without coordinates of YUN, multipliers or projection, by DOP853",
    Quantity("distance [m], rotation [rad]"),
)
CLAIMS = (ERROR_DECAYS, REGAINED, SETTLED_IN_TIME, ROLLS, INDEPENDENT_MOTION)
scene_of = partial(scene_as, kind=RollingSpheresParameters)


def slip(scene: RollingSpheresParameters, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Speed at which the small sphere slips on the large one [m/s], (rows,), from states (rows, 6).

    Errata of YUN, 2: with n from the large sphere's centre, rolling is v = r omega x n; the rates of latitude and
    longitude take the radius R + r, also before contact (errata 7).
    """
    _, a, b, psi, theta, _ = q.T
    _, a_rate, b_rate, psi_rate, theta_rate, phi_rate = v.T
    omega = np.stack(
        [
            np.cos(psi) * theta_rate + np.sin(psi) * np.sin(theta) * phi_rate,
            np.sin(psi) * theta_rate - np.cos(psi) * np.sin(theta) * phi_rate,
            psi_rate + np.cos(theta) * phi_rate,
        ]
    )
    down = np.stack([-np.sin(a) * np.cos(b), -np.sin(a) * np.sin(b), -np.cos(a)])  # of growing latitude
    east = np.stack([-np.sin(b), np.cos(b), np.zeros_like(b)])
    normal = np.stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), -np.sin(a)])
    turning = scene.small * np.cross(omega.T, normal.T).T
    radius = scene.large + scene.small
    return np.hypot(
        radius * a_rate - np.sum(turning * down, axis=0), radius * np.cos(a) * b_rate - np.sum(turning * east, axis=0)
    )


def device_slip(scene: RollingSpheresParameters, samples: Samples) -> np.ndarray:
    """Slip of a device that renders the small sphere, from its pose and twist [m/s], (rows,)."""
    p, twist = samples.pose("hand")[:, :3], samples.twist("hand")
    distance = np.linalg.norm(p, axis=1, keepdims=True)
    n = p / distance
    across = twist[:, :3] - np.sum(twist[:, :3] * n, axis=1, keepdims=True) * n
    rolling = scene.small * np.cross(twist[:, 3:], n)
    return np.linalg.norm((scene.large + scene.small) / distance * across - rolling, axis=1)


def rolling_motion(
    scene: RollingSpheresParameters, gamma: float, pose: np.ndarray, spin: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Motion of a sphere that rolls without slip on a fixed one, of a contact error that decays with `gamma` [1/s].

    With the normal n, d = R + r + e exp(-gamma t) the distance of the centres and k = r / (R + r), rolling is
    n' = k omega x n (errata of YUN, 2 and 7). Constraints do no work in virtual motions, in which d does not change and
    the centre goes by k d (turn) x n, so I omega' + k d m n x a = 0 with a = (d n)''. Along n this says that the spin
    is constant, across it

        (I + m (k d)^2) omega'_across = -m (k d) k (2 d' omega_across - d (n . omega) n')

    Args:
        scene: radii and mass; I = 2/5 m r^2.
        gamma: rate of decay [1/s].
        pose: of the small sphere at the start, which tells e (7,) [m, quat_xyzw].
        spin: its angular velocity then, omega [rad/s] (3,).
        time: when it is asked for [s], (rows,), from the start on.

    Returns:
        Positions (rows, 3) [m] and rotation matrices (rows, 3, 3).
    """
    contact = scene.large + scene.small
    k, inertia = scene.small / contact, 0.4 * scene.mass * scene.small**2
    distance = float(np.linalg.norm(pose[:3]))
    error = distance - contact

    def rates(at: float, y: np.ndarray) -> np.ndarray:
        n, turn, omega = y[:3], y[3:12].reshape(3, 3), y[12:]
        decay = error * math.exp(-gamma * at)
        d, rate = contact + decay, -gamma * decay
        step = k * np.cross(omega, n)
        along = float(n @ omega)
        across = omega - along * n
        slowing = scene.mass * k * k * d * (2.0 * rate * across - d * along * step)
        return np.concatenate(
            [step, np.cross(omega, turn.T).T.ravel(), -slowing / (inertia + scene.mass * (k * d) ** 2)]
        )

    start = np.concatenate([pose[:3] / distance, rotations(pose[None])[0].ravel(), spin])
    since = time - time[0]
    if len(time) == 1:
        return pose[None, :3].copy(), rotations(pose[None])
    y = solve_ivp(rates, (0.0, since[-1]), start, "DOP853", since, rtol=1e-11, atol=1e-12).y.T
    return (contact + error * np.exp(-gamma * since))[:, None] * y[:, :3], y[:, 3:12].reshape(-1, 3, 3)


def motion_errors(trial: Trial, samples: Samples, contact: Contact) -> tuple[float, float] | None:
    """Largest distance [m] and rotation [rad] from `rolling_motion`, which starts anew after the displacement.

    None where rolling is as printed, or the hand pushes.
    """
    if trial.experiment.constraint.rolling != "true" or samples.wrench("operator").any():
        return None
    poses, spins, found = samples.pose("tool"), samples.twist("tool")[:, 3:], [(0.0, 0.0)]
    for rows in (slice(0, contact.jump), slice(contact.jump, len(samples))):
        pose, time = poses[rows], samples["time"][rows]
        if not len(pose):
            continue
        scene = scene_of(trial.experiment)
        position, rotation = rolling_motion(scene, contact.gamma or 0.0, pose[0], spins[rows][0], time)
        # |R - R'| in the Frobenius norm is 2 sqrt(2) sin(angle / 2)
        difference = np.linalg.norm(rotations(pose) - rotation, axis=(1, 2)) / (2.0 * math.sqrt(2.0))
        angle = 2.0 * np.arcsin(np.minimum(difference, 1.0))
        found.append((float(np.linalg.norm(pose[:, :3] - position, axis=1).max()), float(angle.max())))
    return max(far for far, _ in found), max(turned for _, turned in found)


@dataclass(frozen=True)
class Contact:
    """Contact error of the spheres over time.

    Attributes:
        time: [s], (rows,). error: distance of the centres less R + r [m], (rows,).
        gamma: [1/s]; None where the position is returned to the constraint.
        jump: first row after the displacement; `rows` if there is none.
        period: [s]. floor: of an error that counts as none [m].
    """

    time: np.ndarray
    error: np.ndarray
    gamma: float | None
    jump: int
    displacement: float
    period: float
    floor: float

    @classmethod
    def of(cls, trial: Trial, samples: Samples, body: str = "tool") -> Contact:
        """Contact from the samples of a trial, of the small sphere or of a device that renders it."""
        experiment = trial.experiment
        scene, constraint = scene_of(experiment), experiment.constraint
        tick = round(scene.disturbance_time * experiment.rate)  # displaced at its beginning; the next row shows it
        jump = int(np.searchsorted(samples["tick"], tick, side="right")) if scene.disturbance else len(samples)
        distance = samples["q0"] if body == "tool" else np.linalg.norm(samples.pose(body)[:, :3], axis=1)
        return cls(
            samples["time"],
            distance - (scene.large + scene.small),
            constraint.gamma if constraint.solver == "stabilised" else None,
            jump,
            scene.disturbance,
            1.0 / experiment.rate,
            FLOOR if body == "tool" else DEVICE_POSITION,
        )

    @property
    def disturbed(self) -> bool:
        """Whether the trial lasts beyond the displacement."""
        return self.jump < len(self.time)

    @property
    def exponential(self) -> np.ndarray | None:
        """Contact error by YUN (17) [m], (rows,)."""
        if self.gamma is None:
            return None
        expected = self.error[0] * np.exp(-self.gamma * (self.time - self.time[0]))
        if self.disturbed:
            start = self.time[self.jump] - self.period
            since = self.time[self.jump :] - start
            at_jump = self.error[0] * math.exp(-self.gamma * (start - self.time[0])) + self.displacement
            expected[self.jump :] = at_jump * np.exp(-self.gamma * since)
        return expected

    def deviation(self) -> float | None:
        """Largest distance of the error from its exponential [m]."""
        expected = self.exponential
        return None if expected is None else float(np.abs(self.error - expected).max())

    def made(self) -> float | None:
        """Time from the start after which less than SETTLED of the error is left until the displacement [s]."""
        scale = abs(float(self.error[0]))
        return _settles(self.time[: self.jump] - self.time[0], self.error[: self.jump], scale, self.floor)

    def regained(self) -> float | None:
        """Time from the displacement after which less than SETTLED of it is left [s]."""
        if not self.disturbed:
            return None
        since = self.time[self.jump :] - self.time[self.jump] + self.period
        return _settles(since, self.error[self.jump :], abs(self.displacement), self.floor)

    def left(self) -> float | None:
        """Part of the displacement that is left at the end; None before TIMES / gamma after it."""
        if not self.disturbed or not self.displacement:
            return None
        since = float(self.time[-1] - self.time[self.jump]) + self.period
        if since < (TIMES / self.gamma if self.gamma else 0.0):
            return None
        return float(self.error[-1]) / self.displacement


def _settles(time: np.ndarray, error: np.ndarray, scale: float, floor: float) -> float | None:
    away = np.flatnonzero(np.abs(error) > max(SETTLED * scale, floor))
    if not away.size:
        return float(time[0])
    after = int(away[-1]) + 1
    return float(time[after]) if after < time.size else None


class RollingSpheres(Analysis):
    SCENES = ("rolling_spheres",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`distance`, `latitude`, `longitude` of the centre, `psi`, `theta`, `phi`, `slip` [m/s] and `energy` [J]."""
        q, v = (np.stack([samples[f"{letter}{i}"] for i in range(6)], axis=-1) for letter in "qv")
        slipping = slip(scene_of(trial.experiment), q, v)
        return {
            **{name: q[:, i] for i, name in enumerate(NAMES)},
            "slip": slipping,
            "energy": exact_tools.energy(samples),
        }

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """Trials without stabilisation, from contact; and with the rolling that the trial does not use."""
        return _variants(trial, samples)

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        contact = Contact.of(trial, samples)
        metrics = _metrics(trial, samples, contact)
        return Findings(metrics, _claims(trial, samples, contact, metrics, references), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        own = Curve(f"this run: {_name(trial)}", trial, samples, Style(BLUE, width=1.6))
        variants = _variants(trial, samples)
        beside = {
            label: Curve(label, variants[label], run, style)
            for (label, run), style in zip(findings.references.items(), _BESIDE, strict=False)
        }
        free = [beside[UNSTABILISED]] if UNSTABILISED in beside else []
        rolling = [curve for label, curve in beside.items() if label != UNSTABILISED]
        energy = energy_figure([own], list(beside.values()))
        if energy is not None:
            text = (
                " Constraints that are stabilised do work: they stop the approach that they demand. It counts as such."
            )
            energy = replace(energy, caption=energy.caption + text)
        return shown(_contact([own, *free]), _motion(own), _rolling([own, *rolling]), energy)

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_contact(curves), _rolling(curves), energy_figure(curves))

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """Times at which 1 % of an exponential is left."""
        constraint, scene = trial.experiment.constraint, scene_of(trial.experiment)
        if constraint.solver != "stabilised" or not constraint.gamma:
            return {}
        time = -math.log(SETTLED) / constraint.gamma
        away = abs(scene.start[0] - scene.large - scene.small) > FLOOR
        names = (["contact_time"] if away else []) + (["regained_time"] if scene.disturbance else [])
        return {name: (time, "ln(100) / gamma") for name in names}


_WORK = (
    "Here it is what the stabilised contact does: the energy of the approach, m (gamma error)² / 2, comes and goes "
    "with the error."
)
_BESIDE = (Style(VERMILION, (5, 1.8)), Style(GREEN, (8, 2)))


def _name(trial: Trial) -> str:
    constraint = trial.experiment.constraint
    return f"gamma {constraint.gamma:g}" if constraint.solver == "stabilised" else "projection"


def _variants(trial: Trial, samples: Samples) -> dict[str, Trial]:
    """Trials of the same duration with which the trial is compared."""
    experiment = trial.experiment
    lasted = float(samples["time"][-1]) + 1.0 / experiment.rate
    if not experiment.standalone or lasted > HORIZON:
        return {}
    scene, constraint = scene_of(experiment), experiment.constraint
    touching = scene.model_copy(update={"start": (scene.large + scene.small, *scene.start[1:])})
    free = constraint.model_copy(update={"solver": "stabilised", "integrator": "rk4", "gamma": 0.0})
    other = "printed" if constraint.rolling == "true" else "true"
    changes: dict[str, dict[str, Any]] = {
        UNSTABILISED: {"scene": touching, "constraint": free},
        (PRINTED if other == "printed" else TRUE): {"constraint": constraint.model_copy(update={"rolling": other})},
    }
    if constraint.solver == "stabilised" and constraint.gamma == 0.0:
        del changes[UNSTABILISED]
    if constraint.solver == "projection":  # its start would have to be found for the other rows
        changes = {label: change for label, change in changes.items() if label == UNSTABILISED}
    duration = min(lasted, experiment.duration)
    return {
        label: replace(trial, experiment=experiment.model_copy(update={**change, "duration": duration}))
        for label, change in changes.items()
    }


def _metrics(trial: Trial, samples: Samples, contact: Contact) -> dict[str, float | None]:
    errors = motion_errors(trial, samples, contact)
    return {
        "contact_time": contact.made(),
        "regained_time": contact.regained(),
        "left": float(contact.error[-1]),
        "decay_error": contact.deviation(),
        "max_slip": float(samples["slip"].max()),
        "contact_force": float(np.abs(samples["lambda1"]).max()),
        "ticks_held": ticks_held(trial, samples),
        "motion_error": None if errors is None else errors[0],
        "motion_angle": None if errors is None else errors[1],
    }


def _claims(
    trial: Trial,
    samples: Samples,
    contact: Contact,
    metrics: Mapping[str, float | None],
    references: Mapping[str, Samples],
) -> list[Claim]:
    own, rolling = _name(trial), trial.experiment.constraint.rolling
    device = has_device(samples)
    felt = Contact.of(trial, samples, "hand") if device else contact
    word, beside = ("device, ", {"deviation, tool": metrics["decay_error"]}) if device else ("", {})
    deviation, largest = felt.deviation(), float(np.abs(felt.error).max())
    lefts: dict[str, float | None] = {own: felt.left()}
    slipping = float((device_slip(scene_of(trial.experiment), samples) if device else samples["slip"]).max())
    slips: dict[str, float | None] = {"device": slipping} if device else {}
    slips[TRUE if rolling == "true" else PRINTED] = metrics["max_slip"]
    for label, run in references.items():
        variant = _variants(trial, samples)[label]
        if label == UNSTABILISED:
            lefts[label] = Contact.of(variant, run).left()
        else:
            slips[label] = float(run["slip"].max())
    kept = [left for label, left in lefts.items() if label != own or contact.gamma == 0.0]
    lost = [left for label, left in lefts.items() if label == own and contact.gamma != 0.0]
    decided = kept and lost and all(left is not None for left in (*kept, *lost))
    allowed = TIMES / contact.gamma if contact.gamma else None
    times = {"from the start": felt.made(), "from the displacement": felt.regained()}
    long_enough = allowed is not None and float(contact.time[-1]) >= allowed
    if contact.disturbed and allowed is not None:
        long_enough = float(contact.time[-1] - contact.time[contact.jump]) >= allowed
    else:
        del times["from the displacement"]
    held, far, turned = metrics["ticks_held"] or 0, metrics["motion_error"], metrics["motion_angle"]
    return [
        ERROR_DECAYS.judged(
            {f"{word}deviation": deviation, **beside, f"{word}error": largest},
            None if deviation is None else deviation <= (DEVICE_POSITION if device else FOLLOWS * largest + FLOOR),
        ),
        REGAINED.judged(
            lefts,
            all(abs(left) < SETTLED for left in lost if left is not None)
            and all(abs(left) > 1.0 - SETTLED for left in kept if left is not None)
            if decided
            else None,
        ),
        SETTLED_IN_TIME.judged(
            {**times, "allowed": allowed, "ticks held": held},
            held == 0 and all(time is not None and time <= allowed for time in times.values())
            if allowed is not None and long_enough
            else None,
        ),
        ROLLS.judged(slips, slipping < (DEVICE_STILL if device else STILL)),
        INDEPENDENT_MOTION.judged(
            {"distance": far, "rotation": turned},
            None if far is None or turned is None else far < POSITION and turned < ANGLE,
        ),
    ]


def _over_time(curve: Curve, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return thin(curve.samples["time"], values)


def _contact(curves: Sequence[Curve]) -> Figure:
    """YUN figures 2 and 3: the distance; and the error beside the exponential."""
    contacts = [Contact.of(curve.trial, curve.samples) for curve in curves]
    pairs = list(zip(curves, contacts, strict=True))
    distances = [
        Line(*_over_time(curve, 1e3 * curve.samples["distance"]), curve.label, curve.style) for curve in curves
    ]
    scene = scene_of(curves[0].trial.experiment)
    ends = curves[0].samples["time"][[0, -1]]
    touching = Style(BLACK, (1.3, 1.3), 1.0)
    distances.append(Line(ends, np.full(2, 1e3 * (scene.large + scene.small)), "contact, R + r", touching))
    errors = [
        Line(*_over_time(curve, np.maximum(np.abs(contact.error), FLOOR)), curve.label, curve.style)
        for curve, contact in pairs
    ]
    expected = contacts[0].exponential
    if expected is not None and len(curves) <= 2:
        shown = np.maximum(np.abs(expected), FLOOR)
        errors.append(Line(*_over_time(curves[0], shown), "exp(\N{MINUS SIGN}gamma t)", Style(ORANGE, (1.3, 1.6), 2.2)))
    forces = [
        Line(*_over_time(curve, curve.samples["lambda1"]), curve.label, curve.style)
        for curve in curves
        if "lambda1" in curve.samples.names
    ]
    panels = [
        draw("distance", "Distance of the centres", distances, "time [s]", Axis("distance [mm]", least=0.1)),
        draw(
            "contact_error",
            "Contact error",
            errors,
            "time [s]",
            Axis("|distance \N{MINUS SIGN} (R + r)| [m]", log=True),
        ),
        draw(
            "contact_force",
            "Force of the contact constraint",
            forces,
            "time [s]",
            Axis("force, outward [N]", least=0.01),
        ),
    ]
    table = [["", "contact after [s]", "regained after [s]", "error at the end [m]", "largest slip [m/s]"]]
    for curve, contact in pairs:
        times = ("never" if time is None else f"{time:.3f}" for time in (contact.made(), contact.regained()))
        last = (f"{x:.3g}" for x in (contact.error[-1], curve.samples["slip"].max()))
        table.append([curve.label, *times, *last])
    caption = (
        "YUN figures 2 and 3. Where the contact is a velocity constraint alone (gamma 0), what displaces the large "
        "sphere breaks it for good; stabilised, the error decays with the time constant 1 / gamma from any start. The "
        "force that brings the sphere there is proportional to the square of gamma."
    )
    return Figure("Contact", caption, panels, table)


def _motion(curve: Curve) -> Figure:
    """YUN figure 2: the other coordinates; and the path on the large sphere."""
    samples, scene = curve.samples, scene_of(curve.trial.experiment)
    position = [
        Line(*_over_time(curve, samples["latitude"]), "latitude, below the equator", Style(BLUE)),
        Line(*_over_time(curve, samples["longitude"]), "longitude", Style(VERMILION, (5, 1.8))),
    ]
    angles = [
        Line(*_over_time(curve, samples["psi"]), "psi", Style(BLUE)),
        Line(*_over_time(curve, samples["theta"]), "theta", Style(VERMILION, (5, 1.8))),
        Line(*_over_time(curve, samples["phi"]), "phi", Style(GREEN, (5, 1.6, 1.2, 1.6))),
    ]
    middle = 0.5 * (samples["longitude"].min() + samples["longitude"].max())
    across = 1e3 * samples["distance"] * np.cos(samples["latitude"]) * np.sin(samples["longitude"] - middle)
    up = -1e3 * samples["distance"] * np.sin(samples["latitude"])
    turn = np.linspace(0.0, 2.0 * math.pi, 361)
    step = max(1, round(curve.trial.experiment.rate))
    ring_x, ring_y = (
        (1e3 * scene.small * shape(turn) + values[::step, None]) for shape, values in ((np.cos, across), (np.sin, up))
    )
    gap = np.full((ring_x.shape[0], 1), np.nan)
    seen = [
        Line(across, up, "path of the centre", Style(VERMILION, width=1.8)),
        Line(np.hstack([ring_x, gap]).ravel(), np.hstack([ring_y, gap]).ravel(), "small, every second", Style(BLUE)),
        Line(1e3 * scene.large * np.cos(turn), 1e3 * scene.large * np.sin(turn), "large sphere", Style("#8a8f98")),
    ]
    title = f"Seen level, from the longitude {middle:.2f} rad"
    panels = [
        draw("position", "Latitude and longitude", position, "time [s]", Axis("angle [rad]", least=0.01)),
        draw("orientation", "Euler angles of the small sphere", angles, "time [s]", Axis("angle [rad]", least=0.01)),
        draw("path", title, seen, "across [mm]", "up [mm]", equal=True),
    ]
    caption = (
        "YUN figure 2: the other variables while the small sphere rolls; no force but that of the constraints acts."
    )
    return Figure("Rolling motion", caption, panels)


def _rolling(curves: Sequence[Curve]) -> Figure:
    """Slip of true rolling, and of the rows as printed."""
    shown = [
        replace(curve, label=TRUE if curve.trial.experiment.constraint.rolling == "true" else PRINTED)
        if len(curves) <= 2
        else curve
        for curve in curves
    ]
    slips = [Line(*_over_time(curve, curve.samples["slip"]), curve.label, curve.style) for curve in shown]
    paths = [
        Line(curve.samples["longitude"], -curve.samples["latitude"], curve.label, replace(curve.style, colour=colour))
        for curve, colour in zip(shown, (BLUE, PURPLE, GREEN, ORANGE, VERMILION) * len(shown), strict=False)
    ]
    panels = [
        draw("slip", "Slip of the small sphere on the large one", slips, "time [s]", Axis("slip [m/s]", least=1e-3)),
        draw("paths", "Where the small sphere goes", paths, "longitude [rad]", "latitude, above [rad]", equal=True),
    ]
    caption = (
        "Rolling means that the touching points of both spheres have the same velocity, v = r omega x n. YUN (44-45) "
        "take the rates in the body's axes for those in the world's and leave out the cosine of the latitude: a sphere "
        "that obeys them slips, and goes elsewhere."
    )
    return Figure("Slip", caption, panels)


ANALYSIS = RollingSpheres()
