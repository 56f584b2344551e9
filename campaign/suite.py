"""The campaign: cases of all probes by turns until the time is over, a page of what was found.

Each case runs in a process of its own, so that one that ends it is a fault, too, and can be repeated by its number.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

from campaign.cases import Fork, Outcome
from haptic_bench.recording.trial_bag import versions
from haptic_bench.report import html
from haptic_bench.set_up.failures import DONE, FAILED
from haptic_sim.parameters import ParameterError

PROBES = {
    "inputs": "Files that are wrong are refused in words",
    "kills": "Processes that are killed, stopped or without memory leave a true summary, a readable bag, nothing else",
    "robots": "Processes of a graph that moves an arm are killed: the arm stays, the hand has no force",
    "variants": "No random gain, rate, contact or link ends as done with energy that nothing explains",
    "shapes": "No random gain, rate, contact, mesh or texture ends as done with energy that nothing explains",
    "hands": "Whatever a hand does, the guard keeps the port of any device passive",
    "ports": "Whatever is commanded and read, the guard's kernels keep the port of any device passive",
    "disks": "A full disk is reported in a line, and what was recorded can be read",
    "machines": "Clocks that are set, suspension, load, slow and full disks leave the bits, or a reason",
    "strangers": "Foreign messages and parameters leave the bits of a trial as they are, or a reason",
    "partitions": "A link that breaks takes the force in time and makes no energy; it comes back, or leaves a reason",
    "soak": "Memory, files and threads stay as they are; a world is the same as a whole and in pieces",
}
TURNS = (
    "inputs",
    "kills",
    "hands",
    "ports",
    "machines",
    "variants",
    "shapes",
    "kills",
    "disks",
    "robots",
    "hands",
    "strangers",
    "kills",
    "partitions",
)
SOAK_EVERY = 5  # rounds of these
WARM = ("robots",)  # probes whose cases are forks: see campaign/robots.py
OUTPUT = "case.txt"  # in the folder of a case: what it said
DEADLINE = 900.0  # [s] for a case: it decides nothing but a hang


@dataclass
class Tally:
    """Totals of a probe: cases, things tried, time [s], and the cases with faults by number."""

    cases: int = 0
    tried: int = 0
    seconds: float = 0.0
    faults: dict[int, tuple[str, list[str]]] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome, seconds: float) -> None:
        """Count a case."""
        self.cases, self.tried, self.seconds = self.cases + 1, self.tried + outcome.things, self.seconds + seconds
        if outcome.faults:
            self.faults[number] = (outcome.tried, outcome.faults)


def run(minutes: float, only: Sequence[str], first: int, cases: int | None, out: Path) -> int:
    """Search for faults until the time is over; the exit status, FAILED if there are any.

    Args:
        minutes: how long; the last case is finished.
        only: probes; empty: all.
        first: number of the first case of each probe.
        cases: how many of each probe at most; None: as many as there is time for.
        out: new or empty directory of the page, and of what cases with faults have left.
    """
    unknown = [name for name in only if name not in PROBES]
    if unknown:
        raise ParameterError([f"campaign {', '.join(unknown)}: must be of {', '.join(PROBES)}"])
    tallies = {name: Tally() for name in PROBES if not only or name in only}
    begun = time.monotonic()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # not the end at once: a case and its page are closed
    try:
        for name in _turns(only):
            if time.monotonic() > begun + 60.0 * minutes or all(tally.cases == cases for tally in tallies.values()):
                break
            if tallies[name].cases != cases:
                _case(name, tallies[name], first + tallies[name].cases, out)
    except KeyboardInterrupt:
        print("haptics: interrupted", file=sys.stderr)
    _write(tallies, first, out)
    count = sum(len(tally.faults) for tally in tallies.values())
    print(f"{sum(tally.tried for tally in tallies.values())} tried, {count} cases with faults: {out / 'report.html'}")
    return FAILED if count else DONE


def _turns(only: Sequence[str]) -> Iterator[str]:
    """Probes in the order of their turns, without end."""
    while True:
        for _ in range(SOAK_EVERY):
            yield from (name for name in TURNS if not only or name in only)
        if not only or "soak" in only:
            yield "soak"


def _case(name: str, tally: Tally, number: int, out: Path) -> None:
    """Do a case in a process of its own, and count it; its folder is kept if it has faults."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-{number}-", dir=out))
    begun = time.monotonic()
    process = _start(name, number, folder)
    try:
        status, output = process.wait(DEADLINE), (folder / OUTPUT).read_text(errors="replace").strip()
        found = json.loads(output.rpartition("\n")[2]) if status == 0 else None
        outcome = Outcome(**found) if found else Outcome("", [f"the case ended with {status}: {output[-1500:]}"])
    except subprocess.TimeoutExpired:
        outcome = Outcome("", [f"the case hangs: has not ended after {DEADLINE:g} s"])
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - begun
    tally.add(number, outcome, seconds)
    with (out / "cases.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"probe": name, "number": number, "seconds": seconds, **outcome._asdict()}) + "\n")
    print(f"  {name} {number}: {outcome.tried} ({seconds:.1f} s)", flush=True)
    for fault in outcome.faults:
        print(f"    FAULT {fault}", flush=True)
    if not outcome.faults:
        shutil.rmtree(folder)


def _start(name: str, number: int, folder: Path) -> subprocess.Popen[bytes] | Fork:
    """A case as a process of its own session; of some probes a fork of this one, which has what the case needs."""
    arguments = (name, str(number), str(folder))
    if name in WARM:
        importlib.import_module(f"campaign.{name}").warm()
        return Fork(folder, "campaign.one", *arguments, output=OUTPUT, session=True)
    with (folder / OUTPUT).open("w") as out:
        command = [sys.executable, "-m", "campaign.one", *arguments]
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)


def _write(tallies: dict[str, Tally], first: int, out: Path) -> None:
    """Write campaign.json and the page."""
    found = {"first": first, "versions": versions(), "probes": {name: asdict(tally) for name, tally in tallies.items()}}
    (out / "campaign.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    rows = [
        f'<th scope="row">{escape(name)}<span class="source">{escape(PROBES[name])}</span></th><td>{tally.cases}</td>'
        f"<td>{tally.tried}</td><td>{tally.seconds:.0f}</td><td>{len(tally.faults)}</td>"
        for name, tally in tallies.items()
    ]
    parts = ["<h1>Reliability campaign</h1>"]
    parts += [
        html.section("What was tried", html.table(["Probe", "Cases", "Tried", "Time [s]", "With faults"], rows, 4))
    ]
    for name, tally in tallies.items():
        for number, (tried, faults) in tally.faults.items():
            lines = "\n".join(f"<li><pre>{escape(fault)}</pre></li>" for fault in faults)
            repeat = f"<p><code>./haptics campaign {name} --first {number} --cases 1</code></p>"
            parts.append(html.section(f"{name} {number}: {tried}", f"<ul>{lines}</ul>{repeat}"))
    (out / "report.html").write_text(html.page("Reliability campaign", parts), encoding="utf-8")
