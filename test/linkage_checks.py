"""Runs of analyses of linkages, for their tests."""

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_experiments.common.linkage_motion import Held

ALONE = ("device.type=none", "controller.type=none")
# names of metrics and claims, as summaries of all linkages have them
METRICS = [
    "fewest_directions",
    "most_directions",
    "least_singular_value",
    "largest_step",
    "felt_step",
    "blocked_force",
    "constraint_work",
    "operator_work",
    "law_error",
    "numerical_energy",
    "drift_max",
    "turn_max",
]
CLAIMS = ["blocked_directions", "no_work", "law", "energy", "together"]


def load(name, *settings):
    (only,) = experiment.load(name, settings)
    return only


class Run:
    """A trial that was simulated, with its samples and what its analysis says."""

    def __init__(self, trial, compare=False):
        self.trial, self.analysis = trial, analysis_of(trial.experiment)
        self.samples = self.analysis.run_unrecorded(trial)
        self.findings = self.analysis.analyse(trial, self.samples, compare=compare)
        self.held = Held.of(self.samples)

    @property
    def holds(self):
        """Whether each claim does."""
        return {claim.name: claim.holds for claim in self.findings.claims}

    def measured(self, claim):
        """What decides a claim."""
        return next(c.measured for c in self.findings.claims if c.name == claim)

    @property
    def metrics(self):
        """By name."""
        return self.findings.metrics


def run(name, *settings, compare=False):
    """Simulate an experiment with the settings."""
    return Run(load(name, *settings), compare)


def run_alone(name, *settings, compare=False):
    """The same with the operator's wrench on the tool."""
    return run(name, *ALONE, *settings, compare=compare)


def check_figures(found):
    """Figures of a run, and of two in a sweep, are drawn, and no two panels have the same name."""
    from haptic_bench.analysis.figures import Curve
    from haptic_view.figures import style_of

    made = found.analysis.figures(found.trial, found.samples, found.findings)
    curves = [Curve(f"run {i}", found.trial, found.samples, style_of(i)) for i in range(2)]
    swept = found.analysis.sweep_figures(curves)
    for figures in (made, swept):
        names = [panel.name for figure in figures for panel in figure.panels]
        assert len(names) == len(set(names)) and names
        assert all("<svg" in panel.svg for figure in figures for panel in figure.panels)
