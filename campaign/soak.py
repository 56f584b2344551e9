"""Long runs: memory, files and threads of a trial's processes stay as they are; a world's books hold to the end.

Cases of even numbers run a graph in lockstep. Those of odd numbers advance a world under random forces, once as a whole
and once in pieces that are set back and copied, and compare the bits and the books of its energy.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from campaign.cases import DEADLINE, Outcome, adopt, faults_of, finish, left_over, processes, start
from haptic_bench.catalogue import find
from haptic_sim.kernels import kernel
from haptic_sim.simulation import Model

TRIALS = ("corner_peg", "tight_hole", "delayed_wall", "two_hands")
WORLDS = ("corner_peg", "door", "bounce_settle", "crank")
TICKS = 20_000  # of a world
BLOCK = 1000  # ticks, after which two worlds are compared, and one of them is set back or replaced
HELD = 50  # ticks in which it is pushed alike
FREE = ("corner_peg", "bounce_settle")  # of these, those whose tool is no part of a linkage
BALANCE = 1e-9  # of the absolute works of all ticks: how far their sum may be off
SETTLED, LONG = 25.0, 60.0  # [s] after the first record: when they are first looked at, and last
GROWTH = 4e6  # [B] that a process may grow meanwhile
INDEX = 0.02  # of what the bag grows meanwhile: its index, which the recorder keeps until the end


class Use(NamedTuple):
    """Resources of a process: resident memory [B], open files, threads."""

    memory: int
    files: int
    threads: int


def case(number: int, folder: Path) -> Outcome:
    """A long run of the kind that its number says."""
    return _of_world(number) if number % 2 else _of_graph(number, folder)


def _of_world(number: int) -> Outcome:
    """A world under random forces, as a whole and in pieces."""
    rng = np.random.default_rng([9, number])
    return world(WORLDS[int(rng.integers(len(WORLDS)))], TICKS, rng)


def world(name: str, ticks: int, rng: np.random.Generator, progress: Callable[[str], object] | None = None) -> Outcome:
    """A world under random forces and a damper, which keeps it from running away, as a whole and in pieces.

    The balance of a world closes by its numerical energy, so the work of the hand is summed up here once more, with
    compensation: T F . (v + v')/2. That is exact where the tool is free; along the path of a linkage the world
    integrates better, and only bits and time are compared.
    """
    model = Model.from_yaml(find(name))
    whole, pieces = model.simulation(), model.simulation()
    forces, before, works = np.zeros((BLOCK, 6)), np.zeros(6), np.zeros(3)
    period, twist, faults = 1.0 / model.rate, whole.state.twist, []
    off = worst = 0.0
    for tick in range(0, ticks, BLOCK):
        for k, force in enumerate(forces):
            if k % HELD == 0:
                pushed = rng.normal(0.0, 1.0, 6) * (1.0, 1.0, 1.0, 0.01, 0.01, 0.01)
            push(force, pushed, twist, before)
            whole.advance(force)
            if k == BLOCK - 1:  # energies are those at the beginning of a step
                energies, worked, moved = whole.energy, works[0] + works[1], works[2]
            add_work(works, force, before, twist, period)
        for force in forces:
            pieces.advance(force)
        if name in FREE:
            off = energies["injected"] - worked
            worst = max(worst, abs(off))
        if not abs(off) <= BALANCE * moved:
            faults.append(f"tick {tick + BLOCK}: the energy of the hand is {off:.3g} J off, of {moved:.3g} J")
        same = np.array_equal(whole.state.pose, pieces.state.pose) and np.array_equal(twist, pieces.state.twist)
        if not same or energies != pieces.energy:
            faults.append(f"tick {tick + BLOCK}: in pieces it is elsewhere")
        if whole.time != (tick + BLOCK) / model.rate:
            faults.append(f"tick {tick + BLOCK}: its time is {whole.time!r} s")
        if faults:
            break
        if rng.uniform() < 0.5:
            kept = pieces.snapshot()
            for _ in range(int(rng.integers(1, 20))):
                pieces.advance(rng.normal(0.0, 0.1, 6))
            if rng.uniform() < 0.5:
                pieces = model.simulation()
            pieces.restore(kept)
        if progress is not None and (tick + BLOCK) % 1_000_000 == 0:
            numerical = energies["numerical"]
            progress(f"{tick + BLOCK} ticks: {worst:.3g} J off, of {moved:.6g} J; numerical {numerical:.3g} J")
    found = f"the energy of the hand at most {worst:.3g} J off, of {moved:.3g} J" if name in FREE else "the same bits"
    return Outcome(f"{name}: {ticks} ticks as a whole and in pieces, {found}", faults)


@kernel
def push(force, pushed, twist, before):
    """Fill the force of a tick (6,) [N, N m]: what is pushed, and a damper; keep the twist (6,) in `before`."""
    for i in range(6):
        before[i] = twist[i]
        force[i] = pushed[i] - (0.5 if i < 3 else 1e-3) * twist[i]


@kernel
def add_work(works, wrench, before, after, period):
    """Add the work of a held wrench (6,) [N, N m] between two twists (6,) [m/s, rad/s] over a period [s].

    Args:
        works: sum [J], its compensation (Neumaier 1974), sum of the absolute values [J], (3,).
    """
    work = 0.0
    for i in range(6):
        work += 0.5 * period * wrench[i] * (before[i] + after[i])
    total = works[0] + work
    if abs(works[0]) >= abs(work):
        works[1] += (works[0] - total) + work
    else:
        works[1] += (work - total) + works[0]
    works[0] = total
    works[2] += abs(work)


def _of_graph(number: int, folder: Path) -> Outcome:
    """A minute of lockstep, which is far more ticks than any trial of the catalogue."""
    rng = np.random.default_rng([6, number])
    return graph(TRIALS[int(rng.integers(len(TRIALS)))], "lockstep", LONG, folder)


def graph(name: str, mode: str, seconds: float, folder: Path) -> Outcome:
    """A trial that runs so long [s] after its first record: what its processes have at its end, and after `SETTLED`."""
    settings = ("--duration", f"{max(3000.0, 2.0 * seconds):g}", "--set", "analysis=trial", "--quiet", "--out", "trial")
    program = start(folder, "run", name, "--mode", mode, *settings)
    bag = folder / "trial" / "bag" / "bag_0.mcap"
    begun = time.monotonic()
    while not bag.exists() and program.poll() is None and time.monotonic() < begun + DEADLINE:
        time.sleep(0.1)
    if not bag.exists():
        program.kill()
        return Outcome(f"{name} {mode}", [*faults_of(finish(program, folder), {0}), "nothing was recorded"])
    begun = time.monotonic()
    time.sleep(SETTLED)
    lines = processes()
    before, recorded = _uses(lines), bag.stat().st_size
    while program.poll() is None and time.monotonic() < begun + seconds:
        time.sleep(0.1)
    lasted = time.monotonic() - begun
    after, recorded = _uses(lines), bag.stat().st_size - recorded
    program.send_signal(signal.SIGINT)
    time.sleep(max(2.0, 0.01 * lasted))  # for the bag to be closed
    if program.poll() is None:
        program.send_signal(signal.SIGINT)  # leaves samples and page to `haptics report`
    faults = [*faults_of(finish(program, folder), {130}), *left_over()]
    for process, use in before.items():
        line = lines[process][-120:]
        if process not in after:
            faults.append(f"has ended: {line}")
            continue
        grown = after[process].memory - use.memory
        allowed = GROWTH + INDEX * recorded * ("recorder" in line)
        if grown > allowed:
            faults.append(f"grew by {grown / 1e6:.1f} MB in {lasted:.0f} s, allowed are {allowed / 1e6:.1f}: {line}")
        if after[process].files > use.files + 2 or after[process].threads > use.threads + 2:
            faults.append(f"files and threads went from {use[1:]} to {after[process][1:]}: {line}")
    grown = max(0, *(after[one].memory - use.memory for one, use in before.items() if one in after))
    tried = f"{name} {mode}, {lasted:.0f} s: {len(before)} processes, {recorded / 1e6:.0f} MB recorded"
    return Outcome(f"{tried}, which grew by at most {grown / 1e6:.1f} MB", faults)


def _uses(numbers: dict[int, str]) -> dict[int, Use]:
    """Resources of some processes, without those that have ended."""
    found = {}
    for number in numbers:
        place = Path("/proc") / str(number)
        try:
            memory = int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            found[number] = Use(memory, len(list((place / "fd").iterdir())), len(list((place / "task").iterdir())))
        except OSError:
            continue
    return found


def main(name: str, mode: str, length: float, folder: str = "") -> None:
    """A longer run: `python -m campaign.soak corner_peg world 1e8`, or `corner_peg realtime 3600 FOLDER`."""
    adopt()
    if mode == "world":
        outcome = world(name, int(length), np.random.default_rng([9, 1]), lambda line: print(line, flush=True))
    else:
        outcome = graph(name, mode, length, Path(folder))
    print(json.dumps(outcome._asdict()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:])
