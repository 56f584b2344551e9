"""Kept kernels: found while nothing of theirs has changed, compiled again when anything has, wherever it is."""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT, wait_until

import haptic_sim
from haptic_sim import kernels
from haptic_sim.installed import PACKAGE_NAMES
from haptic_sim.kernels import cache as kernel_cache
from haptic_sim.kernels import digest, numba_inside
from haptic_sim.kernels.dispatcher import Kernel

SIMULATOR = Path(haptic_sim.__file__).parent
ALONE = ("__init__.py", "cache_folder.py", "errors.py")
OURS = [*(SIMULATOR / name for name in ALONE), *Path(kernels.__file__).parent.glob("*.py")]
SOURCES = {
    **{str(path.relative_to(SIMULATOR).with_suffix("")): path.read_text() for path in OURS},
    "constants": "FACTOR = 2.0\n",
    "records": """
from typing import NamedTuple


class Pair(NamedTuple):
    first: float
    second: float
""",
    "low": """
from numba.extending import overload, register_jitable
from haptic_sim.constants import FACTOR
from haptic_sim.kernels import kernel


@kernel
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
from haptic_sim import low
from haptic_sim.kernels import kernel
from haptic_sim.low import chosen, scaled, shifted


@kernel
def through(x):
    return scaled(x)


@kernel
def plain(x):
    return chosen(shifted(x)) + low.scaled(x)


@kernel
def read(pair):
    return pair.first


@kernel
def alone(x):
    return x - 1.0
""",
}
PROGRAM = """
import json
from haptic_sim import records, top
from haptic_sim.kernels import progress
missed = []
progress.report = lambda count, name: missed.append(name.rpartition(".")[2])
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
        (self._sources / "kernels").mkdir(parents=True)
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
            self.change("kernels/cache", f"COPIED = {kernel_cache.COPIED}", f"COPIED = {copied}")

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
        ("top", "@kernel\ndef alone", "@kernel(fastmath=True)\ndef alone", VALUES, ["alone"]),
        ("low", '"Documented."', '"Documented better."\n', VALUES, []),
        ("top", "from haptic_sim import low\n", "from haptic_sim import low  # noqa\n\n\n\n", VALUES, []),
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
    later = f"import numba\nnumba.njit(lambda x: x)(1.0)\n{PROGRAM}"  # so that Numba counts otherwise
    assert package.run(later) == (VALUES, ["scaled"])
    assert package.run() == (VALUES, [])


@pytest.mark.exhaustive
def test_a_kernel_that_needs_the_seed_of_hashes_is_not_kept(tmp_path: Path) -> None:
    """Which is known to the linker where the compiler is; a process would end for the lack of it."""
    package = Package(tmp_path)
    package.change("top", "return x - 1.0", 'return x - 2.0 + 0.0 * hash("a")')
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    for _ in range(2):
        assert package.run(program) == ([1.0], ["alone"])


def test_a_kernel_that_calls_a_linked_one_through_an_overload_runs_and_is_not_kept(tmp_path: Path) -> None:
    """As what an overload compiles is not a kernel, it has an address of this process."""
    package = Package(tmp_path, copied=0)
    package.change("low", "return lambda x: x + 1000.0", "return lambda x: scaled(x) + 1000.0")
    package.change("top", "return x - 1.0", "return chosen(x) - 1004.0")
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    assert package.run(program) == ([2.0], ["alone", "scaled"])
    assert package.run(program) == ([2.0], ["alone"])


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
import json
from haptic_sim import low, top
top.through(3.0), top.alone(3.0)
(result,) = low.scaled.overloads.values()
(other,) = top.alone.overloads.values()
link = result.library.link
assert link.result() is result
try:
    link._replace(symbol=other.fndesc.llvm_func_name).result()
    found = "resolved"
except LookupError as error:
    found = "refused"
print(json.dumps([[found], []]))
"""
    assert Package(tmp_path, copied=0).run(program) == (["refused"], [])


TWINS = """
from haptic_sim.kernels import kernel
from numba.extending import register_jitable

def make(factor):
    @register_jitable
    def inner(x):
TERMS
        return x + factor
    return inner

first, second = make(1.0), make(2.0)

@kernel
def one(x):
    return first(x) + first(x + 1.0)

@kernel
def two(x):
    return second(x) + second(x + 1.0)
""".replace("TERMS", "\n".join(f"        x = x * {i}.5 if x < {i}.0 else x - {i}.25" for i in range(80)))


def test_kernels_that_two_processes_compiled_share_no_symbol(tmp_path: Path) -> None:
    """Numba gives the inner functions the same name, as each is the first that its process compiles."""
    package = Package(tmp_path)
    (tmp_path / "haptic_sim" / "twins.py").write_text(TWINS)
    program = "import json\nfrom haptic_sim import twins\nprint(json.dumps([[CALLS], []]))\n"
    one, two, both = "twins.one(0.5)", "twins.two(0.5)", "twins.one(0.5), twins.two(0.5)"
    apart = [package.run(program.replace("CALLS", call))[0] for call in (one, two)]
    assert apart[1][0] == pytest.approx(apart[0][0] + 2.0)
    assert package.run(program.replace("CALLS", both))[0] == [*apart[0], *apart[1]]
    defined = [symbols(path) for path in package.kept.glob("*.nbc")]
    assert [bool(names & {name for name in names if "inner" in name}) for names in defined] == [True, True]
    assert not defined[0] & defined[1]


def symbols(path: Path) -> set[str]:
    """The names of functions and environments that a kept file contains, but for those of C and Python."""
    return {found.decode() for found in re.findall(rb"_ZN[\w.$]+", path.read_bytes())}


@pytest.mark.exhaustive
def test_what_another_process_is_compiling_is_waited_for(tmp_path: Path) -> None:
    holding = """
import json, numba
from haptic_sim import top
with top.alone._cache.exclusively((numba.float64,), top.alone.targetctx):
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
    package.change("kernels/cache", f"VERSIONS_KEPT = {kernel_cache.VERSIONS_KEPT}", "VERSIONS_KEPT = 2")
    program = PROGRAM.replace("top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), ", "")
    for number in range(1, 4):
        package.change("top", f"x - {number}.0", f"x - {number + 1}.0")
        assert package.run(program) == ([3.0 - (number + 1)], ["alone"])
    assert len(list(package.kept.iterdir())) == 2


def test_of_every_kernel_it_is_known_what_it_was_compiled_from() -> None:
    for name in PACKAGE_NAMES:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.unfreeze()  # what is frozen is not listed
    ours = [one for one in gc.get_objects() if issubclass(type(one), Kernel)]  # not dead weak references
    gc.freeze()  # again: see conftest.pytest_collection_finish
    ours = [one for one in ours if one.py_func.__module__.startswith("haptic_")]
    assert len(ours) > 500
    for kernel in ours:
        assert len(digest.stamp_of(kernel)) == 64


MINE = """
import numba
from haptic_sim import low, top


@numba.njit(cache=True)
def of_long(x):
    return low.scaled(x) + 1.0


@numba.njit(cache=True)
def of_copied(x):
    return top.through(x) + 1.0


@numba.njit(cache=True)
def of_both(x):
    return of_long(x) + of_copied(x)


@numba.njit(cache=True)
def of_alone(x):
    return top.alone(x) + 1.0


@numba.njit(cache=True)
def of_none(x):
    return x + 1.0
"""
LONG = "\n".join(f"    x = math.sin(x) if x > {i}.5 else x * 1.0" for i in range(3, 150))


@pytest.mark.exhaustive
def test_code_of_others_that_calls_kernels_runs_in_every_process(tmp_path: Path) -> None:
    """Numba keeps what has a copy that calls nothing, and compiles again what has the address of a linked kernel."""
    package = Package(tmp_path, copied=12000)
    package.environment["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")
    package.change("low", '    "Documented."\n', LONG + "\n")
    package.change("low", "from numba", "import math\nfrom numba")
    (tmp_path / "mine.py").write_text(MINE)
    program = """
import json, warnings, numba
numba.config.reload_config()
warnings.simplefilter("ignore", numba.NumbaWarning)
import mine
names = ["of_long", "of_copied", "of_both", "of_alone", "of_none"]
values = [getattr(mine, name)(3.0) for name in names]
print(json.dumps([values, [name for name in names if getattr(mine, name).stats.cache_misses]]))
"""
    kinds = """
kernels = mine.low.scaled, mine.top.through, mine.top.alone
scaled, through, alone = (kernel.overloads[numba.float64,].library for kernel in kernels)
assert scaled.link and not through.link and through.links == (scaled.link,) and not alone.link and not alone.links
"""
    names = ["of_long", "of_copied", "of_both", "of_alone", "of_none"]
    assert package.run(program + kinds) == ([7.0, 7.0, 14.0, 3.0, 4.0], names)
    for _ in range(2):
        assert package.run(program) == ([7.0, 7.0, 14.0, 3.0, 4.0], names[:3])


EIGEN = """
import warnings
import numba
import numpy as np
from haptic_sim import linalg

warnings.simplefilter("ignore", numba.NumbaWarning)  # Numba says that it cannot keep the code


@numba.njit(cache=True)
def largest(A):
    n = A.shape[0]
    values, vectors = np.zeros(n), np.zeros((n, n))
    linalg.symmetric_eigen(A.copy(), n, values, vectors)
    return values[n - 1]
"""


@pytest.mark.long
@pytest.mark.exhaustive
def test_code_of_others_calls_a_long_kernel_of_ours_in_every_process(tmp_path: Path) -> None:
    """The eigenvalues of `linalg`, which are called by their address; against NumPy."""
    (tmp_path / "mine.py").write_text(EIGEN)
    program = """
import mine, numpy as np
A = np.random.default_rng(20260).normal(size=(6, 6))
A = A @ A.T
assert abs(mine.largest(A) - np.linalg.eigvalsh(A)[-1]) < 1e-12 * np.trace(A)
(kept,) = mine.linalg.symmetric_eigen.overloads.values()
assert kept.library.link
"""
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "PYTHONPATH": path}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


UNCHANGED = """
import contextlib, io, sys, types
import numba, numba.misc.coverage_support


def content():
    "All functions of Numba and of its classes; what else was there when kernels were imported."
    kinds = types.FunctionType, classmethod, staticmethod, property
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            owners = [module, *(one for one in vars(module).values() if isinstance(one, type))]
            for owner in owners:
                for key, value in list(vars(owner).items()):
                    if isinstance(value, kinds):
                        found[owner, key] = value
    for template in templates():
        for key in ("_overload_func", "_impl_cache", "_compiled_overloads"):
            found[template, key] = vars(template).get(key)
    found["path"], found["coverage"] = list(sys.meta_path), numba.misc.coverage_support.coverage_available
    found["numbers"] = numba.core.bytecode.FunctionIdentity._unique_ids
    return found


def templates():
    for function, kind in numba.core.typing.templates.builtin_registry.globals:
        yield from getattr(kind, "templates", ())


def differences(before):
    now = content()
    return [key for key, value in before.items() if now.get(key) is not value and now.get(key) != value]


@numba.njit
def assign(a, b):
    a[:] = b + 1.0

import numpy as np
assign(np.zeros(2), np.zeros(2))
before = content()
from haptic_sim.kernels import kernel
assert not differences(before)
from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
(trial,) = experiment.load("door", ["analysis=trial"], duration=0.01)
assert len(analysis_of(trial.experiment).run_unrecorded(trial)["tick"])
assert not differences(before), differences(before)


@kernel
def good(a, b):
    a[:] = b + 2.0


@kernel
def bad(a):
    return a.nothing


good(np.zeros(2), np.zeros(2))
assert good.signatures
with contextlib.suppress(numba.TypingError):
    bad(1.0)
assert not bad.signatures
assert not differences(before), differences(before)
try:
    assign(np.zeros(2), np.zeros(3))
except ValueError as error:
    assert str(error) == "cannot assign slice of shape (2,) from input of shape (3,)", error
"""


@pytest.mark.exhaustive
def test_numba_is_as_it_was_after_a_trial_and_a_compilation() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", UNCHANGED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_name_of_numba_that_kernels_import_is_checked_and_here() -> None:
    imported = {
        f"{node.module}.{alias.name}"
        for path in Path(kernels.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba.")
        for alias in node.names
    }
    checked = {f"{module}.{name}" for module, names in numba_inside.NAMES.items() for name in names.split()}
    modules = {f"numba.core.{name}" for name in ("base", "cgutils", "sigutils", "types")} | {"numba.np.arrayobj"}
    documented = {"numba.extending.intrinsic"}
    assert imported - modules - documented <= checked
    assert not numba_inside.lacking()


def test_with_a_numba_that_lacks_a_name_kernels_are_plain_and_it_is_said_once(tmp_path: Path) -> None:
    package = Package(tmp_path)
    package.environment["NUMBA_CACHE_DIR"] = str(tmp_path / "numba")
    program = """
import json, warnings, numba
numba.config.reload_config()
from numba.core import serialize
from numba.core.codegen import CPUCodeLibrary
del serialize.dumps, CPUCodeLibrary._optimize_final_module
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from haptic_sim import top
texts = [str(one.message) for one in said if one.category is RuntimeWarning]
print(json.dumps([texts, [type(top.alone).__name__]]))
"""
    ((text,), kinds) = package.run(program)
    lacking = "numba.core.codegen.CPUCodeLibrary._optimize_final_module, numba.core.serialize.dumps"
    assert f"has no {lacking}: kernels are compiled by Numba alone" in text and kinds == ["CPUDispatcher"]


def test_records_of_any_package_are_arguments_of_kept_kernels(tmp_path: Path) -> None:
    """A record is found by its name in another process; one of the program itself is not."""
    package = Package(tmp_path)
    (tmp_path / "others.py").write_text(SOURCES["records"])
    program = PROGRAM.replace(
        "top.through(3.0), top.plain(3.0), top.read(records.Pair(1.0, 2.0)), top.alone(3.0)", "READ"
    )
    named = program.replace("READ", "top.read(others.Pair(1.0, 2.0))").replace("import json", "import json, others")
    assert package.run(named) == ([1.0], ["read"])
    assert package.run(named) == ([1.0], [])
    own = program.replace("READ", "top.read(Pair(1.0, 2.0))").replace(
        "import json", SOURCES["records"] + "\nimport json"
    )
    for _ in range(2):
        assert package.run(own) == ([1.0], ["read"])
