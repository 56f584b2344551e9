"""Many arrays as one argument of a kernel.

Numba takes 0.13 us for each array that Python hands to a kernel, also for those in a NamedTuple: 8 us for sixty. A
`Packed` is a reference to a NamedTuple (of arrays, numbers, more such tuples and other Packed) that is unpacked once;
handing it over takes 0.4 us whatever is in it. A kernel reads it as `packed.arrays`:

    class Arrays(NamedTuple):
        x: np.ndarray
        y: np.ndarray

    packed = Packed(Arrays(x, y))  # shares the memory of x and y

    @kernel
    def kernel(packed, count):
        x, y = packed.arrays.x, packed.arrays.y

`packed.arrays` and the tuples in it are references too: a kernel that passes one to another passes an address, and only
the named fields are read. Arrays are borrowed: their references are not counted, which took most of the time of small
kernels (0.5 us for each access to a tuple of a hundred arrays). A kernel must not return one.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr,
    lower_getattr_generic,
    models,
    overload,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import as_dtype


class Packed(int):
    """A NamedTuple as one argument of a kernel; it cannot be changed, the contents of its arrays can.

    Its value is its address, so that a kernel finds that without asking Python for an attribute.
    """

    _numba_type_: _PackedType
    _memory: bytes
    lent: Any

    def __new__(cls, arrays: Any) -> Packed:
        shape = _shape(arrays)
        if shape not in _known:
            kind = numba.typeof(arrays)
            _known[shape] = _PackedType(kind), struct.Struct(_layout(kind))
        kind, layout = _known[shape]
        memory = layout.pack(*_content(arrays))
        self = super().__new__(cls, np.frombuffer(memory, np.uint8).ctypes.data)
        self._numba_type_, self._memory = kind, memory
        self.lent = arrays  # lives as long as this does
        return self

    @property
    def arrays(self) -> Any:
        """The tuple as kernels have it, for a kernel that others call with theirs: another type would be compiled."""
        return _Reference(self)


class _Reference(int):
    """The tuple of a Packed: for kernels its address, for Python its fields."""

    _numba_type_: _Borrowed
    _packed: Packed

    def __new__(cls, packed: Packed) -> _Reference:
        self = super().__new__(cls, packed)
        self._numba_type_, self._packed = _Borrowed(packed._numba_type_.kind), packed
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._packed.lent, name)


def _shape(value: Any) -> Any:
    """Key that determines the kind of a value, hashable."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, Packed):
        return value._numba_type_
    if isinstance(value, tuple):
        return type(value), *map(_shape, value)
    return type(value)


# Kind and layout by shape: Numba's own way to a kind takes 10 us an array, in the middle of a trial when a parameter is
# changed.
_known: dict[Any, tuple[_PackedType, struct.Struct]] = {}


def _layout(kind: Any) -> str:
    """Memory layout of a value of a kind in compiled code, as a format of `struct`: as C has structures."""
    if isinstance(kind, types.BaseTuple):
        members = "".join(map(_layout, kind.types))  # type: ignore[attr-defined]
        widest = max(members.replace("0", ""), key=struct.calcsize)
        return f"0{widest}{members}0{widest}"  # aligned as its widest member is, also what follows it
    if isinstance(kind, types.Array):
        return "q" * (5 + 2 * kind.ndim)  # see `_content`
    if isinstance(kind, (types.NoneType, _PackedType)):
        return "q"
    return str(as_dtype(kind).char)


def _content(value: Any) -> Iterator[Any]:
    """The numbers that a value is in memory; an array is not counted by compiled code, and has no owner there."""
    if isinstance(value, tuple):
        for one in value:
            yield from _content(one)
    elif isinstance(value, np.ndarray):
        yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
    else:
        yield 0 if value is None else value


class _PackedType(types.Type):
    """Numba type of a Packed: the address of a tuple of this kind."""

    def __init__(self, kind: Any):
        self.kind = kind
        super().__init__(name=f"packed({kind})")


class _Borrowed(types.Type):
    """A tuple in the memory of a Packed: its address."""

    def __init__(self, kind: Any):
        self.kind = kind
        super().__init__(name=f"borrowed({kind})")


register_model(_PackedType)(models.OpaqueModel)
register_model(_Borrowed)(models.OpaqueModel)


# How Python hands one over


@typeof_impl.register(_Reference)
@typeof_impl.register(Packed)
def _typeof(value: Any, context: Any) -> Any:
    return value._numba_type_  # and not that of an integer


@unbox(_Borrowed)
@unbox(_PackedType)
def _unbox(kind: Any, value: Any, c: Any) -> NativeValue:
    return NativeValue(c.pyapi.long_as_voidptr(value))


# How kernels read it


def _read_as(kind: Any) -> Any:
    """Type of a member for kernels."""
    return _Borrowed(kind) if isinstance(kind, types.BaseTuple) else kind


def _member(context: Any, builder: Any, whole: Any, kind: Any, address: Any, index: Any) -> Any:
    """Read the member at an index, which is of a kind, of a tuple `whole` at an address."""
    pointer = builder.bitcast(address, context.get_value_type(whole).as_pointer())
    pointer = builder.gep(pointer, [ir.Constant(ir.IntType(32), 0), index], inbounds=True)
    if isinstance(kind, types.BaseTuple):
        return builder.bitcast(pointer, cgutils.voidptr_t)
    value = builder.load(pointer)
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)  # of null, no references are counted
        array.parent = cgutils.get_null_value(array.parent.type)
        value = array._getvalue()
    return value


@infer_getattr
class _PackedAttributes(AttributeTemplate):
    key = _PackedType

    def resolve_arrays(self, packed: Any) -> Any:
        return _read_as(packed.kind)


@lower_getattr(_PackedType, "arrays")
def _arrays(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return value


@infer_getattr
class _BorrowedAttributes(AttributeTemplate):
    key = _Borrowed

    def generic_resolve(self, borrowed: Any, name: str) -> Any:  # type: ignore[override]  # declared as NotImplemented
        kind = borrowed.kind
        fields = getattr(kind, "fields", ())
        return _read_as(kind.types[fields.index(name)]) if name in fields else None


@lower_getattr_generic(_Borrowed)
def _field(context: Any, builder: Any, borrowed: Any, value: Any, name: str) -> Any:
    kind = borrowed.kind
    index = kind.fields.index(name)
    return _member(context, builder, kind, kind.types[index], value, ir.Constant(ir.IntType(32), index))


@intrinsic
def _item(typing, borrowed, index):
    """One of several members of the same kind."""

    def build(context, builder, signature, arguments):
        kind = signature.args[0].kind
        return _member(context, builder, kind, kind.dtype, *arguments)

    return _read_as(borrowed.kind.dtype)(borrowed, index), build


@overload(operator.getitem)
def _getitem(borrowed, index):
    if isinstance(borrowed, _Borrowed) and isinstance(borrowed.kind, types.UniTuple):
        return lambda borrowed, index: _item(borrowed, index)  # type: ignore[call-arg]  # as above
    return None
