"""Many arrays as one argument of a kernel.

Numba takes 0.13 us for each array that Python hands to a kernel, also for those in a NamedTuple: 8 us for sixty. A
`Packed` is a reference to a NamedTuple (of arrays, numbers and more such tuples) that is unpacked once; handing it over
takes 0.4 us whatever is in it. A kernel reads it as `packed.arrays`:

    class Arrays(NamedTuple):
        x: np.ndarray
        y: np.ndarray

    packed = Packed(Arrays(x, y))  # shares the memory of x and y

    @numba.njit(cache=True, nogil=True)
    def kernel(packed, count):
        x, y = packed.arrays.x, packed.arrays.y
"""

from __future__ import annotations

from typing import Any

import numba
from numba.experimental import structref


@structref.register
class _PackedType(numba.types.StructRef):
    """What kernels know a Packed as."""


class Packed(structref.StructRefProxy):
    """A NamedTuple as one argument of a kernel; it cannot be changed, the contents of its arrays can."""

    def __new__(cls, arrays: Any) -> Packed:
        return _pack(arrays)


structref.define_proxy(Packed, _PackedType, ["arrays"])


@numba.njit(cache=True)
def _pack(arrays):
    return Packed(arrays)
