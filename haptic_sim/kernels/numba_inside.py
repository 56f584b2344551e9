"""Parts of Numba beyond its documented interface that kernels use, by name; and a compiler without needless work.

Each name is checked when kernels are imported: where one is missing, kernels are compiled by Numba alone. Names that
begin with an underscore or are assigned in `__init__` belong to the objects of a class.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

NAMES = {
    "numba.core.base": "BaseContext.add_dynamic_addr BaseContext.insert_user_function",
    "numba.core.bytecode": "FunctionIdentity.from_function",
    "numba.core.cgutils": "unpack_tuple",
    "numba.core.codegen": (
        "CPUCodegen._create_empty_module CPUCodegen._engine CPUCodegen.magic_tuple CPUCodeLibrary._final_module "
        "CPUCodeLibrary._finalize_final_module CPUCodeLibrary._get_module_for_linking "
        "CPUCodeLibrary._optimize_final_module CPUCodeLibrary._shared_module CPUCodeLibrary.add_linking_library "
        "CodeLibrary._get_compiled_object CodeLibrary._reload_init CodeLibrary._set_compiled_object "
        "CodeLibrary.codegen CodeLibrary.enable_object_caching CodeLibrary.has_dynamic_globals JITCPUCodegen.set_env "
        "JITCodeLibrary JITCodeLibrary._finalize_specific JITCodeLibrary.get_pointer_to_function "
        "JitEngine._defined_symbols"
    ),
    "numba.core.compiler": (
        "CompileResult._find_referenced_environments Compiler Compiler.define_pipelines CompilerBase.state "
        "compile_result"
    ),
    "numba.core.compiler_lock": "global_compiler_lock",
    "numba.core.cpu": "CPUContext.call_conv CPUContext.get_executable",
    "numba.core.dispatcher": (
        "Dispatcher Dispatcher._cache Dispatcher.add_overload Dispatcher.compile Dispatcher.enable_caching "
        "Dispatcher.get_call_template Dispatcher.targetctx Dispatcher.targetoptions _DispatcherBase.overloads "
        "_DispatcherBase.py_func"
    ),
    "numba.core.environment": (
        "Environment Environment._memo Environment.env_name Environment.consts Environment.globals lookup_environment"
    ),
    "numba.core.funcdesc": (
        "FunctionDescriptor.argtypes FunctionDescriptor.llvm_cpython_wrapper_name FunctionDescriptor.llvm_func_name "
        "FunctionDescriptor.restype"
    ),
    "numba.core.registry": "CPUDispatcher",
    "numba.core.runtime": "rtsys rtsys.initialize",
    "numba.core.serialize": "dumps",
    "numba.core.sigutils": "normalize_signature",
    "numba.core.types": "BaseNamedTuple Dispatcher StarArgTuple unliteral",
    "numba.core.types.functions": "BaseFunction BaseFunction.get_call_type",
    "numba.core.typing.templates": "builtin_registry builtin_registry.globals",
    "numba.extending": "_Intrinsic _Intrinsic._defn",
}


def lacking() -> list[str]:
    """The names that this version of Numba does not have."""
    return [f"{module}.{name}" for module, names in NAMES.items() for name in names.split() if not _has(module, name)]


def _has(module: str, name: str) -> bool:
    try:
        owner = importlib.import_module(module)
    except ImportError:
        return False
    for part in name.split("."):
        if not hasattr(owner, part):
            return any(part in _assigned(kind) for kind in getattr(owner, "__mro__", ()))
        owner = getattr(owner, part)
    return True


def _assigned(kind: type) -> tuple[str, ...]:
    """The names that the methods with which an object begins assign to it."""
    begin: list[Any] = [vars(kind).get(name) for name in ("__init__", "_init")]
    return sum((one.__code__.co_names for one in begin if hasattr(one, "__code__")), ())


_depth = 0  # of kernels that are being compiled, one because of another
_found: dict[Any, Any] = {}  # what an operation on numbers gives, by operation and types


@contextlib.contextmanager
def hastened() -> Iterator[None]:
    """Spare the compiler what takes more than half of its time, and changes nothing of the arithmetic.

    Everything is as before afterwards. To be entered under Numba's lock of the compiler, for which others wait.
    """
    global _depth
    if _depth:
        yield
        return
    _depth, before = 1, []
    try:
        for owner, name, value in _replacements():
            before.append((owner, name, vars(owner)[name]))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)
        _depth = 0


@cache
def _replacements() -> list[tuple[Any, str, Any]]:
    """Replacements during the compilation of a kernel: owner, name, value.

    Numba tells the sizes in the error of an assignment to a slice of another size: making a text of numbers takes the
    compiler 2 s, and is then in the code of each kernel. And for each place where two numbers are added, it searches
    all that it knows of an addition, NumPy's first, and looks at the signature of what it finds: here once for an
    operation and its types, and once for a function.
    """
    from numba.core import base, types
    from numba.core.types.functions import BaseFunction
    from numba.core.typing.templates import builtin_registry
    from numba.np import arrayobj  # as the compiler does; what only loads kernels is spared it

    numbas = BaseFunction.get_call_type
    numbers = (types.Number, types.Boolean)

    def get_call_type(self: Any, context: Any, arguments: Any, keywords: Any) -> Any:
        if keywords or not all(isinstance(one, numbers) for one in arguments):
            return numbas(self, context, arguments, keywords)
        key = self, tuple(arguments)
        if key not in _found:
            _found[key] = numbas(self, context, arguments, keywords)
        return _found[key]

    replaced: list[tuple[Any, str, Any]] = [(BaseFunction, "get_call_type", get_call_type)]
    if hasattr(base, "_has_loc"):  # neither this nor the next is in every version of Numba
        replaced.append((base, "_has_loc", cache(base._has_loc)))
    constant = getattr(arrayobj, "ol_raise_with_shape_context_generic", None)
    for function, kind in builtin_registry.globals:
        if constant is not None and function is arrayobj.raise_with_shape_context:
            for template in kind.templates:  # with what it has compiled, which is not for others
                replaced.append((template, "_overload_func", staticmethod(constant)))
                replaced += [(template, name, {}) for name in ("_impl_cache", "_compiled_overloads")]
    return replaced
