"""Linkage topology from a common start with stiffer penalties and an asynchronous environment (THESIS 5.4.2).

With `local_model.dynamics: surveyed` the local model holds the inertia and the directions of the last update, as in the
source (5.25, 5.26; 6.15 to 6.22). Nothing is near the arm: updates report nothing else. The source's hand is at the
boundary of the device's workspace after about 0.7 s; here it is less than a millimetre from the arm then, with the
dynamics of the last update and with exact ones, so that these do not explain it. With exact dynamics it is not the
experiment of the source, and its claims are undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from haptic_bench.analysis.claims import Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.linkage_topology import (
    HORIZON,
    Compared,
    Hold,
    LinkageTopology,
    Variant,
    drift_at,
    missing_statement,
    reduced_statement,
    spared_statement,
)
from haptic_sim.tool.local_model import FullParameters

NOT_THE_SOURCES = (
    "not the experiment of the source, which holds inertia and directions between updates of the environment (5.25, "
    "5.26): set local_model.dynamics=surveyed and local_model.type=full"
)
BOUNDARY_TIME = 0.7  # [s]
BOUNDARY = 0.01  # [m] the boundary of a workspace is at least so far from where the hand should be
EXPLAINS = 2.0  # times the drift with exact dynamics
EARLY = Quantity("distance of the hand from the tool after 0.7 s", "mm", 1e3)
SURVEYED, EXACT = "dynamics of the last update", "exact dynamics"


def of_source(trial: Trial) -> bool:
    """Whether the local model of a trial keeps the dynamics of its last update, as in the source."""
    local_model = trial.experiment.local_model
    return isinstance(local_model, FullParameters) and local_model.dynamics == "surveyed"


def not_the_sources(case: Compared) -> str:
    """Reason why a trial does not decide a published claim; empty if it does."""
    return "" if of_source(case.trial) else NOT_THE_SOURCES


def boundary_statement(hold: Hold, figure: str) -> Statement:
    """The statement that a hand without penalties is soon at the boundary of its workspace."""
    text = (
        f"Held by its {hold} link, without penalties the hand is at the boundary of its workspace after about "
        f"{BOUNDARY_TIME:g} s: at least {1e3 * BOUNDARY:g} mm from the tool"
    )
    return Statement(
        f"boundary_{hold}",
        text,
        f"THESIS 5.4.2, {figure}",
        EARLY,
        of=lambda case: {"without penalties": case.drift(hold, "printed", time=BOUNDARY_TIME)},
        holds=lambda m: m["without penalties"] >= BOUNDARY,
        unless=not_the_sources,
    )


EXPLAINED = Statement(
    "surveyed_explains",
    "Dynamics of the last update explain the drift of the distal link without penalties: it is at least "
    f"{EXPLAINS:g} times that with exact dynamics",
    "THESIS 5.4.2, errata 15",
    EARLY,
    of=lambda case: {
        SURVEYED: case.drift("distal", "printed", time=BOUNDARY_TIME),
        EXACT: drift_at(case.others[EXACT], BOUNDARY_TIME) if EXACT in case.others else None,
    },
    holds=lambda m: m[SURVEYED] >= EXPLAINS * m[EXACT],
)


class LinkageControlled(LinkageTopology):
    CLAIMS: ClassVar[Sequence[Statement]] = (
        replace(reduced_statement("distal", "printed", "THESIS 5.4.2, figure 5.10"), unless=not_the_sources),
        replace(reduced_statement("middle", "printed", "THESIS 5.4.2, figure 5.11"), unless=not_the_sources),
        boundary_statement("distal", "figure 5.10"),
        boundary_statement("middle", "figure 5.11"),
        EXPLAINED,
        spared_statement("distal"),
        spared_statement("middle"),
        missing_statement("middle"),
    )
    FIGURES: ClassVar[Mapping[str, str]] = {"distal": "figure 5.10", "middle": "figure 5.11"}
    LETTERS = "(a) stands for its (b), (b) for its (a)"
    START = "figure 5.9"

    def beside(self, trial: Trial, samples: Samples) -> dict[str, Samples]:
        """A trial as the source's with exact dynamics."""
        if not of_source(trial):
            return {}
        local_model = trial.experiment.local_model.model_copy(update={"dynamics": "current"})
        exact = replace(trial, experiment=trial.experiment.model_copy(update={"local_model": local_model}))
        free = Variant("distal", "printed", False)
        return {EXACT: self.run_unrecorded(free.trial(exact, min(float(samples["time"][-1]), HORIZON)))}


ANALYSIS = LinkageControlled()
