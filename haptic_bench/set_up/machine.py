"""Properties of the machine for a servo loop: cores, priorities, locked memory, shared memory, folders.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from haptic_bench.set_up.finding import Finding
from haptic_sim.cache_folder import cache_folder, objection

LEAST_SHARED = 64 * 2**20  # [B] of /dev/shm: some dozen participants with their segments of half a MB and ports
LEAST_FREE = 2 * 2**30  # [B] for environment, kernels and a trial
_PRIORITY = 50  # as of haptic_ros.realtime
_SIZES = ("B", "KB", "MB", "GB", "TB")


def read(path: str | Path) -> str:
    """The text of a small file of the system, without spaces around it; empty if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(100_000).strip()
    except OSError:
        return ""


def size(count: float) -> str:
    """A number of bytes in words."""
    for unit in _SIZES[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit in _SIZES[:2] else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_SIZES[-1]}"


def check_system() -> Iterator[Finding]:
    """Operating system and Python."""
    release = read("/etc/os-release")
    names = [line.partition("=")[2].strip('"') for line in release.splitlines() if line.startswith("PRETTY_NAME=")]
    system = f"{names[0] if names else platform.system()}, {platform.system()} {platform.release()}"
    if sys.platform.startswith("linux"):
        yield Finding("system", "operating system", "ok", f"{system}, {platform.machine()}")
    else:
        yield Finding("system", "operating system", "warn", system, "use Linux: elsewhere haptics is not tested")
    yield Finding("system", "Python", "ok", f"{platform.python_version()} ({sys.executable})")


def check_real_time() -> Iterator[Finding]:
    """Permission for real-time priority and for locked memory; the kernel's kind."""
    import resource

    area = "real time"
    real = read("/sys/kernel/realtime") == "1" or "PREEMPT_RT" in platform.version()
    yield Finding(area, "kernel", "ok", "PREEMPT_RT" if real else "no PREEMPT_RT: latencies of some 100 us may occur")
    if not hasattr(os, "sched_setscheduler"):
        yield Finding(area, "priority", "warn", "this system has no SCHED_FIFO", "use Linux for hardware")
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))  # of this thread
        os.sched_setscheduler(0, *before)
        yield Finding(area, "priority", "ok", "permitted (SCHED_FIFO)")
    except PermissionError:
        yield Finding(
            area,
            "priority",
            "warn",
            f"not permitted (rtprio limit {resource.getrlimit(resource.RLIMIT_RTPRIO)[0]}): a busy machine makes the "
            "servo miss ticks",
            "haptics doctor --write DIR writes a file for /etc/security/limits.d; or run with CAP_SYS_NICE",
        )
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    unlimited = limit == resource.RLIM_INFINITY
    yield Finding(
        area, "locked memory", "ok", "unlimited" if unlimited else f"up to {size(limit)} (haptics locks none)"
    )
    runtime, period = (read(f"/proc/sys/kernel/sched_rt_{name}_us") for name in ("runtime", "period"))
    if runtime.isdigit() and period.isdigit() and int(runtime) < 0.5 * int(period):
        yield Finding(
            area,
            "share of real-time threads",
            "warn",
            f"{runtime} of {period} us",
            "sysctl kernel.sched_rt_runtime_us=950000",
        )


def check_cores() -> Iterator[Finding]:
    """Number of cores, isolation, quota, governor, load."""
    area = "cores"
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    isolated = _cores(read("/sys/devices/system/cpu/isolated"))
    found = f"{len(mine)} of {os.cpu_count()} may be used" + (f", {len(isolated)} isolated" if isolated else "")
    if len(mine) < 2:
        yield Finding(area, "number", "warn", found, "give haptics two cores or more: one for the servo threads alone")
    elif isolated and mine[-1] not in isolated:
        cores = ",".join(map(str, [mine[0], max(isolated)]))
        yield Finding(
            area,
            "number",
            "warn",
            f"{found}, and the servo threads take the last core, {mine[-1]}, which is not isolated",
            f"run with taskset -c {cores} (the last one is for the servo threads)",
        )
    else:
        yield Finding(area, "number", "ok", found)
    quota, period = [*read("/sys/fs/cgroup/cpu.max").split(), "", ""][:2]
    if quota.isdigit() and period.isdigit() and int(quota) < len(mine) * int(period):
        yield Finding(
            area,
            "quota",
            "warn",
            f"{int(quota) / int(period):.3g} cores a period of {int(period) / 1000:g} ms: then everything stops",
            "start the container without a limit of CPU time (--cpus), or with --cpuset-cpus in its place",
        )
    governors = {read(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")} - {
        ""
    }
    if governors - {"performance"}:
        yield Finding(
            area,
            "governor",
            "warn",
            f"{', '.join(sorted(governors))}: a core that slows down between ticks answers later",
            "cpupower frequency-set -g performance",
        )
    else:
        yield Finding(area, "governor", "ok", ", ".join(governors) or "not readable here")
    load = os.getloadavg()[0]
    busy = load > len(mine)
    yield Finding(
        area,
        "load",
        "warn" if busy else "ok",
        f"{load:.1f} in the last minute",
        "end other programs before a trial in realtime" if busy else "",
    )


def _cores(text: str) -> set[int]:
    """The cores of a list as the kernel writes it: 1-3,5."""
    cores: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            cores |= set(range(int(low), int(high or low) + 1))
    return cores


def check_folders() -> Iterator[Finding]:
    """The cache of kernels, and room for trials."""
    area, cache = "folders", cache_folder("kernels")
    there = next((path for path in (cache, *cache.parents) if path.exists()), Path("/"))
    if not _is_writable(there):
        yield Finding(
            area,
            "kernel cache",
            "warn",
            f"{cache}: cannot be written, so that kernels are compiled at each start, for minutes",
            "let HAPTICS_CACHE_DIR name a folder that can be written",
        )
    elif reason := objection(cache):
        yield Finding(
            area,
            "kernel cache",
            "warn",
            f"{cache}: not used, as {reason}: kernels are compiled at each start, for minutes",
            "let HAPTICS_CACHE_DIR name a folder of your own (mode 700)",
        )
    elif cache.is_dir():
        sizes = [entry.stat().st_size for entry in os.scandir(cache) if entry.is_file(follow_symlinks=False)]
        yield Finding(area, "kernel cache", "ok", f"{cache}: {len(sizes)} files, {size(sum(sizes))}")
    else:
        yield Finding(area, "kernel cache", "ok", f"{cache}: empty; the first run compiles, which takes minutes")
    folders = {"disk of the cache": there, "disk of trials": Path.cwd(), "temporary files": Path(tempfile.gettempdir())}
    for name, folder in folders.items():
        free = shutil.disk_usage(folder).free
        low = free < LEAST_FREE
        remedy = f"make room: {size(LEAST_FREE)} are enough" if low else ""
        yield Finding(area, name, "warn" if low else "ok", f"{size(free)} free at {folder}", remedy)
    if not _is_writable(Path.cwd()):
        yield Finding(area, "trials", "warn", f"{Path.cwd()}: cannot be written", "change folder, or give --out")


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made in a folder; rights alone do not tell (of a full or read-only disk, to root)."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
