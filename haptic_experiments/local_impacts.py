"""An arm among walls, held by its distal link through a local model (THESIS 6.4.1, figures 6.14 to 6.17).

Collisions of the proxy must not add kinetic energy: plastic ones take some, elastic ones none. The kinetic energy of a
tick changes by the operator's work, too, which is taken off. In the tick of a collision the impulse also undoes what
the operator's force adds to the approach, so that an elastic collision is exact only as the tick goes to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import each
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import Compared, LocalModelAnalysis, Variant, declared
from haptic_view.figures import BLUE, VERMILION, Axis, Figure, Line, Style, draw, thin

GAIN = 1e-3  # of the kinetic energy before a collision: less is none
ELASTIC = 0.02  # of that energy: what constant means, with the operator's force in the tick of the collision
ORDERS = 2.0  # orders of magnitude: what much larger means
TOUCHES = 1e-9  # [N] less force than this is none


def collisions(samples: Samples) -> np.ndarray:
    """Rows of collisions whose following tick is there."""
    return np.flatnonzero((samples["colliding"][:-1] > 0) & (np.diff(samples["tick"]) == 1))


def energy_changes(samples: Samples) -> np.ndarray:
    """Change of the kinetic energy in each collision, less the operator's work, of that before."""
    rows, kinetic = collisions(samples), samples["energy_kinetic"]
    change = np.diff(kinetic)[rows] - np.diff(samples["energy_injected"])[rows]
    return change / np.maximum(kinetic[rows], 1e-12)


def force(samples: Samples) -> np.ndarray:
    """Size of the environment's force at the hand (rows,) [N]."""
    return np.asarray(np.linalg.norm(samples.wrench("env")[:, :3], axis=1))


def impact_force(samples: Samples) -> float | None:
    """Median of the force of collisions [N]."""
    size = force(samples)[collisions(samples)]
    return float(np.median(size)) if size.size else None


def contact_force(samples: Samples) -> float | None:
    """Median of the force during contact, without collisions [N]."""
    size = force(samples)
    resting = (samples["colliding"] == 0) & (size > TOUCHES)
    return float(np.median(size[resting])) if resting.any() else None


def simultaneous(samples: Samples) -> float:
    """Contacts in the collision with most of them."""
    return float(samples["contacts"][collisions(samples)].max(initial=0))


def largest_gain(samples: Samples) -> float | None:
    """Largest of `energy_changes`; None: nothing collides."""
    return float(energy_changes(samples).max()) if collisions(samples).size else None


def largest_loss(samples: Samples) -> float | None:
    """Smallest of them."""
    return float(energy_changes(samples).min()) if collisions(samples).size else None


def largest_impact(samples: Samples) -> float | None:
    """Largest force of a collision at the hand [N]."""
    rows = collisions(samples)
    return float(force(samples)[rows].max()) if rows.size else None


def of_run(run: str, **measures: Callable[[Samples], float | None]) -> Callable[[Compared], dict[str, float | None]]:
    """Several numbers of one run."""
    return lambda case: {name: each(measure, run)(case)[run] for name, measure in measures.items()}


def most(case: Compared) -> dict[str, float | None]:
    """Contacts in the collision with most of them, of both runs."""
    counts = each(simultaneous, "plastic", "elastic")(case).values()
    return {"largest": None if None in counts else max(count or 0.0 for count in counts)}


CHANGE = Quantity("change of the kinetic energy in a collision, of that before", "%", 100.0)
PLASTIC_TAKES = Statement(
    "plastic_takes",
    "In perfectly plastic collisions the kinetic energy of the proxy decreases",
    "THESIS 6.4.1, figure 6.15(a)",
    CHANGE,
    of=of_run("plastic", largest_loss=largest_loss, largest_gain=largest_gain),
    holds=lambda m: m["largest_gain"] <= GAIN and m["largest_loss"] < -GAIN,
    runs=["plastic"],
)
ELASTIC_KEEPS = Statement(
    "elastic_keeps",
    f"In perfectly elastic ones it is constant, within {100 * ELASTIC:g} %",
    "THESIS 6.4.1, figure 6.15(b)",
    CHANGE,
    of=of_run("elastic", largest_loss=largest_loss, largest_gain=largest_gain),
    holds=lambda m: max(map(abs, m.values())) <= ELASTIC,
    runs=["elastic"],
)
SIMULTANEOUS = Statement(
    "simultaneous",
    "That holds of simultaneous collisions, too: at least one tick has several",
    "THESIS 6.4.1, figure 6.15",
    Quantity("contacts in the collision with most of them"),
    of=most,
    holds=lambda m: m["largest"] >= 2.0,
    runs=["plastic", "elastic"],
)
LARGER = Statement(
    "larger",
    f"Forces of collisions are larger than those during contact by more than {ORDERS:g} orders of magnitude (up to "
    "four in the source), each by its median; an impulse is held over a tick, so that its force grows with the rate",
    "THESIS 6.4.1, figure 6.16",
    Quantity("median force", "N"),
    of=of_run("plastic", collision=impact_force, contact=contact_force),
    holds=lambda m: m["collision"] >= 10.0**ORDERS * m["contact"],
    runs=["plastic"],
)


class LocalImpacts(LocalModelAnalysis):
    METRICS: ClassVar = {
        "collisions": Quantity("Ticks with collisions", of=lambda case: float(collisions(case.samples).size)),
        "simultaneous": Quantity(
            "Contacts in the collision with most of them", of=lambda case: simultaneous(case.samples)
        ),
        "largest_gain": Quantity(
            "Largest change of the kinetic energy in a collision, of that before",
            "%",
            100.0,
            lambda case: largest_gain(case.samples),
        ),
        "largest_loss": Quantity(
            "Smallest change of the kinetic energy in a collision, of that before",
            "%",
            100.0,
            lambda case: largest_loss(case.samples),
        ),
        "largest_impact": Quantity(
            "Largest force of a collision at the hand", "N", of=lambda case: largest_impact(case.samples)
        ),
        "contact_force": Quantity(
            "Median of the force at the hand during contact, without collisions",
            "N",
            of=lambda case: contact_force(case.samples),
        ),
        **declared("max_force_step"),
    }
    CLAIMS = (PLASTIC_TAKES, ELASTIC_KEEPS, SIMULTANEOUS, LARGER)
    VARIANTS: ClassVar = {
        "plastic": Variant({"contact": {"restitution": 0.0}}),
        "elastic": Variant({"contact": {"restitution": 1.0}}),
    }

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Figures of the trial as 6.15 to 6.17."""
        own = self.own(trial)
        runs = {own or "this run": samples, **findings.references}
        styles = {name: Style(colour) for name, colour in zip(runs, (BLUE, VERMILION, "#444444"), strict=False)}
        energy = [
            Line(*thin(run["time"], 1e3 * run["energy_kinetic"]), name, styles[name]) for name, run in runs.items()
        ]
        number, forces = [], []
        for name, run in runs.items():
            rows = collisions(run)
            number.append(Line(run["time"][rows], run["contacts"][rows].astype(float), name, styles[name], points=True))
            size = force(run)
            shown = size > 1e-4
            forces.append(Line(run["time"][shown], size[shown], name, styles[name], points=True))
        panels = [
            draw("collisions", "simultaneous collisions", number, "time [s]", Axis("number", counts=True)),
            draw("energy", "kinetic energy of the proxy", energy, "time [s]", "energy [mJ]"),
            draw("forces", "force at the hand", forces, "time [s]", Axis("force [N]", log=True)),
        ]
        caption = (
            "Collisions and kinetic energy, beside figure 6.15 of THESIS; force of the environment at the hand, beside "
            "figures 6.16 and 6.17."
        )
        made = super().figures(trial, samples, findings)
        return [Figure("Collisions", caption, [panel for panel in panels if not panel.empty]), *made]

    FIGURE = "figure 6.14"


ANALYSIS = LocalImpacts()
