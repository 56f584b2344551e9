"""Figures of trials: what any trial shows of its samples, the runs of a sweep in common panels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_bench.running import forks
from haptic_sim.dynamics.energy import TERMS
from haptic_view import units
from haptic_view.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    Axis,
    Figure,
    Line,
    Panel,
    Style,
    draw,
    import_matplotlib,
    shown,
    thin,
)

_AREA = 300  # points of an area over time, which costs more than a line


@dataclass(frozen=True)
class Curve:
    """A run in a figure."""

    label: str
    trial: Trial
    samples: Samples
    style: Style

    def over_time(self, values: np.ndarray, steps: bool = False) -> Line:
        """Values of each row over time, thinned for a drawing."""
        return Line(*thin(self.samples["time"], values), self.label, self.style, steps)


def draw_all(figures: Iterable[Figure]) -> None:
    """Make the documents of all panels of some figures, on all cores."""
    panels = [panel for figure in figures for panel in figure.panels]
    if panels:
        import_matplotlib()
    for panel, svg in zip(panels, forks.on_cores(_document, panels), strict=True):
        vars(panel)["svg"] = svg  # where `cached_property` keeps it


def _document(panel: Panel) -> str:
    return panel.svg


def trial_figures(curves: Sequence[Curve]) -> list[Figure]:
    """The figures of any trial: trajectories of hand and tool, wrenches, kinetic energy, balance of energy."""
    return shown(_trajectories(curves), _wrenches(curves), _kinetic_energy(curves), energy_figure(curves))


_STILL = 1e-3  # [mm] less is not drawn as motion
_SHOWN = 1.0  # [mm] a trajectory's panel shows at least this much, so that its numbers stay short
_NO_FORCE = 1e-6  # [N, N m] nor this as a force
NO_ENERGY = 1e-9  # [J] nor this as an energy


def _has(curves: Sequence[Curve], column: str) -> bool:
    return all(column in curve.samples.names for curve in curves)


def _trajectories(curves: Sequence[Curve]) -> Figure | None:
    bodies = [body for body in ("hand", "tool") if _has(curves, f"{body}_px")]
    panels = []
    for body in bodies:
        positions = [1e3 * curve.samples.group(body, "px", "py", "pz") for curve in curves]
        extent = np.max([np.ptp(position, axis=0) for position in positions], axis=0)
        if sum(extent > _STILL) <= 1:  # along an axis: as a path it would be a straight line
            panels.append(_along(body, int(np.argmax(extent)), positions, curves))
            continue
        axes = [1] if extent[2] == 0.0 else [2] if extent[1] < _STILL else [1, 2]
        for axis in axes:
            across = "xyz"[axis]
            lines = [
                Line(p[:, 0], p[:, axis], curve.label, curve.style) for p, curve in zip(positions, curves, strict=True)
            ]
            panels.append(
                draw(
                    f"trajectory_{body}_x{across}",
                    f"Trajectory of the {body}",
                    lines,
                    "x [mm]",
                    Axis(f"{across} [mm]", least=_SHOWN),
                    equal=True,
                )
            )
    if not panels:
        return None
    return Figure("Trajectories", f"Position of the {' and of the '.join(bodies)}.", panels)


def _along(body: str, axis: int, positions: Sequence[np.ndarray], curves: Sequence[Curve]) -> Panel:
    """A coordinate of a body over time."""
    name = "xyz"[axis]
    lines = [
        Line(*thin(curve.samples["time"], p[:, axis]), curve.label, curve.style)
        for p, curve in zip(positions, curves, strict=True)
    ]
    title = f"Position of the {body} along {name}"
    return draw(f"trajectory_{body}_{name}", title, lines, "time [s]", Axis(f"{name} [mm]", least=_SHOWN))


def _wrenches(curves: Sequence[Curve]) -> Figure | None:
    known = {"rendered": "rendered on the device", "env": "of the environment on the tool"}
    source = next((name for name in known if _has(curves, f"{name}_fx")), None)
    if source is None:
        return None
    wrench = {c: [curve.samples[f"{source}_{c}"] for curve in curves] for c in ("fx", "fy", "fz", "tx", "ty", "tz")}
    shown = [c for c, values in wrench.items() if any(np.abs(value).max() > _NO_FORCE for value in values)]
    if not {"fz", "tx", "ty"} & set(shown):
        shown = ["fx", "fy", "tz"]  # in the plane
    panels = []
    for component in shown:
        values = wrench[component]
        kind, unit = ("Force", "N") if component[0] == "f" else ("Torque", "N m")
        lines = [
            Line(curve.samples["time"], value, curve.label, curve.style, steps=True)
            for value, curve in zip(values, curves, strict=True)
        ]
        title = f"{kind} {'along' if kind == 'Force' else 'about'} {component[1]}"
        panels.append(
            draw(f"wrench_{component}", title, lines, "time [s]", Axis(f"{title.lower()} [{unit}]", least=0.2))
        )
    return Figure("Forces and torques", f"Wrench {known[source]}, held over each tick.", panels)


def _kinetic_energy(curves: Sequence[Curve]) -> Figure | None:
    if not _has(curves, "kinetic_energy"):
        return None
    energies = [curve.samples["kinetic_energy"] for curve in curves]
    unit, scale = _energy_unit(max(float(values.max()) for values in energies))
    lines = [
        Line(curve.samples["time"], scale * values, curve.label, curve.style)
        for curve, values in zip(curves, energies, strict=True)
    ]
    axis = Axis(f"kinetic energy [{unit}]", least=scale * NO_ENERGY)
    panel = draw("kinetic_energy", "Kinetic energy of the tool", lines, "time [s]", axis)
    return Figure("Kinetic energy", "Kinetic energy of the tool.", [panel])


def port_figure(curves: Sequence[Curve]) -> Figure | None:
    """Energy that the display has received from the hand, where it falls below zero or the guard has acted."""
    if not curves or not _has(curves, "port_energy_translation"):
        return None
    sums = {
        name: [curve.samples.group(f"port_{name}", "translation", "rotation").sum(axis=1) for curve in curves]
        for name in ("energy", "dissipated")
    }
    kept = [float(values[-1]) for values in sums["dissipated"]]
    if not any(kept) and min(float(values.min()) for values in sums["energy"]) >= -NO_ENERGY:
        return None
    unit, scale = _energy_unit(max(float(np.abs(values).max()) for values in sums["energy"]))
    panel = _over_time("port_energy", "Energy that the display has received", curves, sums["energy"], unit, scale)
    caption = "Energy that the display has received from the hand at the device's port; below zero it is active."
    if any(kept):
        texts = (f"{curve.label}: {scale * value:.3g} {unit}" for curve, value in zip(curves, kept, strict=True))
        caption += f" The guard has kept from the hand, of each run: {'; '.join(texts)}."
    return Figure("Energy of the device's port", caption, [panel])


# Where energy is, and where it went; in the order of a stack
_STORED = {"kinetic": BLUE, "potential": SKY, "elastic": GREEN}
_SPENT = {"damping": ORANGE, "friction": PURPLE, "impact": "#8a8f98"}
_HATCHES = {"potential": "..", "elastic": "--", "damping": "//", "friction": "\\\\", "impact": "xx"}
_NAMES = {
    "kinetic": "kinetic",
    "potential": "potential",
    "elastic": "elastic",
    "damping": "lost to damping",
    "friction": "lost to friction",
    "impact": "lost to impacts",
}


@dataclass(frozen=True)
class _Balance:
    """The energy of a run over time [J]; `supplied`: what there was at the start, and what was injected since."""

    time: np.ndarray
    terms: Mapping[str, np.ndarray]
    supplied: np.ndarray
    stored: np.ndarray
    spent: np.ndarray
    gap: float  # largest error of the balance

    @classmethod
    def of(cls, samples: Samples) -> _Balance:
        terms = {name: samples[f"energy_{name}"] for name in TERMS}
        # only changes of the potential mean something
        terms["potential"] = terms["potential"] - terms["potential"].min()
        stored = np.sum([terms[name] for name in _STORED], axis=0)
        spent = np.sum([terms[name] for name in _SPENT], axis=0)
        error = stored + spent - terms["injected"] - terms["numerical"]  # is what there was at the start
        supplied = error[0] + terms["injected"]
        return cls(samples["time"], terms, supplied, stored, spent, float(np.ptp(error)))

    @property
    def largest(self) -> float:
        """[J]"""
        return float(np.abs([*self.terms.values(), self.supplied]).max())


def energy_figure(curves: Sequence[Curve], beside: Sequence[Curve] = ()) -> Figure | None:
    """Figure of the energy balance of the simulated world; None for samples without it.

    Of one run a stack of what is stored and what was lost, whose top is the energy supplied but for what discrete time
    added; of several, lines. The table has the runs `beside` too.
    """
    beside = [curve for curve in beside if _has([curve], "energy_numerical")]
    if not curves or not _has(curves, "energy_numerical"):
        return None
    balances = [_Balance.of(curve.samples) for curve in curves]
    largest = max(balance.largest for balance in balances)
    if largest <= NO_ENERGY:
        return None
    unit, scale = _energy_unit(largest)
    if len(curves) == 1:
        panels = _stack(balances[0], unit, scale)
        lead = (
            "What is stored and what was lost (impacts: in collisions and rigid contacts) add up to what was supplied, "
            "at the start and by the work of the operator and of moving surroundings."
        )
    else:
        panels = [
            _over_time(f"energy_{name}", title, curves, [getattr(b, name) for b in balances], unit, scale)
            for name, title in (
                ("supplied", "Supplied, at the start and since"),
                ("stored", "Stored: kinetic, potential, elastic"),
                ("spent", "Lost: damping, friction, impacts"),
            )
        ]
        lead = "Where the energy of the simulated world came from, how much is stored, and how much was lost."
    added = [balance.terms["numerical"] for balance in balances]
    title = "Numerical: added by discrete time"
    panels.append(_over_time("energy_numerical", title, curves, added, *_energy_unit(float(np.abs(added[0]).max()))))
    gap = max(balance.gap for balance in balances)
    caption = (
        f"{lead} What remains, drawn on its own scale, was added (or, if negative, taken) by advancing time in steps. "
        f"Potential energy is above its lowest. The recorded terms balance to {gap:.1g} J."
    )
    return Figure("Energy", caption, panels, _energy_table([*curves, *beside]))


def _energy_unit(largest: float) -> tuple[str, float]:
    """Unit for energies up to `largest` [J], and the number of these units in a joule."""
    known = (("J", 1.0), ("mJ", 1e3), ("µJ", 1e6))
    return next(((unit, scale) for unit, scale in known if largest * scale >= 1.0), ("nJ", 1e9))


def _stack(balance: _Balance, unit: str, scale: float) -> list[Panel]:
    lines = [Line(*thin(balance.time, scale * balance.supplied, _AREA), "supplied", Style(BLACK, (5, 1.8), 1.2))]
    total = np.zeros_like(balance.time)
    for name, colour in (_STORED | _SPENT).items():
        if balance.terms[name].any():
            total = total + scale * balance.terms[name]
            lines.append(
                Line(
                    *thin(balance.time, total, _AREA),
                    _NAMES[name],
                    Style(colour),
                    area=True,
                    hatch=_HATCHES.get(name, ""),
                )
            )
    title = "Where the energy is, and where it went"
    return [draw("energy_stack", title, lines, "time [s]", Axis(f"energy, stacked [{unit}]", least=scale * NO_ENERGY))]


def _over_time(
    name: str, title: str, curves: Sequence[Curve], values: Sequence[np.ndarray], unit: str, scale: float
) -> Panel:
    lines = [
        Line(*thin(curve.samples["time"], scale * value), curve.label, curve.style)
        for curve, value in zip(curves, values, strict=True)
    ]
    return draw(name, title, lines, "time [s]", Axis(f"energy [{unit}]", least=scale * NO_ENERGY))


def _energy_table(curves: Sequence[Curve]) -> list[list[str]]:
    """Table of the energies of each run at the end."""
    balances = [_Balance.of(curve.samples) for curve in curves]
    unit, scale = _energy_unit(max(balance.largest for balance in balances))
    shown = [name for name in _STORED | _SPENT if any(balance.terms[name].any() for balance in balances)]
    rows = [[f"At the end [{unit}]", "supplied", "numerical", *(_NAMES[name] for name in shown)]]
    for curve, balance in zip(curves, balances, strict=True):
        values = [balance.supplied, balance.terms["numerical"], *(balance.terms[name] for name in shown)]
        rows.append([curve.label, *(_signed(scale * value[-1]) for value in values)])
    return rows


def _signed(value: float) -> str:
    """A number with three decimals; a number that rounds to zero is 0 without a sign, a huge one has a power of ten."""
    if abs(value) >= 1e7:
        return units.text(value, 4)
    return f"{value:.3f}".replace("-", "\N{MINUS SIGN}") if abs(value) >= 5e-4 else "0"
