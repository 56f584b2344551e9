"""Compilation of kernels, and their interface for callers.

Numba copies into a function the optimised code of all functions that it calls, and optimises it again: the time for
this grows with the square of the depth of calls. So a kernel whose code is longer than COPIED is not copied into other
kernels: they have only its symbol, as objects of a C program do (`Link`). This does not change the results of kernels
in any bit, because the compiler may not reorder arithmetic. A caller that is not a kernel calls it by its address.

A kernel has one version for a number, also where another kernel calls it with a constant: Numba would compile one for
each constant, and one more for variables. The compiler puts the constant into a copied kernel in any case.

The symbols of a kernel contain the digest that its code is kept under (cache.py). Numba numbers the functions that a
process compiles instead, so that functions of two processes can have one symbol; what a kernel takes over from such
functions gets the digest of the kernel, too.
"""

from __future__ import annotations

import re
import uuid
from functools import partial
from types import MappingProxyType
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import sigutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.registry import CPUDispatcher

from haptic_sim.kernels import digest, numba_inside
from haptic_sim.kernels.cache import KernelCache, Link

_NUMBERED = re.compile(r"B\d+v\d+")  # in a symbol that Numba has numbered

ALWAYS = {"nopython": True, "boundscheck": None, "nogil": True}  # options
WITHOUT = {"no_cfunc_wrapper": True}  # which would be for calls from C, of which there are none


class Kernel(CPUDispatcher):
    """A function that is compiled, or loaded, for the types of arguments with which it is called."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = MappingProxyType({})):
        options = ALWAYS | WITHOUT | dict(targetoptions)
        compiler: Any = partial(_Compiler, self)
        super().__init__(py_func, locals, options, pipeline_class=compiler)
        digest.packages.add(py_func.__module__.partition(".")[0])
        self.enable_caching()

    def enable_caching(self) -> None:
        """Keep what is compiled."""
        self._cache = KernelCache(self)

    def library(self, codegen: Any, name: str, machine_code: bytes, bitcode: bytes) -> KernelLibrary:
        """A library that was compiled by another process."""
        library = KernelLibrary(codegen, name)
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._shared_module = llvmlite.binding.parse_bitcode(bitcode) if bitcode else None
        library._finalize_final_module()
        return library

    def compile(self, sig: Any) -> Any:
        """The version for a signature: one that exists, is kept, or is now compiled."""
        arguments, _ = sigutils.normalize_signature(sig)
        with global_compiler_lock:
            existing: Any = self.overloads.get(tuple(arguments))
            if existing is not None:
                return existing.entry_point
            # Outside of Numba's own function, which measures each call of LLVM, once more for each kernel that is being
            # loaded: that would take longer than loading.
            free: bool = self._can_compile  # type: ignore[attr-defined]  # of its base in C
            result = self._cache.load(sig, self.targetctx) if free else None
            if result is None:
                with self._cache.exclusively(sig, self.targetctx), numba_inside.hastened():
                    return super().compile(sig)
            self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
            self.add_overload(result)
            return result.entry_point

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Template that a caller calls: the same for a constant and a variable."""
        arguments = tuple(map(types.unliteral, args))
        return super().get_call_template(arguments, {name: types.unliteral(kind) for name, kind in kws.items()})


class _Compiler(Compiler):
    """Numba's compiler, with a symbol and a library of our own."""

    def __init__(self, kernel: Kernel, *arguments: Any):
        super().__init__(*arguments)
        self._kernel = kernel

    def define_pipelines(self) -> Any:
        """Called when a compilation begins."""
        tag = self._kernel._cache.tag(self.state.args, self.state.targetctx.codegen()) or uuid.uuid4().hex
        identity = self.state.func_id
        identity.unique_id = f"k{tag}"
        self.state.library = KernelLibrary(self.state.targetctx.codegen(), identity.func_qualname, tag)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class KernelLibrary(JITCodeLibrary):
    """The compiled code of a kernel.

    Attributes:
        links: the kernels that it calls by their symbols.
        link: how kernels call this one by its symbol; None: they have a copy.
    """

    links: tuple[Link, ...] = ()
    link: Link | None = None

    def __init__(self, codegen: Any, name: str, tag: str = ""):
        super().__init__(codegen, name)
        self._tag = tag
        self._kernels: dict[KernelLibrary, None] = {}  # that it calls, in order
        self._environments: list[Any] = []

    def add_linking_library(self, library: Any) -> None:
        """Let this code call that of a library."""
        if not isinstance(library, KernelLibrary):
            super().add_linking_library(library)
        elif library is not self:
            self._kernels[library] = None

    def _optimize_final_module(self) -> None:
        for library in self._kernels:
            self._reload_init |= library._reload_init
            self.links += (library.link,) if library.link else library.links
            if not library.link:
                self._final_module.link_in(library.copy(), preserve=True)
        self.links = tuple(dict.fromkeys(self.links))
        self._rename()
        super()._optimize_final_module()

    def _rename(self) -> None:
        """Give what was taken over from numbered functions a name that no other library has."""
        module = self._final_module
        for one in [*module.functions, *module.global_variables]:
            if one.is_declaration or self._tag in one.name or not _NUMBERED.search(one.name):
                continue
            environment = lookup_environment(one.name)
            one.name = f"{one.name}.{self._tag}"
            if environment is not None:
                renamed = Environment(environment.globals)
                renamed.consts[:], renamed.env_name = environment.consts, one.name
                Environment._memo[one.name] = renamed
                self._environments.append(renamed)

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for environment in self._environments:
            self.codegen.set_env(environment.env_name, environment)

    def copy(self) -> Any:
        """The module that kernels link in which have a copy."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """Module that other callers than kernels link in: a copy, with a jump to the address of each needed symbol.

        Numba sees that there is an address, and does not keep what contains it.
        """
        links = (self.link,) if self.link else self.links
        if not links:
            return self.copy()
        jumps = _jumps(links, self.codegen)
        if self.link:
            return jumps
        module = self.copy().clone()
        module.link_in(jumps)  # LLVM takes over what the module calls: not the other way round, where nothing is called
        return module


def _jumps(links: tuple[Link, ...], codegen: Any) -> Any:
    """A module with a function for each symbol, which calls the kernel at its address."""
    module = codegen._create_empty_module("jumps")
    for link in links:
        result = link.result()
        context = result.target_context
        kind = context.call_conv.get_function_type(result.fndesc.restype, result.fndesc.argtypes)
        function = ir.Function(module, kind, link.symbol)
        function.linkage = "linkonce_odr"
        builder = ir.IRBuilder(function.append_basic_block())
        address = result.library.get_pointer_to_function(link.symbol)
        target = builder.bitcast(context.add_dynamic_addr(builder, address, info=link.name), kind.as_pointer())
        builder.ret(builder.call(target, function.args))
    return llvmlite.binding.parse_assembly(str(module))
