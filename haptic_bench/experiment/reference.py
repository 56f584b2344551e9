"""The reference page of all keys of an experiment, made from the declarations of the parameters.

`python -m haptic_bench.experiment.reference` prints the page.
"""

from __future__ import annotations

import textwrap
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from haptic_bench.experiment.model import Experiment
from haptic_sim.parts import OWN, Entry, Group, PartError, kind_in, kind_of

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def page() -> str:
    """The page in Markdown."""
    lines = [
        "# Keys of an experiment",
        "",
        "Made from the declarations beside the cores by `python -m haptic_bench.experiment.reference`. Each key can",
        "be changed with `--set KEY=VALUE`; an entry of a list by its index, as",
        "`--set scene.bodies.box.shapes[0].size=[1,1,1]`. A list for a key that takes one value sweeps it, also",
        "`scene.bodies.box.mass=[0.1,0.2]`; for one that takes a list, a list of lists sweeps, with one level of",
        "brackets more than the key takes. Those marked *live* are ROS parameters that can be changed while a node",
        "runs.",
        "",
        "| key | unit | default | allowed | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{key}` | {unit} | {default} | {allowed} | {meaning} |"
        for key, unit, default, allowed, meaning in dict.fromkeys(_rows(Experiment, ""))
    ]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str, str]]:
    for name, field in model.model_fields.items():
        key, annotation, discriminator = f"{prefix}{name}", field.annotation, field.discriminator
        section = Experiment.model_fields.get(name)
        kind = kind_of(field) or kind_in(field)
        chosen = kind is not None or _is_union(annotation)
        if prefix and section is not None and section.annotation == annotation and chosen:
            yield (key, "", "required", "", f"{field.description}; its keys are those of `{name}`")
            continue
        inner, place = _entry(annotation)
        if inner is not None:  # the field holds several: by name, or in a list
            key, annotation, discriminator = key + place, *_unwrapped(inner)
        members = [part for part in (typing.get_args(annotation) or (annotation,)) if _is_model(part)]
        if kind is not None:
            members = [kind.find(entry.name) for entry in kind.entries().values() if entry.package == OWN]
            discriminator = kind.discriminator
        for member in members:
            tag = variant = ""
            if discriminator is not None:
                tag = typing.get_args(member.model_fields[str(discriminator)].annotation)[0]
                variant = f" ({discriminator} {tag})"
            parts_within = {one for one, field in member.model_fields.items() if kind_of(field) is not None}
            for row in _rows(member, f"{key}."):
                below = row[0].removeprefix(f"{key}.")
                if "[i]" in below or below.partition(".")[0] in parts_within:
                    yield row  # what a list or a part holds is the same for all variants
                elif row[0] != f"{key}.{discriminator}":
                    yield (row[0], *row[1:4], row[4] + variant)
                else:
                    yield (row[0], "", "", f"`{tag}`", _first_line(member))
        if not members:
            yield (key, *_describe(field))


def describe(experiment: Experiment, named: str) -> Iterator[str]:
    """Lines that say what an experiment is: its headline, then each key with its value, unit, default and meaning.

    Args:
        experiment: that is described.
        named: how it was named, by its name or its file.
    """
    yield f"{experiment.name}: {experiment.title}"
    if experiment.source:
        yield f"published in {experiment.source}"
    if experiment.description:
        yield from ("", *textwrap.wrap(experiment.description, 110))
    rows = [row for row in _values(experiment, "") if row[0] not in ("name", "title", "source", "description")]
    key_width, value_width = (min(max(len(row[i]) for row in rows), most) for i, most in ((0, 44), (1, 36)))
    yield ""
    for key, value, meaning in rows:
        yield f"{key:{key_width}}  {value:{value_width}}  {meaning}".rstrip()
    yield ""
    yield f"Change a key with --set, as in: haptics run {named} --set {_example(rows)}"


def parts(group: Group) -> Iterator[str]:
    """Lines that list the parts of a kind, or the analyses: name, package, and what it is.

    A part that cannot be imported is listed with the reason.
    """
    rows = []
    for entry in group.entries().values():
        try:
            what = _first_line(group.documented(group.load(entry.name)))
        except PartError as error:
            what = f"cannot be used: {error}"
        rows.append((entry.name, f"{entry.package} {entry.version}", what))
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    yield from (f"{name:{widths[0]}}  {package:{widths[1]}}  {what}" for name, package, what in rows)
    yield ""
    yield f"registered as entry points of the group {group.group}: docs/parts.md"


def registered(entry: Entry) -> dict[str, str]:
    """A part as programs take it: its name, the module that it is in, its package and the version of that."""
    return {"name": entry.name, "module": entry.module, "package": entry.package, "version": entry.version}


def _example(rows: list[tuple[str, str, str]]) -> str:
    key, value, _ = next((row for row in rows if row[0] == "contact.stiffness"), rows[0])
    return f"{key}={value.partition(' ')[0]}"


def _values(part: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Key, value with its unit, and meaning with the default where it is another one."""
    for name, field in type(part).model_fields.items():
        value, key = getattr(part, name), f"{prefix}{name}"
        match value:
            case BaseModel():
                several = [(f"{key}.", value)]
            case dict():
                several = [(f"{key}.{place}.", one) for place, one in value.items()]
            case tuple():
                several = [(f"{key}[{place}].", one) for place, one in enumerate(value)]
            case _:
                several = []
        models = [(place, one) for place, one in several if isinstance(one, BaseModel)]
        for place, one in models:
            yield from _values(one, place)
        if not models:
            extra: Any = field.json_schema_extra or {}
            unit = f" {extra.get('unit', '')}".rstrip()
            other = "" if field.is_required() or field.default == value else f" (default: {_plain(field.default)})"
            yield key, f"{_plain(value)}{unit}", f"{field.description or _first_line(type(part))}{other}"


def _first_line(documented: Any) -> str:
    return (documented.__doc__ or "").partition("\n")[0]


def _entry(annotation: Any) -> tuple[Any, str]:
    """Type of the entries of a mapping or list of parameter objects, and their name; None if it is neither."""
    annotation, _ = _unwrapped(annotation)
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is dict:
        return parts[1], ".NAME"
    if typing.get_origin(annotation) is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        inner, _ = _unwrapped(parts[0])
        if any(map(_is_model, typing.get_args(inner) or (inner,))):
            return parts[0], "[i]"
    return None, ""


def _unwrapped(annotation: Any) -> tuple[Any, str | None]:
    """A type without what is annotated to it, and the discriminator among that."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return annotation, None
    inner, *notes = typing.get_args(annotation)
    named = (getattr(note, "discriminator", None) for note in notes)
    return inner, next((str(name) for name in named if name), None)


def _is_union(annotation: Any) -> bool:
    """Whether the annotation is a union of parameter objects."""
    return any(map(_is_model, typing.get_args(annotation)))


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
