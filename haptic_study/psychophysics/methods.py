"""The methods of measurement by name: `method_of({"type": "staircase", ...}, seed)`.

A method of another package is named as MODULE:CLASS, a class derived from `MethodParameters`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, ValidationError, model_validator

from haptic_sim.inputs import ParameterError, shown
from haptic_sim.parameters import did_you_mean, explain, quantity
from haptic_study.psychophysics.adaptive import AdaptiveMethod, Level, MethodParameters, replay
from haptic_study.psychophysics.classical import (
    ConstantStimuli,
    ConstantStimuliParameters,
    Interleaved,
    Limits,
    LimitsParameters,
    track_seed,
)
from haptic_study.psychophysics.quest import PsiParameters, QuestPlus, QuestPlusParameters
from haptic_study.psychophysics.staircase import Staircase, StaircaseParameters

__all__ = [
    "METHODS",
    "AdaptiveMethod",
    "ConstantStimuli",
    "ConstantStimuliParameters",
    "Interleaved",
    "InterleavedParameters",
    "Level",
    "Limits",
    "LimitsParameters",
    "MethodParameters",
    "PsiParameters",
    "QuestPlus",
    "QuestPlusParameters",
    "Staircase",
    "StaircaseParameters",
    "method_of",
    "parameters_of",
    "replay",
]


LARGEST_NUMBER = 100  # of methods that are interleaved


def _track(given: Any) -> MethodParameters:
    try:
        return parameters_of(given)
    except ParameterError as error:
        raise ValueError(f".{error.problems[0]}") from None


class InterleavedParameters(MethodParameters):
    """Several methods by turns, so that the next stimulus cannot be foreseen."""

    type: Literal["interleaved"] = "interleaved"
    tracks: tuple[Annotated[MethodParameters, PlainValidator(_track)], ...] = quantity(
        description="The methods, each with its type and parameters"
    )
    order: Literal["random", "alternate"] = quantity("random", description="Order of the methods")

    @model_validator(mode="after")
    def _check(self) -> InterleavedParameters:
        if not 1 <= len(self.tracks) <= LARGEST_NUMBER:
            raise ValueError(f".tracks: {len(self.tracks)} methods; must be 1 to {LARGEST_NUMBER}")
        return self

    def build(self, seed: int) -> AdaptiveMethod:
        """All methods, each with a seed of its own."""
        return Interleaved([one.build(track_seed(seed, i)) for i, one in enumerate(self.tracks)], self.order, seed)


METHODS: dict[str, type[MethodParameters]] = {
    "staircase": StaircaseParameters,
    "quest_plus": QuestPlusParameters,
    "psi": PsiParameters,
    "constant_stimuli": ConstantStimuliParameters,
    "limits": LimitsParameters,
    "interleaved": InterleavedParameters,
}
"""Parameters of the methods of this package, by type."""


def parameters_of(given: Mapping[str, Any] | MethodParameters, prefix: str = "") -> MethodParameters:
    """The validated parameters of a method.

    Args:
        given: `type` and the keys of that type.
        prefix: what stands before the keys in errors, as `task.method.`.

    Raises:
        ParameterError: keys or values that are not acceptable, one line each.
    """
    if isinstance(given, MethodParameters):
        return given
    if not isinstance(given, Mapping):
        raise ParameterError(
            [f"{prefix.removesuffix('.') or 'method'} = {shown(given)}: must be a mapping of keys to values"]
        )
    kind = given.get("type")
    if kind is None:
        raise ParameterError([f"{prefix}type: missing; must be one of {', '.join(METHODS)}"])
    model = METHODS.get(kind) if isinstance(kind, str) else None
    if model is None:
        model = _of_another_package(kind, prefix)
        given = {key: value for key, value in given.items() if key != "type"}
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise ParameterError(explain(error, model, prefix)) from error


def _of_another_package(kind: Any, prefix: str) -> type[MethodParameters]:
    module, colon, name = str(kind).partition(":")
    if not (isinstance(kind, str) and colon):
        hint = did_you_mean(str(kind), METHODS)
        raise ParameterError([f"{prefix}type = {shown(kind)}: unknown method, and not MODULE:CLASS{hint}"])
    try:
        found = getattr(importlib.import_module(module), name)
    except MemoryError:  # of the machine, not of the method
        raise
    except Exception as error:  # whatever the module of someone else raises
        reason = f"cannot be imported: {type(error).__name__}: {error}"
        raise ParameterError([f"{prefix}type = {shown(kind)}: {reason}"]) from error
    if not (isinstance(found, type) and issubclass(found, MethodParameters)):
        raise ParameterError(
            [f"{prefix}type = {shown(kind)}: must be derived from {MethodParameters.__module__}.MethodParameters"]
        )
    return found


def method_of(given: Mapping[str, Any] | MethodParameters, seed: int = 0) -> AdaptiveMethod:
    """A method before its first answer, from a mapping with its `type` and parameters.

    Raises:
        ParameterError: keys or values that are not acceptable, one line each.
    """
    return parameters_of(given).build(seed)
