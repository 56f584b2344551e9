"""The benchmarks by name, and the time of a tick, as a table and JSON; ratios compare figures of one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import constrained as benchmark_constrained
from benchmarks import contact as benchmark_contact
from benchmarks import control as benchmark_control
from benchmarks import counts as benchmark_counts
from benchmarks import devices as benchmark_devices
from benchmarks import fields as benchmark_fields
from benchmarks import graph as benchmark_graph
from benchmarks import local_model as benchmark_local_model
from benchmarks import outlets as benchmark_outlets
from benchmarks import rates as benchmark_rates
from benchmarks import view as benchmark_view
from benchmarks import worlds as benchmark_worlds
from benchmarks.compare import checked_out
from haptic_bench import experiment
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_experiments import servo_cost
from haptic_sim.parameters import ParameterError

EMPTY_CHAIN = Path(__file__).with_name("empty_chain.py")
RATES_FOLDER = Path("benchmarks", "rates")
COMMAND = Path(__file__).parents[1] / "haptics"
RECORDS = Path(__file__).with_name("records")
COMPARED = ("offline", "lockstep", "control")
"""Benchmarks that are compared of two commits if none is named: the servo path."""
Result = dict[str, Any]


def _row(name: str, value: float, unit: str, target: str, reached: bool | None) -> Result:
    """A result; without a target `met` is None."""
    return {"name": name, "value": value, "unit": unit, "target": target, "met": reached}


def offline() -> list[Result]:
    """Offline corner_peg at 512 Hz with its bag: times faster than real time."""
    one = experiment.load("corner_peg")[0]
    factors = []
    with Interruption() as interruption:
        for _ in range(6):
            with tempfile.TemporaryDirectory() as folder:
                directory = Path(folder)
                experiment.write_resolved(one, directory)
                outcome = trial.run_offline(one, directory, interruption, None)
                factors.append(one.experiment.duration / outcome.wall_time)
    factor = statistics.median(factors[1:])  # the first loads the kernels
    return [_row("offline corner_peg, times real time", factor, "", ">= 100", factor >= 100.0)]


def lockstep() -> list[Result]:
    """Lockstep corner_peg: ticks a second, and time of a tick over that of an empty chain; alternating."""
    rates, ratios = [], []
    one = experiment.load("corner_peg", duration=4.0)[0]
    with Interruption() as interruption:
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder:
                outcome = trial.run_graph(one, "lockstep", Path(folder), interruption, None)
            if outcome.status != "done":
                raise RuntimeError(f"lockstep benchmark: {outcome.status} {outcome.reason}")
            tick = outcome.wall_time / (one.experiment.last_tick + 1)
            rates.append(1.0 / tick)
            empty = _empty_chain(one.experiment.last_tick + 1)
            print(f"    a tick {tick * 1e6:.0f} us, in an empty chain {empty * 1e6:.0f} us", flush=True)
            ratios.append(tick / empty)
    rate, ratio = statistics.median(rates), statistics.median(ratios)
    return [
        _row("lockstep corner_peg", rate, "ticks/s", ">= 3500", rate >= 3500.0),
        _row("lockstep tick over an empty chain's", ratio, "", "<= 1.15", ratio <= 1.15),
    ]


def _empty_chain(ticks: int) -> float:
    """Seconds a tick of the empty chain."""
    namespace = f"/empty_{uuid.uuid4().hex[:8]}"
    roles = ("recorder", "environment", "controller", "driver")
    processes = [
        subprocess.Popen(
            [sys.executable, str(EMPTY_CHAIN), role, namespace, str(ticks)],
            stdout=subprocess.PIPE if role == "driver" else subprocess.DEVNULL,
            text=True,
        )
        for role in roles
    ]
    try:
        output, _ = processes[-1].communicate(timeout=120.0)
        return float(output)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start() -> list[Result]:
    """Import of the cores; time from the command to the first tick, and of a whole trial with its page."""
    imports = [_timed([sys.executable, "-c", "import haptic_sim.tool.environment"]) for _ in range(5)]
    firsts = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            command = ["run", "corner_peg", "--duration", "0.1", "--mode", "lockstep", "--out", str(out)]
            begun = time.time()
            subprocess.run([sys.executable, "-m", "haptic_bench", *command], check=True, stdout=subprocess.DEVNULL)
            # The driver's log is opened when the nodes start; start_up counts from there.
            opened = (out / "parameters.yaml").stat().st_mtime
            summary = json.loads((out / "summary.json").read_text())
            firsts.append(opened - begun + summary["timing"]["start_up"])
    wholes = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            command = ["run", "corner_peg", "--mode", "offline", "--out", str(Path(folder) / "out")]
            wholes.append(_timed([str(COMMAND), *command], subprocess.DEVNULL))
    imported, whole, first = statistics.median(imports), statistics.median(wholes), statistics.median(firsts)
    return [
        _row("import of the cores", imported, "s", "<= 1", imported <= 1.0),
        _row("run corner_peg --mode offline, with its page", whole, "s", "<= 2.5", whole <= 2.5),
        _row("from command to first tick", first, "s", "<= 2", first <= 2.0),
    ]


def _timed(command: list[str], output: int | None = None) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=output)
    return time.perf_counter() - begun


def graph() -> list[Result]:
    """The graph on the wall clock: round trips over an empty chain's, answers in time, CPU, lost messages."""
    return benchmark_graph.measure(_row)


def contact() -> list[Result]:
    """Steps of the environment against the number of contacts, for every method, beside MuJoCo's."""
    return benchmark_contact.measure(_row)


def local_model() -> list[Result]:
    """A step of the proxy of a local model, called from Python, beside the same in NumPy."""
    return benchmark_local_model.measure(_row)


def constrained() -> list[Result]:
    """Accuracy of constraints and energy, and costs of steps of constrained tools and of hand quantities."""
    return benchmark_constrained.measure(_row)


def control() -> list[Result]:
    """A step of each controller and of the guard, and the maps of the passivity analysis."""
    return benchmark_control.measure(_row)


def counts() -> list[Result]:
    """Counts of what a tick of each closed loop makes Python do, in numbers that noise does not move."""
    return benchmark_counts.measure(_row)


def motions() -> list[Result]:
    """Bodies that follow a trajectory, pushed and pulled, with 3, 6 and 34 degrees of freedom (`servo_cost`)."""
    (one,) = experiment.load("servo_cost")
    results = []
    for degrees in servo_cost.DEGREES:
        cost = servo_cost.measure(servo_cost.variant(one, degrees))
        target = f"<= {1e6 * servo_cost.LARGEST_STEP:g}"
        name = f"step with {degrees} degrees, 99 of 100"
        results.append(_row(name, 1e6 * cost.step_99, "us", target, cost.step_99 <= servo_cost.LARGEST_STEP))
        results.append(_row(f"inverse dynamics, {degrees} degrees", 1e6 * cost.inverse_dynamics, "us", "", None))
    return results


def rates(out: Path = RATES_FOLDER) -> list[Result]:
    """Wall as a hand feels it, by what answers between updates, against the environment's rate; a page in `out`."""
    return [
        {"name": "rates", "unit": "", "figures": cell} for cell in benchmark_rates.rows(benchmark_rates.tabulate(out))
    ]


def devices() -> list[Result]:
    """Latency that the drivers of hardware add to that of their stand-ins, late readings, and a device that is lost."""
    return benchmark_devices.measure(_row)


def view() -> list[Result]:
    """Frames a second and CPU of a view, opening of a recorded trial, and missed ticks with a view and without."""
    return benchmark_view.measure(_row)


def worlds() -> list[Result]:
    """Many worlds of one model, in one process and in several, beside `mujoco.rollout`."""
    return benchmark_worlds.measure(_row)


def fields() -> Iterator[Result]:
    """Contacts of meshes by signed distance fields, beside coal's triangle trees, and octrees and pieces of MuJoCo."""
    return benchmark_fields.measure(_row)


def outlets() -> Iterator[Result]:
    """Latency from an event of a session to its code in another recorder, by each outlet."""
    return benchmark_outlets.measure(_row)


BENCHMARKS: dict[str, Callable[[], Iterable[Result]]] = {
    "offline": offline,
    "lockstep": lockstep,
    "graph": graph,
    "contact": contact,
    "constrained": constrained,
    "rates": rates,
    "local_model": local_model,
    "control": control,
    "counts": counts,
    "motions": motions,
    "start": start,
    "view": view,
    "devices": devices,
    "worlds": worlds,
    "fields": fields,
    "outlets": outlets,
}


def known(name: str) -> str:
    """The name of a benchmark.

    Raises:
        ParameterError: there is none of this name.
    """
    if name not in BENCHMARKS:
        raise ParameterError([f"benchmark {name!r}: unknown; known are: {', '.join(BENCHMARKS)}"])
    return name


def run(name: str | None, file: str | Path | None, out: Path | None = None) -> int:
    """Run one benchmark or all; prints a table, writes JSON to `file`; returns 0 (a missed target is said).

    Args:
        name: of the benchmark; None: all.
        file: for the results; None: they are printed.
        out: directory of the page of `rates`; None: RATES_FOLDER.
    """
    results = []
    benchmarks = BENCHMARKS | ({} if out is None else {"rates": partial(rates, out)})
    for each in [known(name)] if name is not None else BENCHMARKS:
        for result in benchmarks[each]():
            results.append(result)
            if "figures" in result:  # of many, said as they were measured
                continue
            verdict = "met" if result["met"] else "MISSED"
            aim = f"target {result['target']:8} {verdict}" if result["target"] else ""
            print(f"{result['name']:54} {result['value']:10.4g} {result['unit']:8} {aim}".rstrip(), flush=True)
    about = {"commit": checked_out(), "machine": trial.machine(), "versions": trial.versions()}
    document = {**about, "results": results}
    text = json.dumps(document, indent=2)
    if file is None:
        print(text)
    else:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text + "\n", encoding="utf-8")
    return 0


def record_of(name: str | None) -> Path:
    """The file of `--save`: benchmark and commit."""
    return RECORDS / f"{name or 'all'}_{checked_out() or 'unknown'}.json"
