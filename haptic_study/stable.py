"""Random numbers that depend on their labels alone: on no state, no version of a library, no order of calls."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np


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
