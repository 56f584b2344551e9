"""ROS parameters from the cores' parameter declarations: names, types, ranges, descriptions."""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter

from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, Parameters, discriminator_of, explain, variant_of
from haptic_sim.parts import kind_of

Config = TypeVar("Config", bound=Parameters)

NULL = "null"
"""Value of a ROS parameter that is not set although its key has another default: ROS has no value for it."""
GIVEN = "given"
"""Name of the flag of an optional section: it is given; a section of ROS parameters has no value of its own."""
TRIAL = "trial"
"""Prefix of the parameters of a node that are of no section: what it has to know of its trial, which is no gain."""

_TYPES = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
_ARRAY_TYPES = {
    int: Parameter.Type.INTEGER_ARRAY,
    float: Parameter.Type.DOUBLE_ARRAY,
    str: Parameter.Type.STRING_ARRAY,
}


def encode(section: BaseModel, names: Iterable[str] | None = None) -> dict[str, Any]:
    """A section's values for `flatten`: what ROS parameters cannot hold, mappings and lists of lists, as JSON.

    A section that may be left out says so by its key GIVEN. The type of a part is the name by which a node finds it.

    Args:
        section: the section.
        names: its keys that are encoded; None: all.

    Raises:
        TypeError: a section that may be left out has itself a key of this name.
    """
    values: dict[str, Any] = {}
    fields = type(section).model_fields
    for name in fields if names is None else names:
        field, value = fields[name], getattr(section, name)
        if (model := _left_out(field)) is not None:
            if GIVEN in model.model_fields:
                raise TypeError(f"{type(section).__name__}.{name}: may be left out, and has a key {GIVEN}; rename it")
            values[name] = {GIVEN: value is not None} | ({} if value is None else encode(value))
        elif isinstance(value, BaseModel):
            values[name] = encode(value)
            if (kind := kind_of(field)) is not None:
                values[name]["type"] = kind.name_of(type(value))
        elif _is_text(field):
            dumped = section.model_dump(mode="json", include={name})[name]
            values[name] = json.dumps(dumped)
        else:
            values[name] = NULL if value is None and field.default is not None else value
    return values


def _left_out(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a section that may be left out; None: this is no such section."""
    parts = typing.get_args(field.annotation)
    if type(None) not in parts:
        return None
    return next((one for one in parts if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _is_text(field: FieldInfo) -> bool:
    """Whether a field is a text in ROS: also a list that may be left out, since an empty one has no type there."""
    return _as_text(field.annotation) or field.default == ()


def _as_text(annotation: Any) -> bool:
    """Whether a value of this type is no scalar and no list of scalars."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _as_text(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is dict:
        return True
    if typing.get_origin(annotation) is tuple:
        return any(_as_text(part) or _is_composite(part) for part in typing.get_args(annotation))
    return False


def _is_composite(part: Any) -> bool:
    if typing.get_origin(part) is typing.Annotated:
        return _is_composite(typing.get_args(part)[0])
    if typing.get_origin(part) is tuple:
        return True
    parts = typing.get_args(part) or (part,)
    return any(isinstance(one, type) and issubclass(one, BaseModel) for one in parts)


def name_of(prefix: str, name: str) -> str:
    """The ROS parameter of a key; `prefix` is that of its section with a dot, empty of none."""
    return f"{prefix or TRIAL + '.'}{name}"


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested parameters as dotted ROS parameters; None is left out, tuples become lists of their own."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        elif value is not None:
            flat[name_of(prefix, key)] = list(value) if isinstance(value, tuple | list) else value
    return flat


def declare(node: Node, model: type[BaseModel], prefix: str = "") -> None:
    """Declare every field of a parameter class; of a variant's fields those of the type that was given."""
    for name, field in model.model_fields.items():
        key = prefix + name
        nested: Any = field.annotation
        if discriminator := discriminator_of(field):
            tag = _declare(node, f"{key}.{discriminator}", str, None, "Which variant", {})
            nested = variant_of(model, name, tag)
            if nested is None:
                raise ParameterError([f"{key}.{discriminator} = {tag}: unknown"])
        elif (section := _left_out(field)) is not None:
            there = field.default is not None
            if not _declare(node, f"{key}.{GIVEN}", bool, there, "Whether this section is there", {}):
                continue
            nested = section
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            declare(node, nested, f"{key}.")
        elif not node.has_parameter(key := name_of(prefix, name)):
            extra = typing.cast("dict[str, Any]", field.json_schema_extra or {})
            unit = extra.get("unit", "")
            description = (field.description or "") + (f" [{unit}]" if unit else "")
            default = None if field.is_required() else field.default
            annotation = dict[str, Any] if _is_text(field) else field.annotation
            _declare(node, key, annotation, default, description, extra, field)


def _declare(
    node: Node,
    key: str,
    annotation: Any,
    default: Any,
    description: str,
    extra: dict[str, Any],
    field: FieldInfo | None = None,
) -> Any:
    if _as_text(annotation):
        annotation = str
        default = None if default is None else json.dumps(default, default=BaseModel.model_dump)
    optional = type(None) in typing.get_args(annotation)
    kind = next((part for part in typing.get_args(annotation) if part is not type(None)), annotation)
    kind = annotation if not optional else kind
    descriptor = ParameterDescriptor(
        description=description, read_only=not extra.get("live", False), dynamic_typing=optional
    )
    if typing.get_origin(kind) is typing.Literal:
        descriptor.additional_constraints = "one of " + ", ".join(map(str, typing.get_args(kind)))
        kind = str
    if field is not None and kind in (int, float):
        low, high = _bounds(field.metadata)
        if low is not None or high is not None:
            if kind is float:
                most = sys.float_info.max
                span = FloatingPointRange(
                    from_value=-most if low is None else float(low),
                    to_value=most if high is None else float(high),
                )
                descriptor.floating_point_range = [span]
            else:
                descriptor.integer_range = [
                    IntegerRange(
                        from_value=-(2**63) if low is None else int(low),
                        to_value=2**63 - 1 if high is None else int(high),
                    )
                ]
    if isinstance(default, tuple):
        default = list(default)
    if default is None and not optional:
        elements = typing.get_args(kind)
        declared = _ARRAY_TYPES[_plain(elements[0])] if elements else _TYPES[kind]
        return node.declare_parameter(key, declared, descriptor).value
    return node.declare_parameter(key, default, descriptor).value


def _plain(annotation: Any) -> Any:
    """A type without what is annotated to it."""
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _bounds(metadata: Iterable[Any]) -> tuple[float | None, float | None]:
    low = high = None
    for item in metadata:
        low = getattr(item, "ge", getattr(item, "gt", low))
        high = getattr(item, "le", getattr(item, "lt", high))
    return low, high


def read(node: Node, model: type[Config], changes: Iterable[Parameter] = ()) -> Config:
    """The validated parameters of a node, with `changes` in place of present values.

    Raises:
        ParameterError: one line for each problem.
    """
    changed = {parameter.name: parameter.value for parameter in changes}
    values = _collect(node, model, "", changed)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ParameterError(explain(error, model)) from error


def _collect(node: Node, model: type[BaseModel], prefix: str, changed: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = prefix + name
        nested: Any = field.annotation
        if discriminator := discriminator_of(field):
            nested = variant_of(model, name, node.get_parameter(f"{key}.{discriminator}").value)
        elif (section := _left_out(field)) is not None:
            if not node.get_parameter(f"{key}.{GIVEN}").value:
                values[name] = None
                continue
            nested = section
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            values[name] = _collect(node, nested, f"{key}.", changed)
        else:
            key = name_of(prefix, name)
            value = changed[key] if key in changed else node.get_parameter_or(key).value  # or deleted
            if value == NULL and type(None) in typing.get_args(field.annotation):
                values[name] = None
            elif value is not None:
                values[name] = _parsed(key, value) if _is_text(field) else value
    return values


def _parsed(key: str, value: str) -> Any:
    """Value of a parameter that holds JSON, see `encode`."""
    try:
        return inputs.read_json(value)
    except inputs.InputError as error:
        raise ParameterError([f"{key} = {inputs.shown(value)}: {error}"]) from error
