"""Properties that every analysis must have; `haptics check` looks for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial
from haptic_bench.running.properties import Finding


def properties_of_analysis(trial: Trial) -> Iterator[Finding]:
    """An analysis of a trial: it finds what it declares, the same again, and draws it."""
    analysis = analysis_of(trial.experiment)
    try:
        samples = analysis.run_unrecorded(trial)
        one, other = (analysis.analyse(trial, samples) for _ in range(2))
        yield Finding("a trial is analysed", "")
    except Exception as error:  # whatever the analysis of someone else raises
        yield Finding("a trial is analysed", f"{type(error).__name__}: {error}")
        return
    unknown = [name for name in one.metrics if analysis.quantity(name) is None]
    unknown += [claim.name for claim in one.claims if analysis.claimed(claim.name) is None]
    yield Finding("it declares its metrics and claims", f"not declared: {', '.join(unknown)}" if unknown else "")
    odd = [name for name, value in one.metrics.items() if value is not None and not np.isfinite(value).all()]
    yield Finding("metrics are finite, or None", f"not finite: {', '.join(odd)}" if odd else "")
    same = one.metrics == other.metrics and [c.holds for c in one.claims] == [c.holds for c in other.claims]
    yield Finding("the same again", "" if same else "two analyses of one trial differ")
    try:
        analysis.figures(trial, samples, one)
        yield Finding("its figures are made", "")
    except Exception as error:  # as above
        yield Finding("its figures are made", f"{type(error).__name__}: {error}")
