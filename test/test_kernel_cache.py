"""Kept kernels: found while nothing of theirs has changed, compiled again when anything has, wherever it is."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from conftest import wait_until
from numba.core.dispatcher import Dispatcher

from haptic_sim import cache_folder, kernel_cache

SOURCES = {
    "__init__": Path(kernel_cache.__file__).with_name("__init__.py").read_text(),
    "kernel_cache": Path(kernel_cache.__file__).read_text(),
    "cache_folder": Path(cache_folder.__file__).read_text(),
    "constants": "FACTOR = 2.0\n",
    "records": """
from typing import NamedTuple


class Pair(NamedTuple):
    first: float
    second: float
""",
    "low": """
import numba
from numba.extending import overload, register_jitable
from haptic_sim.constants import FACTOR


@numba.njit(cache=True)
def scaled(x):
    "Documented."
    return FACTOR * x


@register_jitable
def shifted(x):
    return x + 100.0


def chosen(x):
    pass


@overload(chosen)
def _chosen(x):
    return lambda x: x + 1000.0
""",
    "top": """
import numba
from haptic_sim import low
from haptic_sim.low import chosen, scaled, shifted


@numba.njit(cache=True)
def through(x):
    return scaled(x)


@numba.njit(cache=True)
def plain(x):
    return chosen(shifted(x)) + low.scaled(x)


@numba.njit(cache=True)
def read(pair):
    return pair.first


@numba.njit(cache=True)
def alone(x):
    return x - 1.0
""",
}
PROGRAM = """
import json
from haptic_sim import kernel_cache, records, top
missed = []
kernel_cache.report = lambda count, name: missed.append(name.rpartition(".")[2])
values = [top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), top.alone(3.0)]
print(json.dumps([values, sorted(set(missed))]))
"""
# Runs each program in a fork of a process that has imported Numba, and nothing of ours; with an argument, also what the
# compiler needs, which takes most of the time of a small kernel.
SERVER = """
import json, os, sys, traceback
import numba
if sys.argv[1:]:
    numba.njit(lambda x: x)(1.0)
for line in sys.stdin:
    folder, variables, program, *outputs = json.loads(line)
    child = os.fork()
    if not child:
        os.environ.clear()
        os.environ.update(variables)
        sys.path.insert(0, folder)
        for number, path in enumerate(outputs, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        status = 1
        try:
            exec(program, {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
VALUES = [6.0, 1109.0, 1.0, 2.0]
ALL = ["alone", "plain", "read", "scaled", "through"]


class Package:
    """A package in a folder of its own, whose kernels are kept beside it."""

    def __init__(self, folder: Path, copied: int = kernel_cache.COPIED):
        self._folder, self._sources = folder, folder / "haptic_sim"
        self._sources.mkdir()
        for name, text in SOURCES.items():
            (self._sources / f"{name}.py").write_text(text)
        self.environment = os.environ | {
            "PYTHONPATH": str(folder),
            "HAPTICS_CACHE_DIR": str(folder / "cache"),
            # Bytecode of a source counts as its own where length and second of the last change are the same.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.kept = folder / "cache" / "kernels"
        if copied != kernel_cache.COPIED:
            self.change("kernel_cache", f"COPIED = {kernel_cache.COPIED}", f"COPIED = {copied}")

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text in a source."""
        path = self._sources / f"{name}.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def run(self, program: str = PROGRAM, compiler: bool = True) -> tuple[list[float], list[str]]:
        """What the kernels return, and which were compiled; by a process that may have the compiler from the start."""
        out, err = self._folder / "out", self._folder / "err"
        order = [str(self._folder), self.environment, program, str(out), str(err)]
        runner = server(compiler)
        assert runner.stdin is not None and runner.stdout is not None
        print(json.dumps(order), file=runner.stdin, flush=True)
        assert runner.stdout.readline() == "0\n", err.read_text()
        values, missed = json.loads(out.read_text())
        return values, missed


@cache
def server(compiler: bool) -> subprocess.Popen[str]:
    """The process whose forks run programs; it ends with this one."""
    command = [sys.executable, "-W", "ignore", "-c", SERVER, *["compiler"][:compiler]]
    without = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, env=without, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """With all its kernels compiled, and linked however short they are."""
    package = Package(tmp_path_factory.mktemp("package"), copied=0)
    assert package.run() == (VALUES, ALL)
    return package


@pytest.fixture
def changed(package: Package) -> Callable[[str, str, str], tuple[list[float], list[str]]]:
    """Change a source, run, change it back: which finds what was kept before."""

    def run(name: str, old: str, new: str, program: str = PROGRAM) -> tuple[list[float], list[str]]:
        package.change(name, old, new)
        answer = package.run(program)
        package.change(name, new, old)
        return answer

    return run


def test_while_nothing_changes_nothing_is_compiled(package: Package) -> None:
    """Nor is what the compiler needs imported."""
    program = f"{PROGRAM}import sys\nassert 'numba.np.linalg' not in sys.modules\n"
    assert package.run(program, compiler=False) == (VALUES, [])


@pytest.mark.parametrize(
    ("name", "old", "new", "values", "compiled"),
    [
        ("low", "FACTOR * x", "0.5 * FACTOR * x", [3.0, 1106.0, 1.0, 2.0], ["plain", "scaled", "through"]),
        ("constants", "2.0", "4.0", [12.0, 1115.0, 1.0, 2.0], ["plain", "scaled", "through"]),
        ("low", "x + 100.0", "x + 200.0", [6.0, 1209.0, 1.0, 2.0], ["plain"]),
        ("low", "x + 1000.0", "x + 2000.0", [6.0, 2109.0, 1.0, 2.0], ["plain"]),
        ("records", "first: float\n    second: float", "second: float\n    first: float", [6, 1109, 2, 2], ["read"]),
        ("top", "cache=True)\ndef alone", "cache=True, fastmath=True)\ndef alone", VALUES, ["alone"]),
        ("low", '"Documented."', '"Documented better."\n', VALUES, []),
        ("top", "import numba\n", "import numba  # noqa\n\n\n\n", VALUES, []),
    ],
)
def test_what_depends_on_a_change_is_compiled_again(
    changed: Callable[..., tuple[list[float], list[str]]],
    name: str,
    old: str,
    new: str,
    values: list[float],
    compiled: list[str],
) -> None:
    assert changed(name, old, new) == (values, compiled)


def test_a_record_that_has_gone_is_forgotten(changed: Callable[..., tuple[list[float], list[str]]]) -> None:
    program = PROGRAM.replace("records.Pair", "records.Couple")
    assert changed("records", "Pair", "Couple", program) == (VALUES, ["read"])


def test_a_damaged_file_is_compiled_again(package: Package) -> None:
    kept = {path: path.read_bytes() for path in package.kept.glob("haptic_sim.top.alone-*")}
    for damage in (lambda whole: whole[:-100], lambda whole: b"", lambda whole: whole[:50] + whole[51:]):
        for path, whole in kept.items():
            path.write_bytes(damage(whole))
        assert package.run() == (VALUES, ["alone"])
    assert package.run() == (VALUES, [])


def test_a_kernel_that_is_linked_may_be_compiled_anew_by_another_process(tmp_path: Path) -> None:
    package = Package(tmp_path, copied=0)
    assert package.run() == (VALUES, ALL)
    for path in package.kept.glob("haptic_sim.low.scaled-*"):
        path.unlink()
    later = f"import numba\nnumba.njit(lambda x: x)(1.0)\n{PROGRAM}"  # so that it gets another symbol
    assert package.run(later) == (VALUES, ["scaled"])
    assert package.run() == (VALUES, [])


def test_a_kernel_that_needs_the_seed_of_hashes_is_not_kept(tmp_path: Path) -> None:
    """Which is known to the linker where the compiler is; a process would end for the lack of it."""
    package = Package(tmp_path)
    package.change("top", "return x - 1.0", 'return x - 2.0 + 0.0 * hash("a")')
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    for _ in range(2):
        assert package.run(program) == ([1.0], ["alone"])


def test_kernels_behind_an_overload_are_linked_too(tmp_path: Path) -> None:
    package = Package(tmp_path, copied=0)
    package.change("low", "return lambda x: x + 1000.0", "return lambda x: scaled(x) + 1000.0")
    package.change("top", "return x - 1.0", "return chosen(x) - 1004.0")
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    assert package.run(program) == ([2.0], ["alone", "scaled"])
    assert package.run(program) == ([2.0], [])


def test_a_kernel_is_compiled_once_for_all_constants_and_variables(tmp_path: Path) -> None:
    package = Package(tmp_path)
    package.change("top", "return scaled(x)", "return scaled(1) + scaled(2) + scaled(x)")
    later = ", top.plain(3.0), top.read(records.Pair(1.0, 2.0)), top.alone(3.0)"
    for argument, versions in (("3", 1), ("3.0", 2)):
        program = PROGRAM.replace(f"3.0){later}", f"{argument})")
        assert package.run(program)[0] == [12.0]
        assert len(list(package.kept.glob("haptic_sim.low.scaled-*"))) == versions


def test_a_symbol_that_is_of_another_kernel_is_refused(tmp_path: Path) -> None:
    program = """
import json, pickle
from haptic_sim import kernel_cache, low, top
top.through(3.0), top.alone(3.0)
(result,) = low.scaled.overloads.values()
(other,) = top.alone.overloads.values()
(link,) = kernel_cache._links[result.library]
engine = result.library.codegen._engine
link.resolve(engine)
try:
    link._replace(symbol=other.fndesc.llvm_func_name).resolve(engine)
    found = "resolved"
except LookupError as error:
    found = "refused"
print(json.dumps([[found], []]))
"""
    assert Package(tmp_path, copied=0).run(program) == (["refused"], [])


def test_what_another_process_is_compiling_is_waited_for(tmp_path: Path) -> None:
    holding = """
import json, numba
from haptic_sim import top
with top.alone._cache.alone((numba.float64,), top.alone.targetctx):
    print("held", flush=True)
    input()
    print(json.dumps([[top.alone(3.0)], []]))
"""
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    package = Package(tmp_path)

    def started(code: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-c", code], env=package.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def waits(pid: int) -> bool:
        return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())

    with started(holding) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n", first.communicate()[1]
        with started(program) as second:
            wait_until(lambda: waits(second.pid) or second.poll() is not None, "the second to find the kernel taken")
            said, _ = first.communicate("\n")
            assert json.loads(said) == [[2.0], []]
            said, error = second.communicate()
            assert json.loads(said) == [[2.0], []], error
    assert not list(package.kept.glob("*.lock"))


def test_without_a_folder_kernels_run_and_it_is_said(tmp_path: Path) -> None:
    package = Package(tmp_path)
    (tmp_path / "file").touch()
    package.environment["HAPTICS_CACHE_DIR"] = str(tmp_path / "file")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=package.environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [VALUES, ALL]
    assert f"compiled kernels cannot be kept in {tmp_path / 'file' / 'kernels'}" in done.stderr


@pytest.mark.parametrize("others", ["the folder", "a folder above", "a file"])
def test_what_another_user_can_have_written_is_not_executed(tmp_path: Path, others: str) -> None:
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    package = Package(tmp_path)
    assert package.run(program) == ([2.0], ["alone"])
    (kept,) = package.kept.glob("haptic_sim.top.alone-*")
    {"the folder": package.kept, "a folder above": package.kept.parent, "a file": kept}[others].chmod(0o777)
    assert package.run(program) == ([2.0], ["alone"])
    assert package.run(program) == ([2.0], [] if others == "a file" else ["alone"])  # the file is made again


def test_versions_of_a_source_do_not_pile_up(tmp_path: Path) -> None:
    package = Package(tmp_path)
    package.change("kernel_cache", f"VERSIONS_KEPT = {kernel_cache.VERSIONS_KEPT}", "VERSIONS_KEPT = 2")
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    for number in range(1, 4):
        package.change("top", f"x - {number}.0", f"x - {number + 1}.0")
        assert package.run(program) == ([3.0 - (number + 1)], ["alone"])
    assert len(list(package.kept.iterdir())) == 2


@pytest.mark.parametrize("first", ["haptic_sim", "numba", "haptic_sim.kernel_cache"])
def test_numba_is_imported_when_a_kernel_needs_it_and_kernels_are_kept_from_then_on(first: str) -> None:
    code = f"""
import sys
import {first}
import haptic_sim
if {first!r} == "haptic_sim":
    assert not {{"numba", "pinocchio", "numpy"}} & set(sys.modules)
from haptic_sim import spatial
from haptic_sim.kernel_cache import KernelCache
assert isinstance(spatial.quat_from_matrix._cache, KernelCache)
assert not [finder for finder in sys.meta_path if type(finder).__module__ == "haptic_sim"]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_of_every_kernel_it_is_known_what_it_was_compiled_from() -> None:
    for name in kernel_cache.PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.unfreeze()  # what is frozen is not listed
    kernels = [one for one in gc.get_objects() if issubclass(type(one), Dispatcher)]  # not dead weak references
    ours = [one for one in kernels if one.py_func.__module__.startswith(kernel_cache.PACKAGES)]
    ours = [one for one in ours if isinstance(one._cache, kernel_cache.KernelCache)]  # what can be kept
    assert len(ours) > 100
    for kernel in ours:
        assert len(kernel_cache.stamp_of(kernel)) == 64
