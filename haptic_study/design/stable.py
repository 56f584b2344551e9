"""Random numbers that depend on their labels alone: on no state, no version of a library, no order of calls.

They are digests (SHA-256) of the labels. What is written in lists, texts and numbers differs: ("ab", "c") is not
("a", "bc"), and 1 not "1".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def _hashed(labels: tuple[Any, ...]) -> int:
    text = json.dumps(labels, ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def seed(*labels: Any) -> int:
    """A seed of 63 bits of labels: texts, numbers, or lists of these."""
    return _hashed(labels) >> 1


def uniform(*labels: Any) -> float:
    """A number from 0 to below 1 of labels, with 53 bits."""
    return (_hashed(labels) >> 11) / (1 << 53)


def choice(count: int, *labels: Any) -> int:
    """A whole number from 0 to below `count`."""
    return min(int(uniform(*labels) * count), count - 1)


def generator(*labels: Any) -> np.random.Generator:
    """A generator of random numbers of labels."""
    return np.random.Generator(np.random.PCG64(_hashed(labels)))


class Choices:
    """Random choices for a purpose.

    Args:
        labels: of the purpose, as seed, study and participant: all that the choices depend on.
    """

    def __init__(self, *labels: Any):
        self._labels = labels

    def number(self, index: int) -> float:
        """Number `index` of the purpose, uniform in [0, 1)."""
        return uniform(*self._labels, index)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order, each order equally probable (Fisher and Yates; Durstenfeld 1964)."""
        result = list(items)
        for i in range(len(result) - 1, 0, -1):
            j = int(self.number(i) * (i + 1))
            result[i], result[j] = result[j], result[i]
        return result
