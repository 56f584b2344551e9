"""Benchmark of many worlds of one model: steps a second, beside `mujoco.rollout` on the same scene.

A box of 0.5 kg lies on a floor with friction and is pushed by random forces, otherwise ones in each world. Contestants:

 - constraint, penalty: `haptic_sim.rollout` with rigid contact and with penalties, in one process and in several;
 - World of MuJoCo: the same function of a model that MuJoCo simulates (`engine: mujoco`);
 - mujoco.rollout: MuJoCo's own, which loops in C++ without Python's lock.

They take turns. Steps a second and core are steps over the processor time of the whole process, of all its threads and
of the forks that have ended, so that other work of the machine does not count. How much faster several processes, or
MuJoCo's threads, are is the ratio of wall times in turns; it says something on an idle machine only.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from haptic_sim import Model, rollout

COUNTS, STEPS, TURNS = (1, 100, 1000, 10_000), 100, 3
MOST = 100_000  # steps of all worlds together: many worlds make fewer each
RATE = 1000.0  # [Hz]
SCENE: dict[str, Any] = {
    "tool": "box",
    "bodies": {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
        "box": {
            "joint": "free",
            "mass": 0.5,
            "position": [0.0, 0.0, 0.05],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        },
    },
}
MJCF = """<mujoco><option timestep="0.001" cone="elliptic"/><worldbody><geom type="plane" size="5 5 .1" friction=".5"/>
    <body name="box" pos="0 0 .05"><freejoint/><geom type="box" size=".05 .05 .05" mass=".5" friction=".5"/></body>
    </worldbody></mujoco>"""
FRICTION = {"model": "reset_integrator", "static": 0.5, "kinetic": 0.5}
Row = Callable[[str, float, str, str, bool | None], dict[str, Any]]


def pushes(count: int, steps: int) -> np.ndarray:
    """Wrenches on the box [N, N m], (N, T, 6)."""
    scale = [1.0, 1.0, 1.0, 0.01, 0.01, 0.01]
    return np.random.default_rng(20260).normal(size=(count, steps, 6)) * scale


def contestants(folder: Path, workers: int) -> dict[str, Callable[[np.ndarray], object]]:
    """Functions that advance worlds under wrenches (N, T, 6), by name."""
    import mujoco  # not above: it is optional
    from mujoco import rollout as mujoco_rollout

    path = folder / "box.xml"
    path.write_text(MJCF, encoding="utf-8")
    rigid, soft = (
        Model(SCENE, contact={"friction": FRICTION}, environment={"method": method}, rate=RATE)
        for method in ("constraint", "penalty")
    )
    theirs = Model({"type": "mujoco", "file": str(path), "tool": "box"}, rate=RATE)
    plain = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(plain)
    state = np.zeros(mujoco.mj_stateSize(plain, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(plain, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)

    def by_mujoco(wrenches: np.ndarray, threads: int) -> object:
        count, steps, _ = wrenches.shape
        applied = np.zeros((count, steps, plain.nbody, 6))
        applied[:, :, 1] = wrenches
        return mujoco_rollout.rollout(
            [plain] * count,
            [mujoco.MjData(plain) for _ in range(threads)],
            np.tile(state, (count, 1)),
            applied.reshape(count, steps, -1),
            control_spec=int(mujoco.mjtState.mjSTATE_XFRC_APPLIED),
        )

    return {
        "constraint": lambda wrenches: rollout(rigid, wrenches),
        f"constraint, {workers} processes": lambda wrenches: rollout(rigid, wrenches, processes=workers),
        "penalty": lambda wrenches: rollout(soft, wrenches),
        "World of MuJoCo": lambda wrenches: rollout(theirs, wrenches),
        f"World of MuJoCo, {workers} processes": lambda wrenches: rollout(theirs, wrenches, processes=workers),
        "mujoco.rollout": lambda wrenches: by_mujoco(wrenches, 1),
        f"mujoco.rollout, {workers} threads": lambda wrenches: by_mujoco(wrenches, workers),
    }


def processor_time() -> float:
    """Processor time of this process and of its forks that have ended [s]."""
    forks = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + forks.ru_utime + forks.ru_stime


def measure(
    row: Row, counts: Sequence[int] = COUNTS, steps: int = STEPS, turns: int = TURNS, workers: int | None = None
) -> list[dict[str, Any]]:
    """Run the benchmark; `row` makes a result."""
    workers = workers or max(2, os.cpu_count() or 1)
    results = []
    with TemporaryDirectory() as folder:
        named = contestants(Path(folder), workers)
        for one in named.values():  # kernels are compiled
            one(pushes(2, 2))
        for count in counts:
            wrenches = pushes(count, min(steps, MOST // count))
            spent: dict[str, list[tuple[float, float]]] = {name: [] for name in named}
            for _ in range(turns):
                for name, one in named.items():
                    wall, processor = time.perf_counter(), processor_time()
                    one(wrenches)
                    spent[name].append((time.perf_counter() - wall, processor_time() - processor))
            for name, times in spent.items():
                rate = len(wrenches) * wrenches.shape[1] / statistics.median(processor for _, processor in times)
                results.append(row(f"{count} worlds, {name}: steps a second and core", rate, "steps/s", "", None))
                in_one = name.partition(", ")[0]
                if in_one != name:
                    pairs = zip(spent[in_one], times, strict=True)
                    gain = statistics.median(one[0] / many[0] for one, many in pairs)
                    results.append(row(f"{count} worlds, {name}: faster than one", gain, "times", "", None))
    return results
