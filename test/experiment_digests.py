"""Digests of what the experiments compute, and the platform for which they hold.

    ./haptics shell python test/experiment_digests.py

records those of today's code in `data/experiment_digests.json`, after a change that is meant to change numbers.
"""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from haptic_bench import experiment
from haptic_bench.analysis.base import MessageStore, analysis_of

RECORD = Path(__file__).parent / "data" / "experiment_digests.json"
TICKS = 40
LIBRARIES = ("numba", "llvmlite", "numpy", "scipy", "pinocchio", "coal", "mujoco")


def this_platform() -> dict[str, str]:
    """All that bits depend on beside the code: the CPU for which kernels are compiled, Python and the libraries."""
    features = ",".join(sorted(name for name, has in llvm.get_host_cpu_features().items() if has))
    cpu = f"{llvm.get_host_cpu_name()} {hashlib.sha256(features.encode()).hexdigest()[:8]}"
    system = f"{platform.system()} {platform.machine()} {'.'.join(platform.libc_ver())}"
    versions = {name: str(_version(name)) for name in LIBRARIES}
    return {"system": system, "cpu": cpu, "python": platform.python_version()} | versions


def _version(library: str) -> Any:
    try:
        return getattr(import_module(library), "__version__", "unknown")
    except ImportError:
        return "not installed"


def digest(name: str) -> str:
    """Of all messages of the first ticks of an experiment, offline; without its analysis, which may look further."""
    trial = experiment.load(name, ["analysis=trial"])[0].with_ticks(TICKS)
    store = MessageStore()
    analysis_of(trial.experiment).simulate(trial, store)
    found = hashlib.sha256()
    for topic, messages in sorted(store.messages.items()):
        found.update(topic.encode())
        found.update(b"".join(map(bytes, messages)))
    return found.hexdigest()[:16]


def recorded() -> dict[str, Any]:
    """The platform, and the digests by experiment."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def difference() -> str:
    """What of this platform is other than where the digests were recorded; empty: nothing."""
    before, now = recorded()["platform"], this_platform()
    return ", ".join(f"{key} {now.get(key)}, not {before.get(key)}" for key in before if before[key] != now.get(key))


if __name__ == "__main__":
    digests = {name: digest(name) for name in experiment.catalogue()}
    RECORD.write_text(json.dumps({"platform": this_platform(), "digests": digests}, indent=1) + "\n", encoding="utf-8")
