"""Machine instructions of a step, counted one by one: a number of compiled code that noise cannot move.

Virtual machines seldom have the counters of the processor that `perf stat` reads. What every Linux has is the single
step of `ptrace`: a fork of this process makes the steps, and this process lets it go on by one instruction at a time.
That takes 10 to 30 us an instruction, of which a step has some 1e5. Repeated counts agree to 0.5 %.

Kernels are compiled for the processor they run on, so that counts of two machines may differ: see `target`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import os
import platform
import signal
import sys
from collections.abc import Callable
from functools import partial

import numba
from numba.core.registry import cpu_target

from benchmarks import contact, local_model

WARM = 5  # steps of the fork before the one that is counted: its memory allocator has settled then
MOST = 20_000_000  # instructions of a step: beyond, it does not end
_TRACEME, _KILL, _SINGLESTEP, _SETOPTIONS, _EXITKILL = 0, 8, 9, 0x4200, 1 << 20
_DENIED, _FAILED = 3, 4  # exit statuses of a fork

Step = Callable[[], object]


class UncountableError(RuntimeError):
    """Instructions cannot be counted on this machine."""


def target() -> str:
    """Dependencies of the number of instructions beside the code: processor, and versions of the compilers."""
    _, processor, features = cpu_target.target_context.codegen().magic_tuple()
    kind = f"{platform.machine()} {processor} {hashlib.sha256(features.encode()).hexdigest()[:8]}"
    return f"{kind}, Numba {numba.__version__}, Python {'.'.join(platform.python_version_tuple()[:2])}"


def count_instructions(step: Step) -> int:
    """Instructions of a call of `step`, which is made in a fork of this process: nothing changes here.

    Raises:
        UncountableError: this system does not let a process be traced by its parent.
    """
    return _count(step, 1) - _count(step, 0)


def _count(step: Step, calls: int) -> int:
    """Instructions from a stop of a fork to the next, between which it makes some calls."""
    if sys.platform != "linux":
        raise UncountableError(f"instructions are counted by ptrace of Linux; this is {sys.platform}")
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes, ptrace.restype = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_long
    fork = os.fork()
    if fork == 0:
        failed = _DENIED
        with contextlib.suppress(BaseException):  # whatever is wrong, nothing of this process goes on in the fork
            gc.disable()
            sys.settrace(None)
            sys.setprofile(None)
            if ptrace(_TRACEME, 0, None, None) == 0:
                failed = _FAILED
                own = os.getpid()
                for _ in range(WARM):
                    step()
                os.kill(own, signal.SIGSTOP)
                for _ in range(calls):
                    step()
                os.kill(own, signal.SIGSTOP)
        os._exit(failed)
    try:
        _, status = os.waitpid(fork, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _FAILED:
            raise RuntimeError("the step fails")
        if not os.WIFSTOPPED(status) or ptrace(_SETOPTIONS, fork, None, _EXITKILL):
            raise UncountableError("instructions cannot be counted here: the system does not permit ptrace of a child")
        number, passed = 0, None
        while number < MOST:
            if ptrace(_SINGLESTEP, fork, None, passed):
                raise UncountableError("instructions cannot be counted here: the processor has no single steps")
            number += 1
            _, status = os.waitpid(fork, 0)
            if not os.WIFSTOPPED(status):
                raise RuntimeError(f"the step has ended its process, with status {status}")
            stopped_by = os.WSTOPSIG(status)
            if stopped_by == signal.SIGSTOP:
                return number
            passed = None if stopped_by == signal.SIGTRAP else stopped_by
        raise RuntimeError(f"the step has not ended after {MOST} instructions")
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(fork, signal.SIGKILL)
            while not os.WIFEXITED(status) and not os.WIFSIGNALED(status):
                _, status = os.waitpid(fork, 0)


# Steps of kernels


def _of_world(scene: contact.Scene, method: str) -> Step:
    """The step of a world that has settled."""
    ours = contact.Ours(scene, *contact.METHODS[method])
    return _settled(ours.step)


def _of_local_model(impact: bool) -> Step:
    """The step of a local model on 12 constraints."""
    runner = local_model.Runner(local_model.free_world(), local_model.FEW, impact=impact)

    def step() -> None:
        runner.prepare()
        runner.step()

    return _settled(step)


def _settled(step: Step) -> Step:
    for _ in range(contact.SETTLE):
        step()
    return step


KERNELS: dict[str, Callable[[], Step]] = {
    "penalties, box in a corner with friction": partial(_of_world, contact.corner(0.5), "penalty"),
    "local model on 12 constraints": partial(_of_local_model, False),
    "local model, impact on 12 constraints": partial(_of_local_model, True),
    "Gauss-Seidel, box in a corner with friction": partial(_of_world, contact.corner(0.5), contact.GAUSS_SEIDEL),
    "frictional impulses, tower of 2 boxes": partial(_of_world, contact.tower(2), "frictional_impulses"),
    "exact contacts, tower of 2 boxes": partial(_of_world, contact.tower(2), contact.GAUSS_SEIDEL),
}
"""Steps, mostly of compiled code, ready to be counted."""
