"""Experiments: one YAML file each, loaded and validated before anything starts."""

from __future__ import annotations

from haptic_bench.catalogue import catalogue
from haptic_bench.experiment.loading import (
    Experiment,
    HealthParameters,
    Trial,
    find,
    load,
    load_document,
    read_document,
    read_resolved,
    resolved,
    write_resolved,
)

__all__ = [
    "Experiment",
    "HealthParameters",
    "Trial",
    "catalogue",
    "find",
    "load",
    "load_document",
    "read_document",
    "read_resolved",
    "resolved",
    "write_resolved",
]
