"""Random choices of a study: the same for the same seed and purpose, in any version of Python or NumPy.

The numbers are those of `haptic_sim.random_numbers`: one stream for each purpose, one number for each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from haptic_sim.random_numbers import stream, uniform

T = TypeVar("T")


class Choices:
    """Random choices for a purpose.

    Args:
        seed: of the study.
        purpose: what is chosen, with all that the choice depends on; different purposes are independent.
    """

    def __init__(self, seed: int, *purpose: str | int):
        # the length before each part, so that no two lists of parts are one text
        source = "".join(f"{len(str(part))}:{part}" for part in purpose)
        self._stream = np.uint64(stream(seed, source))

    def number(self, index: int) -> float:
        """Number `index` of the stream, uniform in [0, 1)."""
        return float(uniform(self._stream, index))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order, each order equally probable (Fisher and Yates; Durstenfeld 1964)."""
        result = list(items)
        for i in range(len(result) - 1, 0, -1):
            j = int(self.number(i) * (i + 1))
            result[i], result[j] = result[j], result[i]
        return result
