"""The energy that a linkage loses in a collision (THESIS 4.4.1), beside figure 4.12.

This is not a trial in time: each row of the samples is one collision with its own coefficient of restitution, and the
tick of a message is the number of the collision. Every collision is one step of the environment from the same state, in
which the arm touches the obstacle and approaches it. The step is so short that nothing else moves the arm meanwhile
(THESIS 4.4: t tends to t0, and other forces have no impulse).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pinocchio as pin

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running.offline import Sink
from haptic_drivers.operators import build_operator, wrench_at_rest
from haptic_sim.contact.response import UNLIMITED
from haptic_sim.messages import ToolCommand, columns, tick_time
from haptic_sim.tool.tool_side import build_environment, world_of
from haptic_sim.worlds.scenes import TwoLinksParameters
from haptic_view.figures import BLACK, BLUE, VERMILION, Axis, Figure, Line, Panel, Style, draw

BASE, DISTAL = "base_link", "distal_link"
LINKS = (BASE, DISTAL)
NAMES = {BASE: "base link", DISTAL: "distal link"}
PUBLISHED = {BASE: 0.7, DISTAL: 1.5}  # THESIS, footnote 3 and figure 4.12: where the arm is struck, in link lengths
Rule = Literal["consistent", "printed"]
ROUNDING = 1e-9  # of the energy, or the momentum, before
INSTANT = 1e-12  # [s]

PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of a link's length: where it is struck besides
OBSTACLE = 1.0  # [kg] of an obstacle that moves, as each rod of THESIS has (chosen)
RELATIVE, SEPARATE = "relative velocity (4.21)", "each body alone (4.22, 4.23)"
RULES: Mapping[str, Rule] = {RELATIVE: "consistent", SEPARATE: "printed"}

METRICS = {
    "energy_left_plastic": Quantity("Kinetic energy left by a perfectly plastic collision (e = 0)", "J"),
    "energy_left_elastic": Quantity("Kinetic energy left by a perfectly elastic collision (e = 1)", "J"),
    "closed_form_error": Quantity("Largest difference to the closed form, of the energy before", "%", 1e2),
}
_ELASTIC = Quantity("kinetic energy after, at e = 1, of that before", "%", 1e2)
_PLASTIC = Quantity("kinetic energy after, at e = 0, of that before", "%", 1e2)
_ERROR = Quantity("largest difference, of the energy before", "%", 1e2)
_MOMENTUM = Quantity("largest change of the angular momentum about the base, of that before", "%", 1e2)
CLOSED_FORM = Statement(
    "closed_form",
    "The energy lost is that of equation 4.27, with the factor 1/2 that is missing in print",
    "THESIS 4.4.1, equation 4.27; errata 1",
    _ERROR,
)
PRINTED_FORM = Statement(
    "printed_form",
    "The energy lost is that of equation 4.27 as printed",
    "THESIS 4.4.1, equation 4.27",
    _ERROR,
)
ELASTIC_KEEPS = Statement(
    "elastic_keeps_energy",
    "A perfectly elastic collision keeps the kinetic energy, wherever the arm is struck",
    "THESIS 4.4.1, figure 4.12",
    _ELASTIC,
)
BASE_LOSES_PART = Statement(
    "base_loses_part",
    "A perfectly plastic collision takes only part of the kinetic energy, wherever the base link is struck",
    "THESIS 4.4.1, figure 4.12(a)",
    _PLASTIC,
)
DISTAL_LOSES_ALL = Statement(
    "distal_loses_all",
    "A perfectly plastic collision of the distal link, as struck there (1.5 m), takes all kinetic energy",
    "THESIS 4.4.1, figure 4.12(b)",
    _PLASTIC,
)
DISTAL_LOSES_ALL_ALONG = Statement(
    "distal_loses_all_along",
    "A perfectly plastic collision takes all kinetic energy, wherever the distal link is struck",
    "THESIS 4.4.1, the text and footnote 3 (1 m < L2 < 2 m)",
    _PLASTIC,
)
RELATIVE_KEEPS = Statement(
    "relative_velocity_keeps_momentum",
    "A collision with an obstacle that moves keeps the angular momentum if their relative velocity obeys the law of "
    "restitution",
    "THESIS 4.4, equations 4.14 and 4.21",
    _MOMENTUM,
)
SEPARATE_KEEPS = Statement(
    "bodies_alone_keep_momentum",
    "It keeps the angular momentum also if arm and obstacle each obey the law of restitution alone, as printed",
    "THESIS 4.4, equations 4.14, 4.22 and 4.23",
    _MOMENTUM,
)
CLAIMS = (
    CLOSED_FORM,
    PRINTED_FORM,
    ELASTIC_KEEPS,
    BASE_LOSES_PART,
    DISTAL_LOSES_ALL,
    DISTAL_LOSES_ALL_ALONG,
    RELATIVE_KEEPS,
    SEPARATE_KEEPS,
)
scene_of = partial(scene_as, kind=TwoLinksParameters)


def energy_left(experiment: Experiment, restitution: np.ndarray, factor: float = 0.5) -> np.ndarray:
    """Kinetic energy after a collision [J], by theory.

    THESIS (4.27) with the factor 1/2 restored (errata 1): KE = KE0 - 1/2 (1 - e^2) qd^T Jc^T Jbar^T D Jbar Jc qd. For
    one contact of the normal velocity v = Jc qd that is KE0 - 1/2 (1 - e^2) v^2 / (Jc D^-1 Jc^T). D is that of two
    uniform rods, from their Lagrangian; nothing of the engine is used. An obstacle of the mass m that moves adds 1 / m
    to the mobility Jc D^-1 Jc^T, unless each body obeys the law alone (4.22, 4.23): then it stays at rest. An arm that
    leaves the obstacle keeps all.

    Args:
        restitution: coefficients.
        factor: 1 is as printed.
    """
    scene = scene_of(experiment)
    (l1, l2), (m1, m2), rates = scene.lengths, scene.masses, np.array(scene.rates)
    coupling = 0.5 * m2 * l1 * l2 * math.cos(scene.angles[1])
    d22 = m2 * l2**2 / 3
    d12 = d22 + coupling
    d11 = m1 * l1**2 / 3 + m2 * l1**2 + d22 + 2 * coupling
    D = np.array([[d11, d12], [d12, d22]])
    # velocity along the left normal of the struck link, that is towards the obstacle
    height = scene.contact_height
    J = np.array([height, 0.0])
    if scene.struck:
        J = np.array([height - l1 + l1 * math.cos(scene.angles[1]), height - l1])
    before = 0.5 * rates @ D @ rates
    approach = max(0.0, float(J @ rates))
    mobility = J @ np.linalg.solve(D, J)
    if scene.obstacle_mass is not None and experiment.contact.self_collision == "consistent":
        mobility += 1.0 / scene.obstacle_mass
    return before - factor * (1.0 - np.asarray(restitution) ** 2) * approach**2 / mobility


class LinkageImpact(Analysis):
    SCENES = ("two_links",)
    METRICS = METRICS
    CLAIMS = CLAIMS
    OFFLINE_ONLY = True

    def last_tick(self, experiment: Experiment) -> int:
        """The number of the last collision."""
        return len(scene_of(experiment).restitutions) - 1

    def simulate(
        self,
        trial: Trial,
        sink: Sink,
        progress: Callable[[int], object] | None = None,
        stop: Callable[[], bool] | None = None,
        left_out: Callable[[int, int], object] | None = None,  # of fields, which linkages do not have
    ) -> int:
        """One step of the environment for each coefficient of restitution, always from the start."""
        experiment = trial.experiment
        rate = experiment.rate
        operator = build_operator(experiment.operator, trial.table)
        command = ToolCommand()
        command.tool_tick = -1
        wrench_at_rest(operator, 0.0, command.wrench)
        for i, restitution in enumerate(scene_of(experiment).restitutions):
            if stop is not None and stop():
                return i
            contact = experiment.contact.model_copy(update={"restitution": restitution})
            world = world_of(experiment.model_copy(update={"contact": contact}))
            environment = build_environment(world, contact, experiment.environment, UNLIMITED, 1.0 / INSTANT)
            state = environment.tool_state()
            if i == 0:
                sink(-1, {"tool_state": state.to_bytes()})
            command.stamp(i, tick_time(i, rate))
            asked = command.to_bytes()
            environment.step(command, state)
            state.command_tick = i
            state.stamp(i, tick_time(i + 1, rate))
            sink(i, {"tool_command": asked, "tool_state": state.to_bytes()})
            if progress is not None:
                progress(i + 1)
        return len(scene_of(experiment).restitutions)

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """A row for each collision; energies in the configuration in which the arm collides.

        Where the obstacle moves, v2, v3 and v4 are its velocity and rate, and the angular momentum about the base is
        there, which no impulse between arm and obstacle changes.
        """
        experiment = trial.experiment
        model = trial.world.model
        states = columns(trial.tool_sizes.tool_state(), messages.get("tool_state", ()))
        states = states[np.argsort(states["tick"], kind="stable")]
        before, after = states[states["tick"] == -1], states[states["tick"] >= 0]
        if not before.size:
            after = after[:0]
        restitutions = np.array(scene_of(experiment).restitutions)[after["tick"]]
        v = after["v"].reshape(-1, model.nv)
        energy_before = np.zeros(after.size)
        energy_after = np.zeros(after.size)
        if after.size:
            D = pin.crba(model, model.createData(), before["q"][0])
            D = np.triu(D) + np.triu(D, 1).T  # only the upper triangle is filled
            energy_before[:] = 0.5 * before["v"][0] @ D @ before["v"][0]
            energy_after[:] = 0.5 * np.einsum("ni,ij,nj->n", v, D, v)
        table = {
            "restitution": restitutions,
            "kinetic_energy_before": energy_before,
            "kinetic_energy_after": energy_after,
            **{f"v{i}": np.ascontiguousarray(v[:, i]) for i in range(model.nv)},
        }
        if after.size and model.nv > 2:
            q, start = before["q"][0], before["v"][0]
            # of the arm the first generalised momentum, of the obstacle r x m v + I w
            about_base = D[0] + np.array([0.0, 0.0, -D[2, 2] * q[3], D[3, 3] * q[2], D[4, 4]])
            table["momentum_before"] = np.full(after.size, about_base @ start)
            table["momentum_after"] = v @ about_base
        return Samples(table)

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The arm struck at its other link, where THESIS strikes it; plastic and elastic collisions in other places; an
        obstacle that moves, whose collisions are of two bodies, by both laws.
        """
        return {**other_link(trial), **at_other_places(trial), **moving(trial)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        variants = self.variants(trial, samples)
        runs = {name: (variants[name], run) for name, run in references.items()}
        own = LINKS[scene_of(trial.experiment).struck]
        return Findings(_metrics(trial, samples), _claims({own: (trial, samples), **runs}), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Both links, the trial's own with its velocities; where else the arm is struck; an obstacle that moves."""
        own = LINKS[scene_of(trial.experiment).struck]
        runs = {own: (trial, samples)}
        for name, variant in other_link(trial).items():
            if name in findings.references:
                runs[name] = (variant, findings.references[name])
        panels = []
        for letter, name in zip("ab", [link for link in LINKS if link in runs], strict=False):
            height = scene_of(runs[name][0].experiment).contact_height
            title = f"({letter}) {NAMES[name]} struck at {height:g} m" + (", this run" if name == own else "")
            panels.append(_energy_panel(f"energy_{name}", title, *runs[name]))
        energy = Figure(
            "Kinetic energy after one collision",
            "Each point is one collision of the simulated arm, beside figure 4.12 of THESIS. The line is its equation "
            "4.27 with the factor 1/2 that is missing in print: without it more energy would be lost than there is.",
            panels,
            _energy_table({NAMES[name]: run for name, run in runs.items()}),
        )
        made = [energy, _velocities([Curve("this run", trial, samples, Style())])]
        places = {name: variant for name, variant in at_other_places(trial).items() if name in findings.references}
        if places:
            made.append(_places({name: (variant, findings.references[name]) for name, variant in places.items()}))
        free = {name: variant for name, variant in moving(trial).items() if name in findings.references}
        if free:
            made.append(_both_move({name: (variant, findings.references[name]) for name, variant in free.items()}))
        return made

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """All runs in one panel each for energies and velocities."""
        lines = []
        for curve in curves:
            e, experiment = curve.samples["restitution"], curve.trial.experiment
            left = curve.samples["kinetic_energy_after"]
            lines.append(Line(e, left, curve.label, curve.style, points=True))
            at = np.linspace(e.min(), e.max(), 101)
            lines.append(
                Line(at, energy_left(experiment, at), f"{curve.label}, closed form", replace(curve.style, width=1))
            )
        energy = Figure(
            "Kinetic energy after one collision",
            "Points: the simulated arm. Lines: equation 4.27 of THESIS with the factor 1/2 that is missing in print.",
            [draw("energy", "Kinetic energy after the collision", lines, _RESTITUTION, Axis(_ENERGY, least=0.1))],
            _energy_table({curve.label: (curve.trial, curve.samples) for curve in curves}),
        )
        return [energy, _velocities(curves)]

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """The closed form, for what the trial has."""
        source = "THESIS 4.27, factor 1/2 restored"
        return {
            name: (float(energy_left(trial.experiment, np.array(e))), source)
            for name, e in (("energy_left_plastic", 0.0), ("energy_left_elastic", 1.0))
            if findings.metrics[name] is not None
        }


def _with_scene(trial: Trial, **update: Any) -> Trial:
    scene = scene_of(trial.experiment).model_copy(update=update)
    return replace(trial, experiment=trial.experiment.model_copy(update={"scene": scene}))


def other_link(trial: Trial) -> dict[str, Trial]:
    """The same arm struck at its other link, where THESIS strikes it, by the link's name."""
    scene = scene_of(trial.experiment)
    name = LINKS[1 - scene.struck]
    l1, l2 = scene.lengths
    height = PUBLISHED[BASE] * l1 if name == BASE else l1 + (PUBLISHED[DISTAL] - 1.0) * l2
    return {name: _with_scene(trial, contact_height=height)}


def at_other_places(trial: Trial) -> dict[str, Trial]:
    """Plastic and elastic collisions along both links, by place."""
    l1, l2 = scene_of(trial.experiment).lengths
    heights = [part * l1 for part in PLACES] + [l1 + part * l2 for part in PLACES]
    return {f"{h:.4g} m": _with_scene(trial, contact_height=h, restitutions=(0.0, 1.0)) for h in heights}


def moving(trial: Trial) -> dict[str, Trial]:
    """The same arm and an obstacle that moves, by the law of restitution; none of a method that has one law only."""
    mass = scene_of(trial.experiment).obstacle_mass or OBSTACLE
    free = _with_scene(trial, obstacle_mass=mass)
    made = {}
    for name, rule in RULES.items():
        if rule == "consistent" or free.experiment.environment.method.PRINTED_SELF_COLLISION:
            contact = free.experiment.contact.model_copy(update={"self_collision": rule})
            made[name] = replace(free, experiment=free.experiment.model_copy(update={"contact": contact}))
    return made


def _left(samples: Samples, restitution: float) -> float | None:
    """Kinetic energy after the collision with a coefficient of restitution [J]; None if there is none."""
    rows = np.flatnonzero(samples["restitution"] == restitution)
    return float(samples["kinetic_energy_after"][rows[0]]) if rows.size else None


def _part_left(samples: Samples, restitution: float) -> float | None:
    """Kinetic energy after the collision as a part of that before; None for an arm at rest."""
    left = _left(samples, restitution)
    before = float(samples["kinetic_energy_before"][0]) if len(samples) else 0.0
    return left / before if left is not None and before > 0.0 else None


def _error(trial: Trial, samples: Samples, factor: float = 0.5) -> float | None:
    """Largest difference to (4.27) with a factor, of the energy before; None for an arm at rest."""
    if not len(samples) or not samples["kinetic_energy_before"][0] > 0.0:
        return None
    theory = energy_left(trial.experiment, samples["restitution"], factor)
    return float(np.abs(samples["kinetic_energy_after"] - theory).max() / samples["kinetic_energy_before"][0])


def _lost_momentum(samples: Samples) -> float | None:
    """Largest change of the angular momentum about the base, of that before; None for an arm at rest."""
    if not len(samples) or samples["momentum_before"][0] == 0.0:
        return None
    return float(np.abs(samples["momentum_after"] / samples["momentum_before"] - 1.0).max())


def _metrics(trial: Trial, samples: Samples) -> dict[str, float | None]:
    return {
        "energy_left_plastic": _left(samples, 0.0),
        "energy_left_elastic": _left(samples, 1.0),
        "closed_form_error": _error(trial, samples),
    }


def _claims(runs: Mapping[str, tuple[Trial, Samples]]) -> list[Claim]:
    """Claims about the collisions in runs, by names of links, places and laws; undecided where a run is missing."""

    def of(part: Callable[[Trial, Samples], float | None]) -> dict[str, float | None]:
        return {NAMES[name]: part(*runs[name]) if name in runs else None for name in LINKS}

    def along(links: Sequence[str], restitution: float) -> dict[str, float | None]:
        """Least and most energy left, of that before, wherever these links are struck."""
        lefts = [
            _part_left(run, restitution)
            for name, (trial, run) in runs.items()
            if name.endswith(" m") and LINKS[scene_of(trial.experiment).struck] in links
        ]
        known = [left for left in lefts if left is not None]
        return {"least": min(known, default=None), "most": max(known, default=None)}

    elastic, base, distal = along(LINKS, 1.0), along([BASE], 0.0), along([DISTAL], 0.0)
    errors, printed = of(_error), of(lambda trial, run: _error(trial, run, 1.0))
    struck = {NAMES[DISTAL]: _part_left(runs[DISTAL][1], 0.0) if DISTAL in runs else None}
    relative, separate = ({law: _lost_momentum(runs[law][1]) if law in runs else None} for law in RULES)
    return [
        CLOSED_FORM.judged(errors, _all(errors, lambda error: error <= ROUNDING)),
        PRINTED_FORM.judged(printed, _all(printed, lambda error: error <= ROUNDING)),
        ELASTIC_KEEPS.judged(elastic, _all(elastic, lambda part: abs(part - 1.0) <= ROUNDING)),
        BASE_LOSES_PART.judged(base, _all(base, lambda part: ROUNDING < part < 1.0 - ROUNDING)),
        DISTAL_LOSES_ALL.judged(struck, _all(struck, lambda part: part <= ROUNDING)),
        DISTAL_LOSES_ALL_ALONG.judged(distal, _all(distal, lambda part: part <= ROUNDING)),
        RELATIVE_KEEPS.judged(relative, _all(relative, lambda change: change <= ROUNDING)),
        SEPARATE_KEEPS.judged(separate, _all(separate, lambda change: change <= ROUNDING)),
    ]


def _all(measured: Mapping[str, float | None], holds: Callable[[float], bool]) -> bool | None:
    """Whether `holds` is true of every measured value; None if a value is missing."""
    values = [value for value in measured.values() if value is not None]
    return all(map(holds, values)) if len(values) == len(measured) else None


_RESTITUTION, _ENERGY = "coefficient of restitution", "kinetic energy [J]"


def _energy_panel(name: str, title: str, trial: Trial, samples: Samples) -> Panel:
    e = samples["restitution"]
    at = np.linspace(e.min(), e.max(), 101)
    lines = [
        Line(e, samples["kinetic_energy_after"], "after, simulated", Style(BLUE), points=True),
        Line(at, energy_left(trial.experiment, at), "after, closed form", Style(VERMILION, width=1.2)),
        Line(e, samples["kinetic_energy_before"], "before", Style(BLACK, (5, 1.8), 1.0)),
    ]
    top = 1.08 * max(float(samples["kinetic_energy_before"].max()), float(samples["kinetic_energy_after"].max()), 1e-9)
    return draw(name, title, lines, _RESTITUTION, Axis(_ENERGY, (-0.04 * top, top)))


def _places(runs: Mapping[str, tuple[Trial, Samples]]) -> Figure:
    """Energy left over where the arm is struck."""
    lines = []
    for e, text, style in ((0.0, "plastic, e = 0", Style(BLUE)), (1.0, "elastic, e = 1", Style(VERMILION))):
        heights = np.array([scene_of(trial.experiment).contact_height for trial, _ in runs.values()])
        left = np.array([_part_left(run, e) or 0.0 for _, run in runs.values()])
        lines.append(Line(heights, 100.0 * left, text, style, points=True))
    axes = "height of the obstacle [m]", Axis("kinetic energy left [%]", least=1.0)
    return Figure(
        "Where the arm is struck",
        "THESIS says that a plastic collision of the distal link takes all kinetic energy. Of uniform rods that turn "
        "as these it does so in one place, in which figure 4.12(b) strikes it.",
        [draw("places", "Kinetic energy left", lines, *axes)],
    )


def _both_move(runs: Mapping[str, tuple[Trial, Samples]]) -> Figure:
    """An obstacle that moves, by both laws of restitution."""
    styles = dict(zip(RULES, (Style(BLUE), Style(VERMILION)), strict=True))
    energies, speeds = [], []
    for name, (trial, run) in runs.items():
        e = run["restitution"]
        at = np.linspace(e.min(), e.max(), 101)
        theory = energy_left(trial.experiment, at)
        energies.append(Line(e, run["kinetic_energy_after"], name, styles[name], points=True))
        energies.append(Line(at, theory, f"{name}, closed form", replace(styles[name], width=1.0)))
        speeds.append(Line(e, np.hypot(run["v2"], run["v3"]), name, styles[name], points=True))
    panels = [
        draw("moving_energy", "(a) kinetic energy of both after", energies, _RESTITUTION, Axis(_ENERGY, least=0.1)),
        draw(
            "moving_speed",
            "(b) obstacle",
            speeds,
            _RESTITUTION,
            Axis("speed of the obstacle after [m/s]", least=0.1),
        ),
    ]
    mass = scene_of(next(iter(runs.values()))[0].experiment).obstacle_mass
    return Figure(
        "An obstacle that moves",
        f"The obstacle, of {mass:g} kg and at rest, moves too. If each body obeys the law of restitution alone, as "
        "(4.22, 4.23) of THESIS have it, it stays at rest: no momentum is kept.",
        panels,
    )


def _velocities(curves: Sequence[Curve]) -> Figure:
    panels = []
    for i, letter in enumerate("ab"):
        lines = [Line(c.samples["restitution"], c.samples[f"v{i}"], c.label, c.style) for c in curves]
        which = ("base", "distal")[i]
        panels.append(
            draw(
                f"velocity_{i}",
                f"({letter}) joint of the {which} link",
                lines,
                "coefficient of restitution",
                Axis("joint velocity after [rad/s]", least=0.1),
            )
        )
    return Figure("Joint velocities after the collision", "The arm turns to the left where they are positive.", panels)


def _energy_table(runs: Mapping[str, tuple[Trial, Samples]]) -> list[list[str]]:
    """Energies at a few coefficients, simulated and by theory."""
    table = [["Struck", "e", "before [J]", "after [J]", "closed form [J]", "lost"]]
    for label, (trial, samples) in runs.items():
        count = len(samples)
        for row in sorted({0, count // 2, count - 1}):
            e, before = samples["restitution"][row], samples["kinetic_energy_before"][row]
            after, theory = samples["kinetic_energy_after"][row], energy_left(trial.experiment, e)
            lost = f"{100 * (round(1 - after / before, 12) + 0.0):.4g} %" if before > 0.0 else "\N{EN DASH}"
            numbers = [f"{0.0 if abs(x) < 1e-12 * before else x:.5g}" for x in (before, after, float(theory))]
            table.append([label, f"{e:g}", *numbers, lost])
    return table


ANALYSIS = LinkageImpact()
