"""Parameters as data: declared once with type, default, bounds, unit and description; frozen once valid.

Every core takes its parameters as one frozen object derived from `Parameters`. The experiment file, the ROS
parameters of the nodes and the error messages all come from these declarations.
"""

from __future__ import annotations

import difflib
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from haptic_sim import inputs
from haptic_sim.inputs import ParameterError as ParameterError

# Sizes of numbers in each unit: what must be positive is not smaller than the first, nothing is larger than the second,
# unless it is declared with wider bounds. Far beyond what haptics has, and far from where floating point ends.
_SIZES = {
    "m": (1e-9, 1e6),
    "rad": (1e-9, 1e6),
    "deg": (1e-9, 1e6),
    "s": (1e-6, 1e9),
    "Hz": (1e-3, 1e6),
    "kg": (1e-9, 1e9),
    "kg m^2": (1e-18, 1e12),
}
_OTHER_SIZES = (1e-12, inputs.LARGEST)
_LARGEST_COUNT = 2**63 - 1  # what a ROS parameter can hold


class Parameters(BaseModel):
    """Base of all parameter objects: unknown keys are refused, values cannot change, numbers and texts are bounded.

    A number may also be given as a text that `inputs.number` reads.
    """

    # Validators are built where a class is first used: of the 150 classes, a run uses a third.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Values for a repr: those that are not the defaults; none before they are checked, as a debugger may ask."""
        values = vars(self)
        for name, field in type(self).model_fields.items():
            value = values.get(name)
            if name in values and (field.is_required() or value != field.get_default(call_default_factory=True)):
                yield name, value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema that pydantic makes, with checks of this module around each number and each text."""
        schema = handler(source)
        fields: Any = schema
        while fields["type"] != "model-fields":  # validators of the whole model are around them
            fields = fields["schema"]
        for name, field in fields["fields"].items():
            extra: Any = cls.model_fields[name].json_schema_extra or {}
            field["schema"] = _bounded(field["schema"], extra.get("unit", ""))
        return schema


def _bounded(schema: Any, unit: str) -> Any:
    """A schema of pydantic-core with a check around each number and each text in it; models have their own.

    Pydantic builds the schema of a model that others contain once, and hands it over again for each of them: what has
    its check already is left alone.
    """
    kind = schema["type"]
    check = schema["function"]["function"] if kind in ("function-before", "function-after") else None
    if check is inputs.check_text or getattr(check, "func", None) is _number:
        return schema
    if kind in ("float", "int"):
        read = inputs.number if kind == "float" else inputs.whole_number
        sized = core_schema.no_info_after_validator_function(functools.partial(_sized, *_sizes(schema, unit)), schema)
        return core_schema.no_info_before_validator_function(functools.partial(_number, read), sized)
    if kind == "str":
        return core_schema.no_info_after_validator_function(inputs.check_text, schema)
    if kind not in ("model", "tagged-union", "union", "definition-ref"):
        for key in ("schema", "values_schema"):
            if key in schema:
                schema[key] = _bounded(schema[key], unit)
        if "items_schema" in schema:
            schema["items_schema"] = [_bounded(one, unit) for one in schema["items_schema"]]
    return schema


def _sizes(schema: Any, unit: str) -> tuple[float, float]:
    """Smallest size of a number that is not zero, and largest, as declared or else by its unit."""
    smallest, largest = (1, _LARGEST_COUNT) if schema["type"] == "int" else _SIZES.get(unit, _OTHER_SIZES)
    signed = schema.get("gt", schema.get("ge", -1)) < 0
    return (sys.float_info.min if signed else smallest), max(largest, schema.get("le", 0), schema.get("lt", 0))


def _number(read: Callable[[str], float], value: Any) -> Any:
    """Value given for a number, read if it is a text."""
    if isinstance(value, bool):
        raise ValueError("must not be true or false")
    return read(value) if isinstance(value, str) else value


def _sized(smallest: float, largest: float, value: float) -> float:
    """A number that is neither too small nor too large to compute with."""
    if abs(value) > largest:
        raise ValueError(f"must be at most {largest:g} in size")
    if 0.0 < abs(value) < smallest:
        raise ValueError(f"is too small: must be at least {smallest:g}, or 0 if that is allowed")
    return value


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
        if not _OTHER_SIZES[0] <= value < math.inf:
            smallest = f"at least {_OTHER_SIZES[0]:g}" if value > 0.0 else "> 0"
            raise ValueError(f"[{i}] = {value:g}: must be {smallest}")
    return values


Gains = Annotated[tuple[float, ...], AfterValidator(_three_or_six), AfterValidator(_not_negative)]
"""Diagonal gains or limits: three (x, y, rotation about z) in a planar world, or six (x, y, z, rotations about them).

A controller between a device and a tool in space takes six: three would leave the other directions loose.
"""

PositivePair = Annotated[tuple[float, float], AfterValidator(_positive)]
PositiveTriple = Annotated[tuple[float, float, float], AfterValidator(_positive)]
NotNegativeWrench = Annotated[tuple[float, float, float, float, float, float], AfterValidator(_not_negative)]
NotNegativePair = Annotated[tuple[float, float], AfterValidator(_not_negative)]
Wrench = tuple[float, float, float, float, float, float]


def six(values: Iterable[float]) -> tuple[float, ...]:
    """Spread planar values (x, y, rotation about z) over the six directions of a wrench; six stay six."""
    values = tuple(values)
    return values if len(values) == 6 else (values[0], values[1], 0.0, 0.0, 0.0, values[2])


def in_space(values: tuple[float, ...]) -> tuple[float, ...]:
    """A limit in all six directions from one in the plane: along z the smaller force, the torque about every axis."""
    return values if len(values) == 6 else (*values[:2], min(values[:2]), *(3 * values[2:]))


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
    """Say each problem of a validation error in one line: key, what was found, what is allowed.

    Of a value that may be of several types there is a problem for each of these, which become one line.
    """
    allowed: dict[str, list[str]] = {}
    for problem in error.errors():
        found, must_be, what = _explain_one(problem, model, prefix).partition(": must be ")
        allowed.setdefault(found + must_be, []).append(what)
    return [found + " or ".join(dict.fromkeys(whats)) for found, whats in allowed.items()]


def _types_of(field: FieldInfo | None) -> str:
    """The types that a part may have, where the value of a field is one (haptic_sim/parts.py)."""
    kinds = [one for one in (field.metadata if field is not None else ()) if hasattr(one, "entries")]
    return f"; types: {', '.join(kinds[0].entries())}" if kinds else ""


def _explain_one(problem: Any, model: type[BaseModel], prefix: str) -> str:
    location, field, owner = _locate(problem["loc"], model)
    key = prefix + location
    unit = (field.json_schema_extra or {}).get("unit", "") if field is not None else ""
    found = problem.get("input")
    shown = f"{key} = {inputs.shown(found)}" + (f" {unit}" if unit and type(found) in (int, float) else "")
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{key}: unknown key" + _suggest(location.rpartition(".")[2], owner)
    if kind == "missing":
        return f"{key}: missing" + (f" ({field.description}{_types_of(field)})" if field is not None else "")
    if kind in _BOUNDS:
        name, sign = _BOUNDS[kind]
        return f"{shown}: must be {sign} {context[name]:g}" + (f" {unit}" if unit else "")
    if kind == "literal_error":
        return f"{shown}: must be {context['expected']}"
    if kind == "union_tag_invalid":
        tag = str(context["discriminator"]).strip("'")
        return f"{key}.{tag} = {context['tag']}: must be one of {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"{key}: missing the key {context['discriminator']}{_types_of(field)}"
    if kind in _NEEDS:
        meaning = f" ({field.description})" if kind in ("tuple_type", "list_type") and field is not None else ""
        return f"{shown}: must be {_NEEDS[kind]}{meaning}"
    if kind == "string_pattern_mismatch":
        return f"{shown}: must match {context['pattern']}"
    if kind == "string_too_long":
        return f"{shown}: must have at most {context['max_length']} characters"
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

    Pydantic puts the tag of a variant into the location, or the name of a type where there are several; neither names a
    key, and both are left out. A key of the variant may have the same name.
    """
    key = ""
    field: Any = None
    owner: Any = model
    named = False  # whether the name of an entry comes next, the field being a mapping
    tagged = False  # whether the tag of the variant has come
    for part in loc:
        if isinstance(part, int):
            key += f"[{part}]"
            tagged = False
            continue
        if named:
            key += f".{part}"
            named = tagged = False
            continue
        if field is not None and _has_types(field):
            continue
        chosen = has_variants(field)
        variant = _variant(field, part) if chosen and not tagged else None
        if variant is not None:
            owner, tagged = variant, True
            continue
        if field is not None and not chosen:
            owner = _entry(field)[0]
        field, tagged = getattr(owner, "model_fields", {}).get(part), False
        named = field is not None and get_origin(field.annotation) is dict
        key += f".{part}" if key else str(part)
    return key, field, owner


def _entry(field: Any) -> tuple[Any, Any]:
    """Type of a field, or of each entry of its list or mapping, and the key that selects one of several types."""
    annotation, choice = field.annotation, field if field.discriminator else _choice(field.metadata)
    while (origin := get_origin(annotation)) in (Annotated, dict, tuple, list):
        if origin is Annotated:
            choice = _choice(annotation.__metadata__) or choice
        annotation = get_args(annotation)[1 if origin is dict else 0]
    return annotation, choice


def _choice(notes: Iterable[Any]) -> Any:
    """Discriminator among the notes of a type: a field of pydantic, or a kind of parts."""
    return next((note for note in notes if getattr(note, "discriminator", None)), None)


def discriminator_of(field: Any) -> str:
    """The key that says which of several parameter classes a field takes; empty if it takes one."""
    choice = field if field.discriminator else _choice(field.metadata)
    return str(choice.discriminator) if choice is not None else ""


def _has_types(field: Any) -> bool:
    """Whether a field, or an entry of it, may be of several types, of which no key says which."""
    annotation, choice = _entry(field)
    if choice is not None or get_origin(annotation) not in (Union, UnionType):
        return False
    return sum(one is not NoneType for one in get_args(annotation)) > 1


def has_variants(field: Any) -> bool:
    """Whether a key of what a field takes, or of its entries, says which class that is."""
    return field is not None and _entry(field)[1] is not None


def _variant(field: Any, tag: Any) -> Any:
    """The class that a field, or its entries, take for a tag; None if there is none."""
    annotation, choice = _entry(field)
    if hasattr(choice, "find"):
        return choice.find_or_none(tag)
    members = (one for one in getattr(annotation, "__args__", ()) if tag in _tags(one, choice.discriminator))
    return next(members, None)


def _tags(member: Any, discriminator: str) -> tuple[str, ...]:
    return getattr(member.model_fields[discriminator].annotation, "__args__", ())


def variant_of(model: Any, name: str, tag: str | None) -> type[BaseModel] | None:
    """The parameter class that `model`'s field `name` takes for `tag`, None if there is none."""
    field = getattr(model, "model_fields", {}).get(name)
    return _variant(field, tag) if has_variants(field) and tag is not None else None


def _suggest(name: str, owner: Any) -> str:
    return did_you_mean(name, getattr(owner, "model_fields", {}))


def similar(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar to an unknown one; empty if none is."""
    return next(iter(difflib.get_close_matches(name[:100], list(known), n=1)), "")


def listed(names: Iterable[str], most: int | None = None) -> str:
    """The names, or as many as `most` of them and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if most is not None and len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def did_you_mean(name: str, known: Iterable[str], most: int | None = None) -> str:
    """Hint for an unknown name: the most similar known name, and the known names, or as many as `most` of them."""
    known = list(known)
    near = similar(name, known)
    return (f"; did you mean {near}?" if near else "") + (
        f" (known: {listed(known, most)})" if known else " (none is known)"
    )
