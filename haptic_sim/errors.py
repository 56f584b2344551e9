"""The root of all errors that this package raises on purpose."""

from __future__ import annotations

import copyreg
from typing import Any


class HapticsError(Exception):
    """Something cannot be done; the text says what was found, what is allowed, and what to do."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is: Python would make it again of its text, which is not what most take."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]
