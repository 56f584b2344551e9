"""The parameters of a trial that can be changed while it runs, with their ranges and the nodes that have them."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

REACH = 10.0  # of a slider, times the value, where the parameter's range is wider
AXES = {3: ("x", "y", "turn"), 6: ("x", "y", "z", "turn x", "turn y", "turn z")}


@dataclass(frozen=True)
class Gain:
    """A parameter that can be changed while the trial runs.

    Attributes:
        nodes: that have it, by their names in the trial.
        key: name of the parameter.
        description, unit: as declared.
        value: a number, several, a truth value or a text.
        low, high: range of a number; of several, of each. The declared one; where it is open, or so wide that a slider
            would be useless, up to REACH times the value.
        declared: the range as declared, in words; empty if there is none.
        choices: of a text.
        acts: whether the trial uses it; of a controller: whether it is not zero.
    """

    nodes: tuple[str, ...]
    key: str
    description: str
    unit: str
    value: Any
    low: float = 0.0
    high: float = 1.0
    declared: str = ""
    choices: tuple[str, ...] = ()
    acts: bool = True

    @property
    def section(self) -> str:
        """The section of the experiment that has it, with the hand, as in `left: controller`."""
        hand, section = self.nodes[0].rpartition("/")[0], self.key.rpartition(".")[0]
        return f"{hand}: {section}" if hand else section

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the values of a parameter that has several; one without a name of any other."""
        match self.value:
            case tuple():
                return AXES.get(len(self.value), tuple(map(str, range(len(self.value)))))
        return ("",)

    @property
    def several(self) -> bool:
        """Whether the gain has several values."""
        return self.parts != ("",)

    def read(self, value: Any) -> Any:
        """A value of it, of which a message or JSON has a list where there are several, as `value` has it."""
        return tuple(value) if self.several else value


def live_gains(section: BaseModel, prefix: str, nodes: tuple[str, ...]) -> Iterator[Gain]:
    """The gains of a section, whose keys begin with a prefix; `nodes` have it."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        match value, field.json_schema_extra:
            case BaseModel(), _:
                yield from live_gains(value, f"{prefix}{name}.", nodes)
            case _, {"live": True, **extra}:
                gain = _gain(field, value, prefix + name, nodes, str(extra.get("unit", "")))
                if gain is not None:
                    yield gain


def _gain(field: FieldInfo, value: Any, key: str, nodes: tuple[str, ...], unit: str) -> Gain | None:
    """The gain of a field; None if its value has no control."""
    given = nodes, key, field.description or "", unit, value
    match value:
        case bool():
            return Gain(*given)
        case str():
            choices = typing.get_args(field.annotation)
            return Gain(*given, choices=tuple(map(str, choices))) if value in choices else None
        case float() | int():
            most = abs(value)
        case tuple() if 1 <= len(value) <= 6 and {type(one) for one in value} == {float}:
            most = max(map(abs, value))
        case _:
            return None
    low, high = _range(field)
    reach = REACH * most if most > 0.0 else 1.0
    shown = f"{'' if low is None else format(low, 'g')} to {'' if high is None else format(high, 'g')}".strip()
    declared = "" if low is None and high is None else shown
    least = 0.0 if low is None else float(low)
    return Gain(
        *given, low=least, high=max(least, reach if high is None else min(float(high), reach)), declared=declared
    )


def _range(field: FieldInfo) -> tuple[float | None, float | None]:
    low = high = None
    for item in field.metadata:
        low = getattr(item, "ge", getattr(item, "gt", low))
        high = getattr(item, "le", getattr(item, "lt", high))
    return low, high
