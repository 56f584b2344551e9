"""Studies: the metrics, published claims, additional columns and figures of an experiment.

Each experiment names its study in the key `analysis`, and each study is a module of this folder.
"""

from __future__ import annotations

from haptic_bench.analysis.claims import Analysis, Claim, Quantity, Statement
from haptic_bench.studies.study import Study, analyse, study_of

__all__ = ["Analysis", "Claim", "Quantity", "Statement", "Study", "analyse", "study_of"]
