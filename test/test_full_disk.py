"""A disk that is full, a limit on the size of files, a directory that may not be written: one line, and what was
recorded can be read."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import Answer, python
from starting import mount_as

from haptic_bench.recording import bag
from haptic_bench.recording.bag import BagWriter, Topic

LIMIT = 400_000  # [B]
PLAIN = ("--set", "analysis=trial")  # without the references of an analysis


@contextlib.contextmanager
def mounted(command: str) -> Iterator[int]:
    """A process with mounts of its own, made by a shell command; its number."""
    script = f"{command} && echo mounted && exec cat"
    holder = subprocess.Popen(["unshare", "-rm", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:  # which closes its input, so that it ends
        assert holder.stdout is not None and holder.stdout.readline() == b"mounted\n"
        yield holder.pid


def run(*arguments: str, cwd: Path, mounts: int) -> Answer:
    """`haptics ARGUMENTS` in a folder, with the mounts of another process."""
    return python("-m", "haptic_bench", *arguments, cwd=cwd, before=partial(mount_as, mounts, str(cwd)))


def one_line(text: str) -> str:
    """The only line of an error output, that of the failure."""
    lines = text.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("haptics: "), text
    return lines[0]


class Full:
    """A file on a disk with room for so many bytes, those that were written in part or given back counted."""

    def __init__(self, file: object, room: int):
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        left = self._room - self._file.tell()
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(bytes(data[:left]))

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def __enter__(self) -> object:
        return self._file.__enter__()

    def __exit__(self, *error: object) -> object:
        return self._file.__exit__(*error)


@pytest.mark.parametrize("room", [3000, 9000, 40_000, 100_000, 123_456])
def test_a_bag_on_a_full_disk_is_sound_and_lacks_only_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(bag, "CHUNK_SIZE", 1000)
    writer = BagWriter(tmp_path / "bag", [Topic("/a", "std_msgs/msg/String")])
    writer._file = Full(writer._file, room)
    with pytest.raises(OSError, match="No space left"):
        for number in range(10_000):
            writer.write(0, number, number.to_bytes(8, "little") * 20)
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert (tmp_path / "bag" / "bag_0.mcap").stat().st_size <= room
    if room > 4000:  # else there is not even room for the index of no message
        messages = bag.read(tmp_path / "bag")["/a"].messages
        assert [int.from_bytes(data[:8], "little") for data in messages] == list(range(len(messages)))
        assert len(messages) * 250 > room - 8000  # but for the index, and as much as was given up for it


# The limit holds for the middleware's shared memory, too: without it a message is lost now and then, and the recorder
# is behind before the file is too large.
@pytest.mark.flaky(reruns=3)
@pytest.mark.parametrize("mode", ["offline", "lockstep", pytest.param("realtime", marks=pytest.mark.exhaustive)])
def test_a_limit_on_the_size_of_files_is_one_line(tmp_path: Path, mode: str) -> None:
    if mode != "offline":
        pytest.importorskip("rclpy", reason="needs ROS 2")
    out = tmp_path / "out"
    arguments = ("run", "corner_peg", "--mode", mode, "--duration", "2", "--out", str(out))
    shares = ("--set", "health.missed_share=1", "--set", "health.undecided_share=1")  # of ticks that are not recorded
    shares += PLAIN
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    status, _, said = python("-m", "haptic_bench", *arguments, *shares, cwd=tmp_path, before=limit)
    assert status == 1
    assert f"cannot be recorded: {out}/bag: File too large" in one_line(said)
    summary = json.loads((out / "summary.json").read_text())
    messages = {name: len(topic.messages) for name, topic in bag.read(out / "bag").items()}
    assert summary["status"] == "failed" and "File too large" in summary["reason"]
    assert 50 < summary["ticks"] <= messages["/corner_peg/tool_state"]
    assert (out / "bag" / "bag_0.mcap").stat().st_size <= LIMIT


def can_mount() -> bool:
    """Whether a process may have a file system of its own."""
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs unshare and user namespaces")
@pytest.mark.parametrize("mode", ["lockstep", pytest.param("offline", marks=pytest.mark.exhaustive)])
def test_results_of_a_trial_on_a_full_disk_are_elsewhere_and_it_is_said_where(tmp_path: Path, mode: str) -> None:
    if mode != "offline":
        pytest.importorskip("rclpy", reason="needs ROS 2")
    full = tmp_path / "full"
    full.mkdir()
    arguments = ("run", "corner_peg", "--mode", mode, "--duration", "2", *PLAIN, "--out", f"{full}/out")
    with mounted(f"mount -t tmpfs -o size=300k none {full}") as holder:
        status, output, said = run(*arguments, cwd=tmp_path, mounts=holder)
        messages = bag.read(Path(f"/proc/{holder}/root{full}/out/bag"))["/corner_peg/tool_state"].messages
    assert status == 1
    found = re.search(r"bag: No space left on device; its results are in (\S+)$", one_line(said))
    assert found
    elsewhere = Path(found[1])
    assert {path.name for path in elsewhere.iterdir()} >= {"summary.json", "samples.csv", "report.html"}
    assert f"report: {elsewhere}/report.html" in output
    summary = json.loads((elsewhere / "summary.json").read_text())
    rows = (elsewhere / "samples.csv").read_text().count("\n") - 1
    assert summary["ticks"] == rows > 50
    assert rows <= len(messages)


@pytest.mark.skipif(not can_mount(), reason="needs unshare and user namespaces")
def test_a_directory_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    arguments = ("run", "corner_peg", "--mode", "offline", "--duration", "0.1", "--out", str(out))
    with mounted(f"mount --bind {out} {out} && mount -o remount,ro,bind {out}") as holder:
        status, _, said = run(*arguments, cwd=tmp_path, mounts=holder)
    assert status == 1
    assert "Read-only file system" in one_line(said) and not list(out.iterdir())
