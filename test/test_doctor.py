"""`haptics doctor`: what it finds, and that it neither fails nor hangs, whatever is there."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, answer

from haptic_bench.running.runner import Process
from haptic_bench.set_up import finding, machine, middleware, packages, peripherals, permissions, prepare
from haptic_bench.set_up.finding import Check, Finding, examine
from haptic_bench.set_up.programs import Program, this_environment
from haptic_ros import realtime
from haptic_ros.middleware import fast_dds

FIELDS = {"area", "name", "state", "found", "remedy"}


def test_all_of_it_as_json() -> None:
    found = answer("doctor", "--json")
    told = json.loads(found.out)
    assert all(set(one) == FIELDS for one in told["findings"])
    states = [one["state"] for one in told["findings"]]
    assert {state: told[state] for state in ("ok", "warn", "problem")} == {
        state: states.count(state) for state in ("ok", "warn", "problem")
    }
    assert found.status == (1 if told["problem"] else 0)
    areas = list(dict.fromkeys(one["area"] for one in told["findings"]))
    assert sorted(areas) == [
        "cores",
        "devices",
        "environment",
        "folders",
        "middleware",
        "packages",
        "real time",
        "system",
    ]
    assert all(one["remedy"] for one in told["findings"] if one["state"] != "ok")
    by_name = {one["name"]: one for one in told["findings"]}
    assert by_name["a message"]["state"] == "ok" and by_name["versions"]["state"] == "ok"


def test_without_an_environment(tmp_path: Path) -> None:
    """A fresh checkout, with the system's Python: nothing is made, and the rest is looked at."""
    for name in ("haptics", "requirements.lock", "CMakeLists.txt", "package.xml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("haptic_bench", "haptic_ros", "haptic_sim"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("ROS_DISTRO", "PYTHON"))}
    command = [sys.executable, "-I", "-S", "-B", str(tmp_path / "haptics"), "doctor", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)
    told = json.loads(done.stdout)
    by_name = {one["name"]: one for one in told["findings"]}
    assert by_name["checkout"]["state"] == "warn" and "not made" in by_name["checkout"]["found"]
    assert "a message" not in by_name and "versions" not in by_name and "shared memory" in by_name
    assert done.returncode == (1 if told["problem"] else 0) and done.stderr == ""
    assert not (tmp_path / ".haptics").exists()


def test_a_check_that_fails_or_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Iterator[Finding]:
        yield Finding("a", "first", "ok", "there")
        raise OSError("no such thing")

    def hangs() -> Iterator[Finding]:
        yield Finding("b", "second", "ok", "there")
        time.sleep(30.0)

    monkeypatch.setattr(finding, "PATIENCE", 0.2)
    checks: list[tuple[str, Check]] = [("a", fails), ("b", hangs), ("c", lambda: [Finding("c", "third", "ok", "")])]
    found = list(examine(checks))
    assert [(one.area, one.state) for one in found] == [
        ("a", "ok"),
        ("a", "warn"),
        ("b", "ok"),
        ("b", "warn"),
        ("c", "ok"),
    ]
    assert "OSError: no such thing" in found[1].found and "not finished" in found[3].found


def test_a_program_ends_with_all_that_it_started(tmp_path: Path) -> None:
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '77.7'], cwd=sys.argv[1]); time.sleep(60)"
    program = Program(this_environment(), code, (str(tmp_path),))
    assert program.wait(1.5).status == -1
    deadline = time.monotonic() + 10.0
    while (left := _working_in(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _working_in(folder: Path) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                found.append(process)
        except OSError:
            continue
    return found


def test_stale_segments_are_those_that_nobody_locks_or_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "SHARED", tmp_path)
    monkeypatch.setattr(fast_dds, "SHARED", tmp_path)
    for name in ("fastrtps_aa", "fastrtps_aa_el", "fastrtps_bb", "fastrtps_bb_el", "fastrtps_cc", "fastrtps_port7400"):
        (tmp_path / name).write_bytes(b"0" * 4096)
    with open(tmp_path / "fastrtps_aa_el") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert fast_dds.stale_segments() == ["fastrtps_bb", "fastrtps_bb_el", "fastrtps_cc"]
        (warned,) = [one for one in middleware.check_shared_memory() if one.name == "stale segments"]
        assert warned.state == "warn" and "3 files" in warned.found
    assert len(fast_dds.stale_segments()) == 5


def test_ports_that_were_not_finished_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boost sets the first word of a segment to 2 when it has made it; before, every later process waits for that."""
    monkeypatch.setattr(fast_dds, "SHARED", tmp_path)
    before = time.time() - 60.0
    for name, begin, made in (
        ("fastrtps_port7411", 2, before),
        ("fastrtps_port7413", 0, before),
        ("fastrtps_port7415", 1, before),
        ("fastrtps_port7417", 0, time.time()),  # it may be just made
        ("fastrtps_0123456789abcdef", 0, before),
        ("fastrtps_port7413_el", 0, before),
    ):
        (tmp_path / name).write_bytes(begin.to_bytes(4, sys.byteorder) + bytes(4092))
        os.utime(tmp_path / name, (made, made))
    (tmp_path / "fastrtps_port7419").touch()
    os.utime(tmp_path / "fastrtps_port7419", (before, before))
    removed = ["fastrtps_port7413", "fastrtps_port7415", "fastrtps_port7419"]
    assert sorted(fast_dds.remove_unfinished_ports()) == removed
    assert {path.name for path in tmp_path.iterdir()} == {
        "fastrtps_port7411",
        "fastrtps_port7417",
        "fastrtps_0123456789abcdef",
        "fastrtps_port7413_el",
    }


def test_what_a_process_has_mapped_is_in_use() -> None:
    path = Path("/dev/shm/fastrtps_d0c708d0c708")
    try:
        with open(path, "w+b") as file:
            file.write(b"0" * 4096)
            file.flush()
            assert path.name in fast_dds.stale_segments()
            with mmap.mmap(file.fileno(), 4096):
                assert path.name not in fast_dds.stale_segments()
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("variables", "name", "state"),
    [
        ({}, "domain", "ok"),
        ({"ROS_DOMAIN_ID": "101"}, "domain", "ok"),
        ({"ROS_DOMAIN_ID": "150"}, "domain", "warn"),
        ({"ROS_DOMAIN_ID": "300"}, "domain", "problem"),
        ({"ROS_DOMAIN_ID": "seven"}, "domain", "problem"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}, "reach", "ok"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}, "reach", "problem"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "NEAR"}, "reach", "problem"),
        ({"FASTRTPS_DEFAULT_PROFILES_FILE": "/not/there.xml"}, "profile", "warn"),
    ],
)
def test_settings_of_the_middleware(variables: dict[str, str], name: str, state: str) -> None:
    assert {one.name: one.state for one in middleware.check_settings(variables)}[name] == state


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("", True),
        (" python_full_version < '3.11'", False),
        (" python_full_version >= '3.11'", True),
        (" python_full_version == '3.11.*'", True),
        (" python_full_version == '3.12.*'", False),
        (" python_version < '3.11' and sys_platform == 'linux'", False),
        (" python_version == '3.11' and sys_platform == 'win32'", False),
        (" extra == 'all'", True),
    ],
)
def test_markers_of_the_lock_file(marker: str, holds: bool) -> None:
    assert packages.applies(marker, "3.11.7") is holds


def test_an_environment_that_is_out_of_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements.lock").write_text("one==1.0\ntwo==2.0 ; python_full_version < '3.0'\nthree_b==3.1\n")
    (tmp_path / "CMakeLists.txt").touch()
    (tmp_path / "package.xml").touch()
    preparation = prepare.Preparation(tmp_path)
    site = preparation.venv / "lib" / "python3.11" / "site-packages"
    for name, version in (("one", "1.0"), ("three_B", "3.0")):
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    monkeypatch.setattr(preparation, "due", lambda arguments=(): [])
    checkout, lock = packages.check_preparation(preparation)
    assert checkout.state == "ok"
    assert lock.state == "warn" and lock.found == "three-b 3.0 in place of 3.1"
    shutil.rmtree(site / "one-1.0.dist-info")
    assert list(packages.check_preparation(preparation))[1].state == "problem"


def test_services_and_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libdhd.so.3").touch()
    found = {one.name: one for one in peripherals.check_libraries({"LD_LIBRARY_PATH": str(tmp_path)})}
    assert found["libdhd.so"].found == str(tmp_path / "libdhd.so.3")
    assert found["libdrd.so"].found == "not there"
    found = {one.name: one for one in peripherals.check_libraries({"OH_SDK_BASE": str(tmp_path)})}
    assert found["libHD.so"].state == "warn" and str(tmp_path) in found["libHD.so"].found
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libHD.so").touch()
    found = {one.name: one for one in peripherals.check_libraries({"OH_SDK_BASE": str(tmp_path)})}
    assert found["libHD.so"].found == str(tmp_path / "lib" / "libHD.so")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(peripherals, "SERVICES", {port: "service"})
        assert [one.found for one in peripherals.check_services()] == [f"answers on port {port}"]
    assert [one.found for one in peripherals.check_services()] == [f"does not answer on port {port}"]


def test_cores_as_the_kernel_lists_them() -> None:
    assert machine._cores("1-3,5") == {1, 2, 3, 5} and machine._cores("") == set()


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1536, "2 KB"), (64 * 2**20, "64.0 MB"), (3e12, "2.7 TB")])
def test_sizes(count: float, text: str) -> None:
    assert machine.size(count) == text


@pytest.mark.parametrize("status", [None, 0, 1, -9])
def test_segments_of_a_node_that_has_ended_are_removed(tmp_path: Path, status: int | None) -> None:
    """Without memory one fails on its own way out, and leaves them: found by the campaign."""
    files = [tmp_path / "fastrtps_aa", tmp_path / "fastrtps_aa_el"]
    for file in files:
        file.touch()
    node: Any = object.__new__(Process)
    process = SimpleNamespace(exitcode=status, pid=0, join=lambda _: None)
    node._reader, node._process, node._segments = Thread(), process, {str(files[0])}
    node.finish()
    assert [file.exists() for file in files] == [status is None] * 2


def test_files_for_an_administrator_grant_what_the_remedies_name(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    first = answer("doctor", "--write", str(folder))
    assert first.status == 0 and str(folder / permissions.RULES) in first.out
    rules = (folder / permissions.RULES).read_text()
    for line in rules.splitlines():
        assert line.startswith("#") or 'TAG+="uaccess"' in line  # who sits at the machine, and not everybody
    assert 'ATTR{idVendor}=="1451"' in rules and 'ATTR{idVendor}=="0403", ATTR{idProduct}=="cb48"' in rules
    priority = int((folder / permissions.LIMITS).read_text().split("rtprio")[1])
    assert realtime.PRIORITY + 5 < priority < 99  # above the servo threads, below the kernel's own
    again = answer("doctor", "--write", str(folder))
    assert again.status == 2 and "File exists" in again.err and len(again.err.splitlines()) == 1
