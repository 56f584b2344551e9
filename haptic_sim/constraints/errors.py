"""The error of a constraint that cannot be used, with its name, its residual and the rule."""

from __future__ import annotations


class ConstraintError(ValueError):
    """A constraint or a state that cannot be used; the message names it and gives the residual or the shape."""
