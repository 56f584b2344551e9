"""Two links whose end point stays on a circle (FAULRING III-C, IV-C): metrics, claims, and figures beside 12."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from haptic_bench.analysis import tracking
from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.operators import TangentialParameters
from haptic_experiments.common import exact_tools
from haptic_experiments.common.exact_tools import (
    CALLED,
    DEVICE,
    DEVICE_POSITION,
    TOOL,
    ConstrainedAnalysis,
    felt_bodies,
    has_device,
)
from haptic_experiments.common.held_ticks import ticks_held
from haptic_sim.constraints import reduced
from haptic_sim.constraints.scenes import TwoLinkCircleParameters
from haptic_view.figures import BLACK, BLUE, GREEN, VERMILION, Axis, Figure, Line, Style, draw, thin

EXACT = 1e-9  # [m] of the radius
RISE = 1e-3  # [m/s] of the end point's speed that is one
NOTHING = 1e-3  # of the largest energy of a link, and of the energy at the release
ROUNDING = 1e-12  # of the energy at the release
# of the energy at the release, of a device: by an error of half a percent of its velocity; chosen
DEVICE_GAIN = 0.01
EVERY = 0.05  # [s] between the linkages that are drawn

METRICS = {
    "radial_error": Quantity("Largest distance of the end point from the circle", "nm", 1e9),
    "release_time": Quantity("Time at which the operator lets go", "s"),
    "turns": Quantity("Path of the end point along the circle", "turns", 0.5 / math.pi),
    "energy_at_release": Quantity("Energy of the linkage at the release", "mJ", 1e3),
    "energy_gain": Quantity("Largest rise of the energy above its minimum since the release", "nJ", 1e9),
    "link1_reversals": Quantity("Reversals of link 1 after the release"),
    "link1_at_reversal": Quantity(
        "Largest energy of link 1 at a reversal, of its largest after the release", "%", 100.0
    ),
    "link2_least": Quantity("Least energy of link 2 after the release, of the total", "%", 100.0),
    "speed_rise": Quantity("Largest rise of the end point's speed after the release", "mm/s", 1e3),
    "device_error": Quantity("Largest distance of the device from the end point", "µm", 1e6),
    "device_radial_error": Quantity("Largest distance of the device from the circle", "µm", 1e6),
    **exact_tools.METRICS,
}
OF_COASTING = (
    "release_time",
    "energy_at_release",
    "energy_gain",
    "link1_reversals",
    "link1_at_reversal",
    "link2_least",
    "speed_rise",
)
_FIGURE_12 = "FAULRING figure 12"
STAYS_ON_THE_CIRCLE = Statement(
    "stays_on_the_circle",
    "The end point stays on the circle: error below 1e-9 m, while the linkage moves on; that of a device that renders "
    "it, which then decides, below 0.1 mm",
    "FAULRING (37); what is allowed to a device is chosen",
    Quantity("largest error"),
)
ENERGY_DECAYS = Statement(
    "energy_decays",
    "After the release the total energy decays monotonically; that of a linkage that moves as the device, which then "
    "decides, to 1 % of the energy at the release",
    f"{_FIGURE_12} A; what is allowed to a device is chosen",
    Quantity("largest rise above the lowest so far, of the energy at the release", "%", 100.0),
)
LINK1_REACHES_ZERO = Statement(
    "link1_reaches_zero",
    "The energy of link 1 reaches zero each time it reverses (of a linkage that moves as the device, where there is "
    "one)",
    f"{_FIGURE_12} A",
    Quantity("largest energy at a reversal, of its largest", "%", 100.0),
)
LINK2_DOES_NOT = Statement(
    "link2_does_not",
    "The energy of link 2 never approaches zero (of a linkage that moves as the device, where there is one)",
    f"{_FIGURE_12} A",
    Quantity("least energy, of the total", "%", 100.0),
)
SPEED_RISES = Statement(
    "speed_rises",
    "The end point's speed rises at times while the energy falls (of the device, where there is one)",
    f"{_FIGURE_12} B",
    Quantity("rise of speed", "mm/s", 1e3),
)
CLAIMS = (
    STAYS_ON_THE_CIRCLE,
    ENERGY_DECAYS,
    LINK1_REACHES_ZERO,
    LINK2_DOES_NOT,
    SPEED_RISES,
    *exact_tools.CLAIMS,
)


@dataclass(frozen=True)
class Links:
    """The linkage that ends in the tool, or in a device, (rows,) each.

    Attributes:
        first, second: kinetic energy of the links [J]; rate: of link 1 [rad/s]; speed: along the circle [m/s].
    """

    first: np.ndarray
    second: np.ndarray
    rate: np.ndarray
    speed: np.ndarray

    @property
    def energy(self) -> np.ndarray:
        """Kinetic energy of both links [J]."""
        return self.first + self.second

    @classmethod
    def of(cls, trial: Trial, samples: Samples, body: str) -> Links:
        """Energies and rates of the links from the end point's motion; elbow on the tool's side; NaN where straight."""
        scene = _scene(trial)
        p = samples.group(body, "px", "py") - np.array(scene.base)
        v = samples.group(body, "vx", "vy")
        distance = np.linalg.norm(p, axis=1)
        half = np.sign(np.sin(samples["q1"])) * np.arccos(np.clip(0.5 * distance / scene.length, -1.0, 1.0))
        middle = np.arctan2(p[:, 1], p[:, 0])
        u, w = (np.stack([np.cos(a), np.sin(a)], axis=-1) for a in (middle - half, middle + half))
        # v = length (a' e(u) + b' e(w)), e across each link: along w only the first, along u only the second
        sine = u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.sum(v * w, axis=1) / (scene.length * sine)
            second = -np.sum(v * u, axis=1) / (scene.length * sine)
        inertia = scene.mass * scene.length**2
        # the centre of link 2: length u + length / 2 w
        square = first**2 + first * second * np.sum(u * w, axis=1) + 0.25 * second**2
        x, y = _from_centre(trial, samples, body)
        return cls(
            inertia / 6.0 * first**2,  # about the pivot
            inertia * (0.5 * square + second**2 / 24.0),
            first,
            (x * v[:, 1] - y * v[:, 0]) / np.hypot(x, y),
        )


@dataclass(frozen=True)
class Coasting:
    """Motion from the release on, while at least NOTHING of the energy at the release is left.

    Attributes:
        start: row of the release.
        energy: at the release [J]; rise: largest above the lowest so far until the end of the trial, without what a
            sensor's noise puts in [J].
        reversals: of link 1; link1: its largest energy at a tick next to one, of its largest; None without any.
        link2: least energy of link 2, of the largest total from then on, so that a halt counts.
        faster: largest rise of the end point's speed [m/s].
    """

    start: int
    energy: float
    rise: float
    reversals: int
    link1: float | None
    link2: float
    faster: float

    @classmethod
    def of(cls, trial: Trial, samples: Samples, body: str = "tool") -> Coasting | None:
        """None where the operator does not let go of a tool that moves, or it is not known when."""
        # on an admittance device the samples have what was sensed, with noise
        device = tracking.is_tracked(trial.experiment)
        applied = tracking.operator_wrench(trial, samples) if device else samples.wrench("operator")
        if applied is None:
            return None
        pushed = np.flatnonzero(applied.any(axis=1))
        start = int(pushed[-1]) + 1 if pushed.size else 0
        links = Links.of(trial, samples, body)
        total = links.energy[start:]
        if total.size < 3 or not total[0] > 0.0:
            return None
        stop = int(np.flatnonzero(total > NOTHING * total[0])[-1]) + 1
        rows = slice(start, start + stop)
        left = np.maximum.accumulate(total[:stop][::-1])[::-1]
        first, second, rate, speed = links.first[rows], links.second[rows], links.rate[rows], np.abs(links.speed[rows])
        turns = np.flatnonzero(np.sign(rate[:-1]) * np.sign(rate[1:]) < 0)
        rest = [float(min(first[i], first[i + 1])) for i in turns]
        stored = total - samples["energy_injected"][start:]
        return cls(
            start,
            float(total[0]),
            float((stored[1:] - np.minimum.accumulate(stored)[:-1]).max()),
            turns.size,
            max(rest) / float(first.max()) if rest else None,
            float((second / left).min()),
            float((speed - np.minimum.accumulate(speed)).max()),
        )


class TwoLinkCircle(ConstrainedAnalysis):
    SCENES = ("two_link_circle",)
    METRICS = METRICS
    CLAIMS = CLAIMS

    def check(self, experiment: Experiment) -> list[str]:
        """The force is to be tangential to the circle on which the end point is."""
        problems = super().check(experiment)
        operator, scene = experiment.operator, experiment.scene
        if (
            isinstance(operator, TangentialParameters)
            and isinstance(scene, TwoLinkCircleParameters)
            and operator.centre != scene.centre
        ):
            there, here = list(operator.centre), list(scene.centre)
            problems.append(f"operator.centre = {there} m: must be scene.centre = {here} m")
        return problems

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """`x1..x6`, `xd1..xd6` of the end point, `energy`, that of each link [J], `tangential_speed` [m/s]."""
        scene = _scene(trial)
        nothing = np.zeros(len(samples))
        table = {"x1": samples["tool_px"], "x2": samples["tool_py"]} | {f"x{i}": nothing for i in range(3, 7)}
        table |= {"xd1": samples["tool_vx"], "xd2": samples["tool_vy"]} | {f"xd{i}": nothing for i in range(3, 7)}
        inertia = scene.mass * scene.length**2
        angle, rate = samples["q0"] + samples["q1"], samples["v0"] + samples["v1"]
        half = 0.5 * scene.length * rate
        vx, vy = samples["tool_vx"] + half * np.sin(angle), samples["tool_vy"] - half * np.cos(angle)
        x, y = samples["tool_px"] - scene.centre[0], samples["tool_py"] - scene.centre[1]
        return table | {
            "energy": exact_tools.energy(samples),
            "energy_link1": inertia / 6.0 * samples["v0"] ** 2,  # about the pivot
            "energy_link2": 0.5 * scene.mass * (vx**2 + vy**2) + inertia / 24.0 * rate**2,
            "tangential_speed": (x * samples["tool_vy"] - y * samples["tool_vx"]) / np.hypot(x, y),
        }

    def reference(self, trial: Trial, samples: Samples, wrenches: np.ndarray) -> np.ndarray:
        scene = _scene(trial)
        elbow = np.sign(np.sin(samples["q1"]))
        if (elbow != elbow[0]).any():  # it went through the straight linkage, where one angle is not enough
            return np.full((len(samples), 7), np.nan)
        x, y = samples["tool_px"][0] - scene.centre[0], samples["tool_py"][0] - scene.centre[1]
        return reduced.two_link_circle(
            scene.length,
            scene.mass,
            scene.damping,
            scene.base,
            scene.centre,
            scene.radius,
            float(elbow[0]),
            np.array([math.atan2(y, x), samples["tangential_speed"][0] / scene.radius]),
            wrenches,
            1.0 / trial.experiment.rate,
        )

    def own_metrics(self, trial: Trial, samples: Samples) -> dict[str, float | None]:
        metrics: dict[str, float | None] = dict.fromkeys(OF_COASTING)
        metrics["radial_error"] = float(np.abs(_radial(trial, samples, "tool")).max())
        angle = _angle(trial, samples, "tool")
        metrics["turns"] = float(angle[-1] - angle[0])
        coasting = Coasting.of(trial, samples)
        if coasting is not None:
            metrics["release_time"] = float(samples["time"][coasting.start])
            metrics["energy_at_release"] = coasting.energy
            metrics["energy_gain"] = coasting.rise
            metrics["link1_reversals"] = coasting.reversals
            metrics["link1_at_reversal"] = coasting.link1
            metrics["link2_least"] = coasting.link2
            metrics["speed_rise"] = coasting.faster
        if has_device(samples):
            metrics["device_error"] = float(_distance(samples).max())
            metrics["device_radial_error"] = float(np.abs(_radial(trial, samples, "hand")).max())
        return metrics

    def own_claims(self, trial: Trial, samples: Samples) -> list[Claim]:
        """The body that is felt decides."""
        bodies, device = felt_bodies(samples), has_device(samples)
        off = {body: float(np.abs(_radial(trial, samples, body)).max()) for body in bodies}
        held = ticks_held(trial, samples)
        coasting = {body: Coasting.of(trial, samples, body) for body in bodies}
        felt = coasting[bodies[0]]

        def shown(value: Callable[[Coasting], float | None]) -> dict[str, float | None]:
            return {CALLED[body]: None if one is None else value(one) for body, one in coasting.items()}

        falls = None if felt is None else felt.rise <= (DEVICE_GAIN if device else ROUNDING) * felt.energy
        link1 = None if felt is None else felt.link1
        return [
            STAYS_ON_THE_CIRCLE.judged(
                {f"{CALLED[body]} [m]": error for body, error in off.items()} | {"ticks held": held},
                off[bodies[0]] < (DEVICE_POSITION if device else EXACT) and held == 0,
            ),
            ENERGY_DECAYS.judged(shown(lambda one: one.rise / one.energy), falls),
            LINK1_REACHES_ZERO.judged(shown(lambda one: one.link1), None if link1 is None else link1 < NOTHING),
            LINK2_DOES_NOT.judged(shown(lambda one: one.link2), None if felt is None else felt.link2 > NOTHING),
            SPEED_RISES.judged(
                shown(lambda one: one.faster), None if felt is None else bool(felt.faster > RISE and falls)
            ),
        ]

    def own_figures(self, trial: Trial, samples: Samples) -> list[Figure]:
        """Figure 12, and the linkage."""
        return [_energies(trial, samples), _linkage(trial, samples)]


def _scene(trial: Trial) -> TwoLinkCircleParameters:
    return scene_as(trial.experiment, TwoLinkCircleParameters)


def _from_centre(trial: Trial, samples: Samples, body: str) -> tuple[np.ndarray, np.ndarray]:
    centre = _scene(trial).centre
    return samples[f"{body}_px"] - centre[0], samples[f"{body}_py"] - centre[1]


def _radial(trial: Trial, samples: Samples, body: str) -> np.ndarray:
    """Distance of `tool` or `hand` from the circle, outward positive [m]."""
    return np.hypot(*_from_centre(trial, samples, body)) - _scene(trial).radius


def _angle(trial: Trial, samples: Samples, body: str) -> np.ndarray:
    """Angle of `tool` or `hand` on the circle [rad], without jumps."""
    x, y = _from_centre(trial, samples, body)
    return np.unwrap(np.arctan2(y, x))


def _distance(samples: Samples) -> np.ndarray:
    """Distance of the device from the tool [m]."""
    between = samples.group("hand", "px", "py", "pz") - samples.group("tool", "px", "py", "pz")
    return np.asarray(np.linalg.norm(between, axis=1))


def _energies(trial: Trial, samples: Samples) -> Figure:
    """FAULRING figure 12."""
    time, coasting = samples["time"], Coasting.of(trial, samples)
    energies = [
        Line(*thin(time, 1e3 * samples[name]), label, style)
        for name, label, style in (
            ("energy", "both links", Style(BLACK, width=1.6)),
            ("energy_link1", "link 1, at the base", Style(BLUE)),
            ("energy_link2", "link 2", Style(VERMILION, (5, 1.8))),
        )
    ]
    speeds = [Line(*thin(time, samples["tangential_speed"]), "tool", TOOL)]
    marks = None
    if coasting is not None:
        marks = Line(time[[coasting.start]], np.zeros(1), "the operator lets go", Style(GREEN))
    panels = [
        draw("link_energies", "A  Kinetic energy", energies, "time [s]", Axis("energy [mJ]", least=1e-3), marks=marks),
        draw(
            "tangential_speed",
            "B  Speed along the circle",
            speeds,
            "time [s]",
            Axis("speed [m/s]", least=1e-3),
            marks=marks,
        ),
    ]
    if has_device(samples):
        radius = _scene(trial).radius
        along = radius * (_angle(trial, samples, "hand") - _angle(trial, samples, "tool"))
        errors = [
            Line(*thin(time, 1e6 * along), "along the circle", DEVICE),
            Line(*thin(time, 1e6 * _radial(trial, samples, "hand")), "from the circle", Style(BLUE)),
        ]
        panels.append(draw("device_error", "C  Error of the device", errors, "time [s]", Axis("error [µm]", least=1.0)))
    else:
        force = np.hypot(samples["env_fx"], samples["env_fy"])
        pushed = np.hypot(samples["operator_fx"], samples["operator_fy"])
        forces = [
            Line(*thin(time, force), "constraint, across the circle", Style(VERMILION)),
            Line(*thin(time, pushed), "operator, along it", Style(BLUE, (5, 1.8))),
        ]
        panels.append(draw("forces", "Forces at the end point", forces, "time [s]", Axis("force [N]", least=0.1)))
    caption = (
        "As FAULRING figure 12. After the release dampers in the joints take energy all the time, while it moves "
        "between the links; the end point is faster where the linkage seen from it is lighter. Link 1 has no energy "
        "when it reverses. Link 2 always has some, as its centre moves when it does not turn."
    )
    return Figure("Energies and speed", caption, panels)


def _linkage(trial: Trial, samples: Samples) -> Figure:
    """Figure of the linkage at intervals, and of its mass along the circle."""
    scene = _scene(trial)
    step = max(1, round(EVERY * trial.experiment.rate))
    q0, q1 = samples["q0"][::step], samples["q1"][::step]
    count = min(len(q0), 1 + round(2.0 / EVERY))  # the first two seconds: more hide each other
    elbow = np.array(scene.base) + scene.length * np.stack([np.cos(q0), np.sin(q0)], axis=-1)
    end = elbow + scene.length * np.stack([np.cos(q0 + q1), np.sin(q0 + q1)], axis=-1)
    base, gap = np.broadcast_to(np.array(scene.base), end.shape), np.full(end.shape, np.nan)
    links = 1e3 * np.stack([base, elbow, end, gap], axis=1)[:count].reshape(-1, 2)
    around = np.linspace(0.0, 2.0 * np.pi, 181)
    lines = [
        Line(
            1e3 * (scene.centre[0] + scene.radius * np.cos(around)),
            1e3 * (scene.centre[1] + scene.radius * np.sin(around)),
            "circle",
            Style(VERMILION, width=1.8),
        ),
        Line(links[:, 0], links[:, 1], f"links, every {EVERY:g} s until 2 s", Style("#7f9db9", width=0.9)),
    ]
    angle = _angle(trial, samples, "tool")
    speed = samples["tangential_speed"]
    moving = np.abs(speed) > 1e-3
    seen = np.where(moving, 2.0 * samples["energy"] / np.where(moving, speed, 1.0) ** 2, np.nan)
    place = np.degrees(np.angle(np.exp(1j * angle)))
    order = np.argsort(place)
    order = order[np.isfinite(seen[order])][:: max(1, len(order) // 1500)]
    panels = [
        draw("linkage", "The linkage", lines, "x1 [mm]", "x2 [mm]", equal=True, tall=True),
        draw(
            "seen_mass",
            "Mass that is felt along the circle",
            [Line(place[order], seen[order], "2 energy / speed²", Style(BLUE))],
            "place on the circle [deg]",
            "mass [kg]",
        ),
        draw(
            "place",
            "Place of the end point",
            [Line(*thin(samples["time"], angle / (2.0 * math.pi)), "tool", TOOL)],
            "time [s]",
            "turns around the circle",
        ),
    ]
    caption = (
        "The hand feels a mass that changes along the circle: this is why an operator has to push and to hold back to "
        "keep the speed."
    )
    return Figure("The linkage", caption, panels)


ANALYSIS = TwoLinkCircle()
