"""Parameters as data: declared once with type, default, bounds, unit and description; frozen once valid.

Every core takes its parameters as one frozen object derived from `Parameters`. The experiment file, the ROS
parameters of the nodes and the error messages all come from these declarations.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Annotated, Any, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)


class Parameters(BaseModel):
    """Base of all parameter objects: unknown keys, NaN and infinities are refused, values cannot change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, data: Any) -> Any:
        """Refuse true and false where a number is meant: pydantic would read them as 1 and 0."""
        if isinstance(data, dict):
            for name, value in data.items():
                field = cls.model_fields.get(name)
                if field is None or field.annotation is bool:
                    continue
                places = (
                    {f"[{i}]": item for i, item in enumerate(value)} if isinstance(value, list | tuple) else {"": value}
                )
                for place, item in places.items():
                    if isinstance(item, bool):
                        raise ValueError(f".{name}{place} = {str(item).lower()}: must not be true or false")
        return data


class ParameterError(ValueError):
    """One or more parameters are not acceptable; `problems` holds one line for each."""

    def __init__(self, problems: Iterable[str]):
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


def quantity(default: Any = ..., *, unit: str = "", description: str, live: bool = False, **bounds: Any) -> Any:
    """Declare a parameter: default (required when left out), unit, description, bounds (gt, ge, lt, le).

    A `live` one may be changed while a node runs; the change takes effect between two messages.
    """
    return Field(default, description=description, json_schema_extra={"unit": unit, "live": live}, **bounds)


def _three_or_six(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) not in (3, 6):
        raise ValueError(f"has {len(values)} values: must have 3 (x, y, rotation about z) or 6")
    return values


def _not_negative(values: tuple[float, ...]) -> tuple[float, ...]:
    for i, value in enumerate(values):
        if not 0.0 <= value < math.inf:
            raise ValueError(f"[{i}] = {value:g}: must be >= 0")
    return values


def _positive(values: tuple[float, ...]) -> tuple[float, ...]:
    for i, value in enumerate(values):
        if not 0.0 < value < math.inf:
            raise ValueError(f"[{i}] = {value:g}: must be > 0")
    return values


Gains = Annotated[tuple[float, ...], AfterValidator(_three_or_six), AfterValidator(_not_negative)]
"""Diagonal gains or limits: (x, y, rotation about z) of a planar device, or all six directions."""

PositivePair = Annotated[tuple[float, float], AfterValidator(_positive)]
PositiveTriple = Annotated[tuple[float, float, float], AfterValidator(_positive)]
NotNegativePair = Annotated[tuple[float, float], AfterValidator(_not_negative)]
Wrench = tuple[float, float, float, float, float, float]


def six(values: Iterable[float]) -> tuple[float, ...]:
    """Spread planar values (x, y, rotation about z) over the six directions of a wrench; six stay six."""
    values = tuple(values)
    return values if len(values) == 6 else (values[0], values[1], 0.0, 0.0, 0.0, values[2])


_BOUNDS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "<="),
}
_NEEDS = {
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "finite_number": "finite",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[str]:
    """Say each problem of a validation error in one line: key, what was found, what is allowed."""
    return [_explain_one(problem, model, prefix) for problem in error.errors()]


def _explain_one(problem: Any, model: type[BaseModel], prefix: str) -> str:
    location, field, owner = _locate(problem["loc"], model)
    key = prefix + location
    unit = (field.json_schema_extra or {}).get("unit", "") if field is not None else ""
    found = problem.get("input")
    shown = f"{key} = {_show(found)}" + (f" {unit}" if unit and isinstance(found, int | float) else "")
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{key}: unknown key" + _suggest(location.rpartition(".")[2], owner)
    if kind == "missing":
        return f"{key}: missing" + (f" ({field.description})" if field is not None else "")
    if kind in _BOUNDS:
        name, sign = _BOUNDS[kind]
        return f"{shown}: must be {sign} {context[name]:g}" + (f" {unit}" if unit else "")
    if kind == "literal_error":
        return f"{shown}: must be {context['expected']}"
    if kind == "union_tag_invalid":
        tag = str(context["discriminator"]).strip("'")
        return f"{key}.{tag} = {context['tag']}: must be one of {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"{key}: missing the key {context['discriminator']}"
    if kind in _NEEDS:
        return f"{shown}: must be {_NEEDS[kind]}"
    if kind in ("too_long", "too_short") or kind.startswith("tuple_"):
        return f"{shown}: must have {context.get('max_length', context.get('min_length'))} values"
    if kind == "value_error":
        text = str(context["error"])
        if text[0] in "[.":  # an index or a name that goes on the key
            return f"{key}{text}".lstrip(".")
        return f"{shown if field is not None else key}: {text}"
    return f"{shown}: {problem['msg']}"


def _locate(loc: tuple[Any, ...], model: Any) -> tuple[str, Any, Any]:
    """Dotted key of a pydantic location, the field declared there, and the model that owns the last name.

    Pydantic puts the tag of a variant into the location; a tag names no key and is left out.
    """
    key = ""
    field: Any = None
    owner: Any = model
    named = False  # whether the name of an entry comes next, the field being a mapping
    for part in loc:
        if isinstance(part, int):
            key += f"[{part}]"
            continue
        if named:
            key += f".{part}"
            named = False
            continue
        variants: dict[str, Any] = _variants(field) if field is not None else {}
        if part in variants:
            owner = variants[part]
            continue
        if field is not None and not variants:
            owner = _entry(field)[0]
        field = getattr(owner, "model_fields", {}).get(part)
        named = field is not None and get_origin(field.annotation) is dict
        key += f".{part}" if key else str(part)
    return key, field, owner


def _entry(field: Any) -> tuple[Any, str | None]:
    """What a field takes, or each entry of its list or mapping, and the discriminator of that."""
    annotation, discriminator = field.annotation, field.discriminator
    while (origin := get_origin(annotation)) in (Annotated, dict, tuple, list):
        if origin is Annotated:
            for note in annotation.__metadata__:
                discriminator = getattr(note, "discriminator", None) or discriminator
        annotation = get_args(annotation)[1 if origin is dict else 0]
    return annotation, discriminator


def _variants(field: Any) -> dict[str, Any]:
    """The variants of a discriminated field, or of its entries, by tag; empty for other fields."""
    annotation, discriminator = _entry(field)
    if discriminator is None:
        return {}
    members = getattr(annotation, "__args__", ())
    return {tag: member for member in members for tag in _tags(member, discriminator)}


def _tags(member: Any, discriminator: str) -> tuple[str, ...]:
    return getattr(member.model_fields[discriminator].annotation, "__args__", ())


def variant_of(model: Any, name: str, tag: str | None) -> type[BaseModel] | None:
    """The parameter class that `model`'s discriminated field `name` takes for `tag`, None if there is none."""
    field = getattr(model, "model_fields", {}).get(name)
    return _variants(field).get(tag) if field is not None and tag is not None else None


def _suggest(name: str, owner: Any) -> str:
    known = list(getattr(owner, "model_fields", {}))
    near = difflib.get_close_matches(name, known, n=1)
    return (f"; did you mean {near[0]}?" if near else "") + f" (known: {', '.join(known)})"


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_show(item) for item in value) + "]"
    return str(value)
