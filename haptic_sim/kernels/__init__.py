"""Kernels: functions that Numba compiles, which run in each tick.

    from haptic_sim.kernels import kernel

    @kernel
    def scale(values, factor):
        for i in range(values.shape[0]):
            values[i] *= factor

`@kernel(error_model="numpy")` takes the options of `numba.njit`. A kernel runs without Python's lock, and its compiled
code is kept on disk for later processes (cache.py). Kernels of any package can be defined in this way.

A kernel is an object of a subclass of Numba's dispatcher (dispatcher.py): nothing of Numba is changed for others. Code
that is compiled by `numba.njit` may call kernels. It gets a copy of a short kernel, and calls a long one by its
address; as addresses are those of one process, Numba then does not keep the caller's code (`cache=True` has no effect,
and Numba says so).

Two environment variables choose another mode for a whole process, with the same results in every bit:

 - HAPTICS_PLAIN_NUMBA=1: a kernel is a plain `numba.njit(cache=True, nogil=True)`. Compiling takes several times as
   long. This is also the mode where Numba lacks a part of its inside that dispatcher.py needs (numba_inside.py);
 - NUMBA_DISABLE_JIT=1: a kernel is the Python function, for a debugger. It takes a thousand times as long.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from haptic_sim.kernels import numba_inside

IN_PYTHON = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]  # which Numba reads from its environment
"""Whether kernels are Python functions in this process."""

_python_at: dict[int, Callable[..., object]] = {}


def _is_plain() -> bool:
    if os.environ.get("HAPTICS_PLAIN_NUMBA", "0") not in ("", "0"):
        return True
    if lacking := numba_inside.lacking():
        warnings.warn(
            f"Numba {numba.__version__} has no {', '.join(lacking)}: kernels are compiled by Numba alone, which takes "
            "several times as long; use a version of Numba that requirements.in allows",
            RuntimeWarning,
            stacklevel=3,
        )
    return bool(lacking)


if IN_PYTHON:

    def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
        function.py_func = function  # type: ignore[attr-defined]  # as that of a compiled kernel is called
        return function

elif _is_plain():

    def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
        # LLVM copies short functions by itself; copies that Numba makes would take minutes to compile here
        options = {name: value for name, value in options.items() if name != "inline"}
        return numba.njit(cache=True, nogil=True, **options)(function)

else:
    from haptic_sim.kernels.dispatcher import Kernel

    def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
        return Kernel(function, targetoptions=options)


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a function that is compiled at its first call, or loaded if an earlier process has compiled it.

    Args:
        options: of `numba.njit`.
    """
    if function is None:
        return lambda function: _compiled(function, options)
    return _compiled(function, options)


def bind(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """The compiled code of a kernel for arguments of the types of these.

    A call of it with four Packed and two numbers takes 0.09 us: the kernel itself takes 0.35 us more for each Packed,
    in which Numba finds out what it is. Nothing checks the types of later arguments.
    """
    code: Callable[..., Any] = kernel if IN_PYTHON else kernel.compile(tuple(map(numba.typeof, arguments)))
    return code


def address_of(kernel: Any, arguments: tuple[Any, ...]) -> int:
    """Address of the compiled code of a kernel for types of arguments; it is valid as long as the kernel lives."""
    if IN_PYTHON:
        _python_at[id(kernel)] = kernel
        return id(kernel)
    kernel.compile(arguments)
    result = kernel.overloads[arguments]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Code of a call of the kernel at an address; the further arguments are a tuple."""
    kinds = tuple(signature.args[1])
    convention = context.call_conv
    function = builder.inttoptr(arguments[0], convention.get_function_type(types.none, kinds).as_pointer())
    convention.call_function(builder, function, types.none, kinds, cgutils.unpack_tuple(builder, arguments[1]))
    return context.get_dummy_value()


@intrinsic
def _call_compiled(typing, address, *arguments):
    return types.void(address, types.StarArgTuple(arguments)), _call


def call_at(address: int, *arguments: Any) -> None:
    """Call the kernel at an address, of `address_of`, from a kernel; it returns nothing."""
    _python_at[address](*arguments)


if not IN_PYTHON:
    call_at = _call_compiled  # type: ignore[assignment]  # as kernels call it


def prefetch(array: Any, index: int) -> None:
    """Have the processor fetch an element of an array into its cache, from a kernel: later reads take less time."""


def _fetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Code of a prefetch (LLVM Language Reference, llvm.prefetch)."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.bitcast(builder.gep(array.data, [arguments[1]]), cgutils.voidptr_t)
    number = cgutils.int32_t
    kinds = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
    fetch = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kinds)
    builder.call(fetch, [place, *map(number, (0, 3, 1))])  # to read, into all caches, data
    return context.get_dummy_value()


@intrinsic
def _prefetch_compiled(typing, array, index):
    return types.void(array, types.intp), _fetch


if not IN_PYTHON:
    prefetch = _prefetch_compiled  # type: ignore[assignment]  # as kernels call it
