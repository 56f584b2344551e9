"""The reference of all keys of an experiment, made from the declarations: `python -m haptic_bench.reference`."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from haptic_bench.experiment import Experiment

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def page() -> str:
    """The page in Markdown."""
    lines = [
        "# Keys of an experiment",
        "",
        "Made from the declarations beside the cores by `python -m haptic_bench.reference`. Each key can be changed",
        "with `--set KEY=VALUE`. Those marked *live* are ROS parameters that can be changed while a node runs.",
        "",
        "| key | unit | default | allowed | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{key}` | {unit} | {default} | {allowed} | {meaning} |"
        for key, unit, default, allowed, meaning in _rows(Experiment, "")
    ]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str, str]]:
    for name, field in model.model_fields.items():
        key = prefix + name
        members = [part for part in (typing.get_args(field.annotation) or (field.annotation,)) if _is_model(part)]
        for member in members:
            variant = ""
            if field.discriminator is not None:
                tag = typing.get_args(member.model_fields[str(field.discriminator)].annotation)[0]
                variant = f" (type {tag})"
            for row in _rows(member, f"{key}."):
                if field.discriminator is None or row[0] != f"{key}.{field.discriminator}":
                    yield (row[0], *row[1:4], row[4] + variant)
                else:
                    yield (row[0], "", "", f"`{tag}`", (member.__doc__ or "").splitlines()[0])
        if not members:
            yield (key, *_describe(field))


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _describe(field: FieldInfo) -> tuple[str, str, str, str]:
    extra: Any = field.json_schema_extra or {}
    default = "required" if field.is_required() else f"`{_plain(field.default)}`"
    bounds = [
        f"{sign} {getattr(item, name):g}"
        for item in field.metadata
        for name, sign in _SIGNS.items()
        if getattr(item, name, None) is not None
    ]
    options = [f"`{option}`" for part in _literals(field.annotation) for option in part]
    meaning = (field.description or "") + (" *(live)*" if extra.get("live") else "")
    return extra.get("unit", ""), default, ", ".join(bounds or options), meaning


def _literals(annotation: Any) -> Iterator[tuple[Any, ...]]:
    if typing.get_origin(annotation) is typing.Literal:
        yield typing.get_args(annotation)


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    return str(list(value)) if isinstance(value, tuple) else str(value)


if __name__ == "__main__":
    print(page(), end="")
