"""A peg that pushes the last link of an arm against a wall (THESIS 6.4.4, figures 6.23 and 6.24).

Between two updates the link is an immovable plane (SC), one that goes on moving as it did (KC), or one that contact
accelerates as the mass that the environment reports (DC, which the source asks for in 7.2 and does not have).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from haptic_bench.analysis.base import each
from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.local_models import (
    COMPARED,
    SERVO_RATE,
    Compared,
    LocalModelAnalysis,
    Variant,
    contact_losses,
    declared,
    local_model,
    rebounds,
)

SEVERAL = (2, 10)  # times that contact is lost
SIMILAR = 1  # so many rebounds more or less are similar
HELD = 0.5  # of the travel in an environment at the servo rate: what held back means
BEFORE = 0.6  # of that travel, over which hands are compared: the link has not met the wall
NEARER = 0.5  # of the distance with kinematic constraints


def hand_travel(samples: Samples) -> float:
    """Largest displacement of the hand from its start along y [m]."""
    y = samples["hand_py"]
    return float(y.max() - y[0])


def largest_difference(samples: Samples, synchronous: Samples) -> float:
    """Largest distance along y from the hand in a synchronous environment, on the first part of its path [m]."""
    y = synchronous["hand_py"]
    beyond = np.flatnonzero(y - y[0] > BEFORE * hand_travel(synchronous))
    rows = min(int(beyond[0]) if beyond.size else y.size, len(samples))
    return float(np.abs(samples["hand_py"][:rows] - y[:rows]).max(initial=0.0))


def distances(case: Compared) -> dict[str, float | None]:
    """Distances of the local models whose link moves from the ideal ones, by run [m]."""
    ideal = case.references.get("synchronous")
    return each(lambda run: None if ideal is None else largest_difference(run, ideal), "KC", "DC")(case)


LOSES = Statement(
    "loses_contact",
    f"The hand loses contact with the link several times, {SEVERAL[0]} to {SEVERAL[1]}, whatever answers: IR, SC or KC",
    "THESIS 6.4.4, figure 6.24",
    Quantity("how often contact is lost"),
    of=each(contact_losses, "IR", "SC", "KC"),
    holds=lambda m: all(SEVERAL[0] <= n <= SEVERAL[1] for n in m.values()),
)
BOUNCES_MORE = Statement(
    "bounces_more",
    "It rebounds more often in the intermediate representation than in the local model",
    "THESIS 6.4.4, figure 6.24",
    Quantity("how often the hand rebounds"),
    of=each(rebounds, "IR", "SC", "KC"),
    holds=lambda m: m["IR"] > max(m["SC"], m["KC"]),
)
KINEMATIC = Statement(
    "kinematic_alike",
    f"Rebounds with static and with kinematic constraints are similar: at most {SIMILAR} more or less",
    "THESIS 6.4.4, figure 6.24",
    BOUNCES_MORE.measured,
    of=each(rebounds, "SC", "KC"),
    holds=lambda m: abs(m["SC"] - m["KC"]) <= SIMILAR,
)
TRAVEL = Quantity("way of the hand along the push", "mm", 1e3)
HELD_BACK = Statement(
    "held_back",
    f"Static constraints hold the hand back: it goes at most {100 * HELD:g} % as far as in an environment at the servo "
    "rate",
    "",
    TRAVEL,
    of=each(hand_travel, "SC", "synchronous"),
    holds=lambda m: m["SC"] <= HELD * m["synchronous"],
)
DYNAMIC = Statement(
    "dynamic",
    "With dynamic constraints the hand moves as in an environment at the servo rate, until it has gone "
    f"{100 * BEFORE:g} % of its way: it is at most {100 * NEARER:g} % as far from there as with kinematic ones",
    "THESIS 7.2",
    Quantity("largest distance from the hand in an environment at the servo rate", "mm", 1e3),
    of=distances,
    holds=lambda m: m["DC"] <= NEARER * m["KC"],
)


class DynamicContact(LocalModelAnalysis):
    NEEDS: ClassVar = {"operator": "constant"}
    METRICS: ClassVar = {
        **declared("rebounds", "contact_losses", "max_force_step"),
        "way": Quantity("Way of the hand along y", "mm", 1e3, lambda case: hand_travel(case.samples)),
    }
    CLAIMS = (LOSES, BOUNCES_MORE, KINEMATIC, HELD_BACK, DYNAMIC)
    VARIANTS: ClassVar = {
        "IR": COMPARED["IR"],
        "SC": Variant(local_model(epsilon=0.005, constraints="static"), False, "local model, link immovable"),
        "KC": Variant(
            local_model(epsilon=0.005, constraints="kinematic"), False, "local model, link goes on as it did"
        ),
        "DC": Variant(local_model(epsilon=0.005, constraints="dynamic"), False, "local model, contact moves the link"),
        "synchronous": SERVO_RATE,
    }
    FIGURE = "figure 6.24"
    OVER_TIME = ("y",)


ANALYSIS = DynamicContact()
