"""The energy that a linkage loses in a collision (THESIS 4.4.1), beside figure 4.12.

Not a trial in time: a row of the samples is one collision, with a coefficient of restitution of its own, and "ticks" of
the recorded messages count them. Every collision is one step of the environment from the same state, in which the arm
touches the obstacle and approaches it. The step is so short that nothing else moves the arm meanwhile (THESIS 4.4: t
tends to t0, and other forces have no impulse).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pinocchio as pin

from haptic_bench.analysis.figures import BLACK, BLUE, VERMILION, Curve, Figure, Line, Panel, Style, draw
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running.offline import Sink
from haptic_bench.studies.study import Analysis, Claim, Quantity, Study, scene_as
from haptic_drivers.operators import build_operator, wrench_at_rest
from haptic_sim.contact.response import UNLIMITED
from haptic_sim.messages import ToolCommand, columns, tick_time
from haptic_sim.tool.tool_side import build_environment
from haptic_sim.worlds.scenes import TwoLinksParameters

BASE, DISTAL = "base_link", "distal_link"
LINKS = (BASE, DISTAL)
NAMES = {BASE: "base link", DISTAL: "distal link"}
PUBLISHED = {BASE: 0.7, DISTAL: 1.5}  # THESIS, footnote 3 and figure 4.12: where the arm is struck, in link lengths
ROUNDING = 1e-9  # of the energy before
INSTANT = 1e-12  # [s]

METRICS = {
    "energy_left_plastic": Quantity("Kinetic energy left by a perfectly plastic collision (e = 0)", "J"),
    "energy_left_elastic": Quantity("Kinetic energy left by a perfectly elastic collision (e = 1)", "J"),
    "closed_form_error": Quantity("Largest difference to the closed form, of the energy before", "%", 1e2),
}
CLAIMS = {
    "elastic_keeps_energy": Quantity("kinetic energy after, at e = 1, of that before", "%", 1e2),
    "distal_loses_all": Quantity("kinetic energy after, at e = 0, of that before", "%", 1e2),
    "base_loses_part": Quantity("kinetic energy after, at e = 0, of that before", "%", 1e2),
    "passive": Quantity("largest kinetic energy after, of that before", "%", 1e2),
    "closed_form": Quantity("largest difference to the closed form, of the energy before", "%", 1e2),
}


def scene_of(experiment: Experiment) -> TwoLinksParameters:
    """The scene that this study is about."""
    return scene_as(experiment, TwoLinksParameters)


def energy_left(scene: TwoLinksParameters, restitution: np.ndarray) -> np.ndarray:
    """Kinetic energy after a collision [J], by theory.

    THESIS (4.27) with the factor 1/2 restored (errata 1): KE = KE0 - 1/2 (1 - e^2) qd^T Jc^T Jbar^T D Jbar Jc qd. For
    one contact of the normal velocity v = Jc qd that is KE0 - 1/2 (1 - e^2) v^2 / (Jc D^-1 Jc^T). D is that of two
    uniform rods, from their Lagrangian; nothing of the engine is used. An arm that leaves the obstacle keeps all.
    """
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
    return before - 0.5 * (1.0 - np.asarray(restitution) ** 2) * approach**2 / (J @ np.linalg.solve(D, J))


class LinkageImpact(Study):
    """See the module."""

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
    ) -> int:
        """One step of the environment for each coefficient of restitution, always from the start."""
        experiment = trial.experiment
        rate = experiment.rate
        operator = build_operator(experiment.operator, trial.wrenches)
        command = ToolCommand()
        command.tool_tick = -1
        wrench_at_rest(operator, 0.0, command.wrench)
        for i, restitution in enumerate(scene_of(experiment).restitutions):
            if stop is not None and stop():
                return i
            contact = experiment.contact.model_copy(update={"restitution": restitution})
            world = experiment.model_copy(update={"contact": contact}).world()
            environment = build_environment(world, contact, experiment.environment, UNLIMITED, 1.0 / INSTANT)
            state = environment.tool_state()
            if i == 0:
                sink("tool_state", -1, state.to_bytes())
            command.stamp(i, tick_time(i, rate))
            sink("tool_command", i, command.to_bytes())
            environment.step(command, state)
            state.command_tick = i
            state.stamp(i, tick_time(i + 1, rate))
            sink("tool_state", i, state.to_bytes())
            if progress is not None:
                progress(i + 1)
        return len(scene_of(experiment).restitutions)

    def samples(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
        """A row for each collision; energies of the whole linkage, in the configuration in which it collides."""
        experiment = trial.experiment
        model = experiment.world().model
        states = columns(experiment.tool_sizes().tool_state(), messages.get("tool_state", ()))
        order = np.argsort(states["tick"], kind="stable")
        before, after = states[order[states["tick"][order] == -1]], states[order[states["tick"][order] >= 0]]
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
        return Samples(
            {
                "restitution": restitutions,
                "kinetic_energy_before": energy_before,
                "kinetic_energy_after": energy_after,
                "v0": np.ascontiguousarray(v[:, 0]),
                "v1": np.ascontiguousarray(v[:, 1]),
            }
        )

    def analyse(self, trial: Trial, samples: Samples, *, compare: bool = True) -> Analysis:
        """See Study; the reference is the arm struck at its other link, where THESIS strikes it."""
        own = LINKS[scene_of(trial.experiment).struck]
        references = {}
        if compare:
            other = other_height(trial)
            references[LINKS[scene_of(other.experiment).struck]] = self.run_unrecorded(other)
        runs = {own: (trial, samples)} | {name: (other_height(trial), run) for name, run in references.items()}
        return Analysis(_metrics(trial, samples), _claims(runs), references)

    def figures(self, trial: Trial, samples: Samples, analysis: Analysis) -> list[Figure]:
        """Both links, the trial's own with its velocities."""
        own = LINKS[scene_of(trial.experiment).struck]
        runs = {own: (trial, samples)}
        if analysis.references:
            (other,) = analysis.references
            runs[other] = (other_height(trial), analysis.references[other])
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
        return [energy, _velocities([Curve("this run", trial, samples, Style())])]

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        """All runs in one panel each for energies and velocities."""
        lines = []
        for curve in curves:
            e, scene = curve.samples["restitution"], scene_of(curve.trial.experiment)
            left = curve.samples["kinetic_energy_after"]
            lines.append(Line(e, left, curve.label, curve.style, points=True))
            at = np.linspace(e.min(), e.max(), 101)
            lines.append(Line(at, energy_left(scene, at), f"{curve.label}, closed form", replace(curve.style, width=1)))
        energy = Figure(
            "Kinetic energy after one collision",
            "Points: the simulated arm. Lines: equation 4.27 of THESIS with the factor 1/2 that is missing in print.",
            [draw("energy", "Kinetic energy after the collision", lines, *_ENERGY_AXES, least=0.1)],
            _energy_table({curve.label: (curve.trial, curve.samples) for curve in curves}),
        )
        return [energy, _velocities(curves)]

    def expected(self, trial: Trial, analysis: Analysis) -> Mapping[str, tuple[float, str]]:
        """The closed form, for what the trial has."""
        source = "THESIS 4.27, factor 1/2 restored"
        return {
            name: (float(energy_left(scene_of(trial.experiment), np.array(e))), source)
            for name, e in (("energy_left_plastic", 0.0), ("energy_left_elastic", 1.0))
            if analysis.metrics[name] is not None
        }


def other_height(trial: Trial) -> Trial:
    """The same arm struck at its other link, where THESIS strikes it."""
    scene = scene_of(trial.experiment)
    name = LINKS[1 - scene.struck]
    l1, l2 = scene.lengths
    height = PUBLISHED[BASE] * l1 if name == BASE else l1 + (PUBLISHED[DISTAL] - 1.0) * l2
    scene = scene.model_copy(update={"contact_height": height})
    return replace(trial, experiment=trial.experiment.model_copy(update={"scene": scene}))


def _left(samples: Samples, restitution: float) -> float | None:
    """Kinetic energy after the collision with a coefficient of restitution [J]; None if there is none."""
    rows = np.flatnonzero(samples["restitution"] == restitution)
    return float(samples["kinetic_energy_after"][rows[0]]) if rows.size else None


def _part_left(samples: Samples, restitution: float) -> float | None:
    """The same as a part of that before; None for an arm at rest."""
    left = _left(samples, restitution)
    before = float(samples["kinetic_energy_before"][0]) if len(samples) else 0.0
    return left / before if left is not None and before > 0.0 else None


def _error(trial: Trial, samples: Samples) -> float | None:
    if not len(samples) or not samples["kinetic_energy_before"][0] > 0.0:
        return None
    theory = energy_left(scene_of(trial.experiment), samples["restitution"])
    return float(np.abs(samples["kinetic_energy_after"] - theory).max() / samples["kinetic_energy_before"][0])


def _metrics(trial: Trial, samples: Samples) -> dict[str, float | None]:
    return {
        "energy_left_plastic": _left(samples, 0.0),
        "energy_left_elastic": _left(samples, 1.0),
        "closed_form_error": _error(trial, samples),
    }


def _claims(runs: Mapping[str, tuple[Trial, Samples]]) -> list[Claim]:
    """What the collisions of both links say; a link that is not there leaves claims about it undecided."""

    def of(part: Callable[[Trial, Samples], float | None]) -> dict[str, float | None]:
        return {NAMES[name]: part(*runs[name]) if name in runs else None for name in LINKS}

    elastic, plastic = of(lambda _, run: _part_left(run, 1.0)), of(lambda _, run: _part_left(run, 0.0))
    distal = {NAMES[DISTAL]: plastic[NAMES[DISTAL]]}
    base = {NAMES[BASE]: plastic[NAMES[BASE]]}
    largest, errors = of(_largest_part), of(_error)
    return [
        Claim(
            "elastic_keeps_energy",
            "A perfectly elastic collision keeps the kinetic energy",
            "THESIS 4.4.1, figure 4.12",
            elastic,
            _all(elastic, lambda part: abs(part - 1.0) <= ROUNDING),
        ),
        Claim(
            "distal_loses_all",
            "A perfectly plastic collision of the distal link, as struck there (1.5 m), takes all kinetic energy",
            "THESIS 4.4.1, figure 4.12(b)",
            distal,
            _all(distal, lambda part: part <= ROUNDING),
        ),
        Claim(
            "base_loses_part",
            "A perfectly plastic collision of the base link (0.7 m) takes only part of it",
            "THESIS 4.4.1, figure 4.12(a)",
            base,
            _all(base, lambda part: ROUNDING < part < 1.0 - ROUNDING),
        ),
        Claim(
            "passive",
            "No collision adds energy, whatever its coefficient of restitution",
            "THESIS 4.4.1, theorem 1",
            largest,
            _all(largest, lambda part: part <= 1.0 + ROUNDING),
        ),
        Claim(
            "closed_form",
            "The energy lost is that of equation 4.27, with the factor 1/2 that is missing in print",
            "THESIS 4.4.1, equation 4.27",
            errors,
            _all(errors, lambda error: error <= ROUNDING),
        ),
    ]


def _largest_part(trial: Trial, samples: Samples) -> float | None:
    if not len(samples) or not samples["kinetic_energy_before"][0] > 0.0:
        return None
    return float((samples["kinetic_energy_after"] / samples["kinetic_energy_before"]).max())


def _all(measured: Mapping[str, float | None], holds: Callable[[float], bool]) -> bool | None:
    """Whether it holds for everything measured; None if something was not."""
    values = [value for value in measured.values() if value is not None]
    return all(map(holds, values)) if len(values) == len(measured) else None


_ENERGY_AXES = ("coefficient of restitution", "kinetic energy [J]")


def _energy_panel(name: str, title: str, trial: Trial, samples: Samples) -> Panel:
    e = samples["restitution"]
    at = np.linspace(e.min(), e.max(), 101)
    lines = [
        Line(e, samples["kinetic_energy_after"], "after, simulated", Style(BLUE), points=True),
        Line(at, energy_left(scene_of(trial.experiment), at), "after, closed form", Style(VERMILION, width=1.2)),
        Line(e, samples["kinetic_energy_before"], "before", Style(BLACK, (5, 1.8), 1.0)),
    ]
    top = 1.08 * max(float(samples["kinetic_energy_before"].max()), float(samples["kinetic_energy_after"].max()), 1e-9)
    return draw(name, title, lines, *_ENERGY_AXES, y_range=(-0.04 * top, top))


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
                "joint velocity after [rad/s]",
                least=0.1,
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
            after, theory = samples["kinetic_energy_after"][row], energy_left(scene_of(trial.experiment), e)
            lost = f"{100 * (round(1 - after / before, 12) + 0.0):.4g} %" if before > 0.0 else "\N{EN DASH}"
            numbers = [f"{0.0 if abs(x) < 1e-12 * before else x:.5g}" for x in (before, after, float(theory))]
            table.append([label, f"{e:g}", *numbers, lost])
    return table


STUDY = LinkageImpact()
