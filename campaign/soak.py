"""Long runs: memory, files and threads of a trial's processes stay as they are; a world's energies balance to the end.

Cases of even numbers run a graph in lockstep. Those of odd numbers advance a world under random forces, once as a whole
and once in pieces that are set back and copied, and compare the bits and the books of its energy.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from campaign.cases import DEADLINE, Outcome, faults_of, finish, left_over, processes, start
from haptic_bench.catalogue import find
from haptic_sim.simulation import World

TRIALS = ("corner_peg", "tight_hole", "delayed_wall", "two_hands")
WORLDS = ("corner_peg", "door", "bounce_settle", "crank")
TICKS = 20_000  # of a world
BALANCE = 1e-9  # of all energy that was ever supplied: how far the books may be off
SETTLED, LONG = 25.0, 60.0  # [s] after the first record: when they are first looked at, and last
GROWTH = 4e6  # [B] that a process may grow meanwhile
INDEX = 0.02  # of what the bag grows meanwhile: its index, which the recorder keeps until the end


class Use(NamedTuple):
    """What a process has: resident memory [B], open files, threads."""

    memory: int
    files: int
    threads: int


def case(number: int, folder: Path) -> Outcome:
    """A long run of the kind that its number says."""
    return _of_world(number) if number % 2 else _of_graph(number, folder)


def _of_world(number: int) -> Outcome:
    """A world under random forces, as a whole and in pieces."""
    rng = np.random.default_rng([9, number])
    name = WORLDS[int(rng.integers(len(WORLDS)))]
    world = World.from_yaml(find(name))
    world.step()  # energies are those at the beginning of a step
    pieces, faults = world.copy(), []
    force = np.zeros(6)
    before = world.energy
    supplied = 0.0
    for tick in range(TICKS):
        if tick % 50 == 0:
            force[:] = rng.normal(0.0, 1.0, 6) * (1.0, 1.0, 1.0, 0.01, 0.01, 0.01)
        if rng.uniform() < 1e-3:
            state = pieces.state
            for _ in range(int(rng.integers(1, 20))):
                pieces.step(rng.normal(0.0, 1.0, 6) * 0.1)
            pieces.state = state
            pieces = pieces.copy()
        world.step(force)
        pieces.step(force)
        if tick % 1000 == 999:
            energies = world.energy
            stored = sum(energies[one] - before[one] for one in ("kinetic", "potential", "elastic"))
            lost = sum(energies[one] for one in ("damping", "friction", "impact"))
            supplied = max(supplied, abs(energies["injected"]), abs(energies["potential"]), lost, energies["kinetic"])
            off = stored + lost - energies["injected"] - (energies["numerical"] - before["numerical"])
            if not abs(off) <= BALANCE * supplied + 1e-15:
                faults.append(f"tick {tick}: the energies are {off:.3g} J off, of {supplied:.3g} J")
            same = np.array_equal(world.pose, pieces.pose) and np.array_equal(world.twist, pieces.twist)
            if not same or energies != pieces.energy:
                faults.append(f"tick {tick}: in pieces it is elsewhere")
            if faults:
                break
    return Outcome(f"{name}: {TICKS} ticks as a whole and in pieces", faults)


def _of_graph(number: int, folder: Path) -> Outcome:
    """A minute of lockstep, which is far more ticks than any trial of the catalogue."""
    rng = np.random.default_rng([6, number])
    name = TRIALS[int(rng.integers(len(TRIALS)))]
    settings = ("--duration", "3000", "--set", "analysis=trial", "--quiet", "--out", "trial")
    program = start(folder, "run", name, "--mode", "lockstep", *settings)
    bag = folder / "trial" / "bag" / "bag_0.mcap"
    begun = time.monotonic()
    while not bag.exists() and program.poll() is None and time.monotonic() < begun + DEADLINE:
        time.sleep(0.1)
    if not bag.exists():
        program.kill()
        return Outcome(f"{name} lockstep", [*faults_of(finish(program, folder), {0}), "nothing was recorded"])
    time.sleep(SETTLED)
    lines = processes()
    before, recorded = _uses(lines), bag.stat().st_size
    time.sleep(LONG - SETTLED)
    after, recorded = _uses(lines), bag.stat().st_size - recorded
    program.send_signal(signal.SIGINT)
    time.sleep(2.0)
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
            faults.append(
                f"grew by {grown / 1e6:.1f} MB in {LONG - SETTLED:g} s, allowed are {allowed / 1e6:.1f}: {line}"
            )
        if after[process].files > use.files + 2 or after[process].threads > use.threads + 2:
            faults.append(f"files and threads went from {use[1:]} to {after[process][1:]}: {line}")
    return Outcome(f"{name} lockstep, {LONG:g} s: {len(before)} processes", faults)


def _uses(numbers: dict[int, str]) -> dict[int, Use]:
    """What some processes have; without those that have ended."""
    found = {}
    for number in numbers:
        place = Path("/proc") / str(number)
        try:
            memory = int((place / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            found[number] = Use(memory, len(list((place / "fd").iterdir())), len(list((place / "task").iterdir())))
        except OSError:
            continue
    return found
