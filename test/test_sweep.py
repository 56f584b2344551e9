"""Sweeps: lists crossed and zipped, their table, resumed after an end of any kind, side by side on workers."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, answer, wait_until

from haptic_bench import experiment
from haptic_bench.commands import command_line
from haptic_bench.recording.summary import read_summary
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import sweep, workers
from haptic_sim.parameters import ParameterError

SHORT = ["duration=0.02", "analysis=trial"]
KEY = "contact.stiffness"


def trials(*settings: str, zipped: tuple[str, ...] = ()) -> list[experiment.Trial]:
    return experiment.load("corner_peg", [*SHORT, *settings], None, zipped)


def test_lists_are_crossed_or_zipped() -> None:
    lists = [f"{KEY}=[1000,2000]", "contact.restitution=[0.3,0.6]", "contact.damping=[5,10]"]
    assert len(trials(*lists)) == 8
    found = trials(*lists, zipped=(f"contact.damping,{KEY}",))
    assert [one.label for one in found] == [
        f"{KEY}={k},contact.restitution={e},contact.damping={b}" for k, b in ((1000, 5), (2000, 10)) for e in (0.3, 0.6)
    ]
    contact = found[2].experiment.contact
    assert (contact.stiffness, contact.restitution, contact.damping) == (2000.0, 0.3, 10.0)
    (one, _) = trials(*lists, zipped=(f"{KEY},contact.damping,contact.restitution",))
    assert dict(one.varied) == {KEY: "1000", "contact.restitution": "0.3", "contact.damping": "5"}


@pytest.mark.parametrize(
    ("zipped", "said"),
    [
        ([KEY], "must be two keys or more"),
        ([f"{KEY},{KEY}"], "must be two keys or more"),
        ([f"{KEY},contact.damping"], "contact.damping has no list of values"),
        ([f"{KEY},nothing"], "nothing has no list of values"),
        ([f"{KEY},contact.restitution"], "has 2, contact.restitution has 3 values"),
        ([f"{KEY},rate", f"rate,{KEY}"], "rate is zipped already"),
    ],
)
def test_what_cannot_be_zipped_is_named(zipped: list[str], said: str) -> None:
    lists = [f"{KEY}=[1000,2000]", "contact.restitution=[0.3,0.6,0.9]", "rate=[512,1024]", "contact.damping=5"]
    with pytest.raises(ParameterError, match=said):
        trials(*lists, zipped=tuple(zipped))


def test_a_label_of_any_length_has_a_folder_of_its_own() -> None:
    values = ["\N{GREEK SMALL LETTER ALPHA}" * 300 + end for end in "ab"]
    found = trials(f"title={json.dumps(values, ensure_ascii=False)}")
    assert len({one.folder for one in found}) == 2
    assert all(len(one.folder.encode()) <= 255 for one in found)


@pytest.mark.long
def test_a_sweep_leaves_a_table_and_is_resumed(tmp_path: Path) -> None:
    due = trials("contact.restitution=[0.25,0.5]", "operator.wrench=[[1,0,0,0,0,0],[2,0,0,0,0,0]]")

    def run(resume: bool) -> dict[str, int]:
        sweep.run_all(due, "offline", tmp_path, Interruption(), True, resume=resume)
        return {one.label: (tmp_path / one.folder / "summary.json").stat().st_mtime_ns for one in due}

    first = run(resume=False)
    rows = list(csv.DictReader((tmp_path / "sweep.csv").open(encoding="utf-8")))
    assert [(row["contact.restitution"], row["operator.wrench"], row["status"]) for row in rows] == [
        (e, f"[{f},0,0,0,0,0]", "done") for e in ("0.25", "0.5") for f in (1, 2)
    ]
    assert run(resume=True) == first
    with (tmp_path / due[1].folder / "bag" / "bag_0.mcap").open("r+b") as file:
        file.truncate(5000)
    (tmp_path / due[2].folder / "summary.json").unlink()
    changed = run(resume=True)
    assert [changed[label] == first[label] for label in first] == [True, False, False, True]
    summary = read_summary(tmp_path)
    assert summary["status"] == "done" and len(summary["sweep"]["runs"]) == 4


def test_a_table_has_an_empty_field_for_what_a_run_has_not() -> None:
    runs = [
        ({"a": "[1,2]"}, {"status": "done", "metrics": {"x": 0.1, "y": None}}),
        ({"a": "3"}, {"status": "failed", "metrics": {"z": 2}}),
    ]
    assert sweep.table(["a"], runs) == 'a,status,x,y,z\n"[1,2]",done,0.1,,\n3,failed,,,2\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--jobs", "2", "--mode", "realtime"], "realtime trials are never run side by side"),
        (["--jobs", "2"], "realtime trials are never run side by side"),
        (["--jobs", "0", "--mode", "offline"], "--jobs 0: must be at least 1"),
        (["--jobs", "2", "--mode", "offline", "--namespace", "x"], "is one name"),
        (["--jobs", "2", "--scheduler", "tcp://127.0.0.1:1", "--mode", "offline"], "leave --jobs out"),
        (["--resume", "--mode", "offline"], "give the directory of the sweep with --out"),
        (["--resume", "--mode", "offline", "--out", "other"], "is not the directory of a sweep of corner_peg"),
    ],
)
def test_bad_orders_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    other = {"experiment": "stack", "mode": "offline", "status": "done", "sweep": {"keys": [], "runs": []}}
    Path("other").mkdir()
    Path("other/summary.json").write_text(json.dumps(other))
    before = sorted(tmp_path.rglob("*"))
    assert command_line.main(["run", "corner_peg", "--set", f"{KEY}=[1000,2000]", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


# On workers


def test_dask_is_installed_once_and_again_when_its_versions_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, lock = tmp_path / ".haptics" / "venv", tmp_path / "requirements-dask.lock"
    prefix.mkdir(parents=True)
    lock.write_text("distributed==1\ndask==1\n")
    monkeypatch.setattr(workers, "__file__", str(tmp_path / "haptic_bench" / "trials" / "workers.py"))
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(workers.importlib.util, "find_spec", lambda name: name)
    installed: list[int] = []
    second = threading.Thread(target=workers.require)

    def install(path: Path, count: int) -> None:
        if not installed:
            second.start()
            second.join(0.2)
            assert second.is_alive(), "waits for the first"
        installed.append(count)

    monkeypatch.setattr(workers, "_install", install)
    workers.require()
    second.join()
    assert installed == [2]
    lock.write_text("distributed==2\n")
    workers.require()
    assert installed == [2, 1]


@pytest.fixture
def dask() -> None:
    """Dask, installed if it is not there, as the command line does."""
    try:
        workers.require()
    except ParameterError as error:
        pytest.skip(f"Dask is not there and cannot be installed: {error}")


def children(pid: int) -> list[int]:
    """The workers of a process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"resource_tracker" not in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):  # it has ended
            continue
    return found


def listening(pid: int) -> set[str]:
    """Addresses on which a process listens, in the kernel's notation."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(descriptor))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                found.add(fields[1].partition(":")[0])
    return found


def orders(out: Path, duration: str) -> list[str]:
    settings = ["--set", f"{KEY}=[1000,2000,4000]", "--set", "analysis=trial"]
    return ["run", "corner_peg", "--mode", "offline", "--duration", duration, *settings, "--out", str(out)]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("dask")
def test_workers_give_the_same_bits_also_when_one_is_killed(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "workers"
    run = haptics(*orders(out, "1.5"), "--jobs", "2")
    wait_until(lambda: list(out.glob("*/bag/bag_0.mcap")), "a trial to begin")
    pids = children(run.process.pid)
    assert len(pids) == 2
    for pid in (run.process.pid, *pids):
        assert listening(pid) <= {"0100007F"}, "only on the loopback"
    os.kill(pids[0], signal.SIGKILL)
    assert run.wait() == 0, run.err
    assert run.err == ""
    alone = answer(*orders(tmp_path / "alone", "1.5"))
    assert alone.status == 0, alone.err
    assert (out / "sweep.csv").read_bytes() == (tmp_path / "alone" / "sweep.csv").read_bytes()
    for one in experiment.load("corner_peg", [f"{KEY}=[1000,2000,4000]"]):
        for name in ("samples.csv", "bag/bag_0.mcap", "bag/metadata.yaml", "experiment.yaml"):
            assert (out / one.folder / name).read_bytes() == (tmp_path / "alone" / one.folder / name).read_bytes()
    assert not (out / ".workers").exists()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("dask")
def test_ctrl_c_keeps_what_is_finished_and_it_is_resumed(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics(*orders(out, "1.5"), "--jobs", "2")
    wait_until(lambda: (out / "sweep.csv").exists() and (out / "sweep.csv").read_text().count("\n") > 1, "a run to end")
    pids = children(run.process.pid)
    run.interrupt()
    assert run.wait() == 130, run.err
    assert run.err.count("\n") == 1 and "writing the page of the sweep (Ctrl-C again to leave that to " in run.err
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the workers to end")
    summary = read_summary(out)
    kept = {one["directory"] for one in summary["sweep"]["runs"]}
    assert summary["status"] == "interrupted" and 1 <= len(kept) < 3
    assert {path.parent.name for path in out.glob("*/experiment.yaml")} == kept
    times = {name: (out / name / "summary.json").stat().st_mtime_ns for name in kept}
    again = answer(*orders(out, "1.5"), "--resume")
    assert again.status == 0, again.err
    assert {name: (out / name / "summary.json").stat().st_mtime_ns for name in kept} == times
    assert len(read_summary(out)["sweep"]["runs"]) == 3


@pytest.mark.exhaustive
@pytest.mark.usefixtures("dask")
@pytest.mark.parametrize("all_of_them", [False, True], ids=["command", "terminal"])
def test_ctrl_c_while_workers_start_ends_the_command_and_them(
    haptics: Callable[..., Haptics], tmp_path: Path, all_of_them: bool
) -> None:
    """It was ignored, and all was run; in a terminal it reaches the workers, too."""
    out = tmp_path / "out"
    run = haptics(*orders(out, "1.5"), "--jobs", "2")
    wait_until(lambda: len(children(run.process.pid)) == 2, "the workers")
    pids = children(run.process.pid)
    for pid in pids if all_of_them else ():
        os.kill(pid, signal.SIGINT)
    run.interrupt()
    assert run.wait() == 130, run.err
    assert run.err.count("\n") == 1 and "writing the page of the sweep (Ctrl-C again to leave that to " in run.err
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the workers to end")
    summary = read_summary(out)
    assert summary["status"] == "interrupted" and summary["sweep"]["runs"] == []
    assert not (out / ".workers").exists() and not list(out.glob("*/experiment.yaml"))
