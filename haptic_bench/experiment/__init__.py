"""Experiments: one YAML file each, loaded and validated before anything starts."""

from __future__ import annotations

from haptic_bench.catalogue import catalogue
from haptic_bench.experiment.loading import (
    assemble,
    changed_packages,
    declared,
    find,
    load,
    load_document,
    read_document,
    read_resolved,
    resolved,
    write_resolved,
)
from haptic_bench.experiment.model import Experiment, HealthParameters
from haptic_bench.experiment.resolution import StartError, Trial

__all__ = [
    "Experiment",
    "HealthParameters",
    "StartError",
    "Trial",
    "assemble",
    "catalogue",
    "changed_packages",
    "declared",
    "find",
    "load",
    "load_document",
    "read_document",
    "read_resolved",
    "resolved",
    "write_resolved",
]
