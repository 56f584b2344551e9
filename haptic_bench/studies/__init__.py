"""Studies: what an experiment is about - its metrics, the published claims, extra columns and figures.

Each experiment names its study in `analysis`; there is a module for each.
"""

from __future__ import annotations

from haptic_bench.analysis.claims import Analysis, Claim, Quantity, Statement
from haptic_bench.studies.study import Study, study_of

__all__ = ["Analysis", "Claim", "Quantity", "Statement", "Study", "study_of"]
