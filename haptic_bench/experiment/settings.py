"""Settings of an experiment's keys, and sweeps over lists of values: `--set KEY=VALUE` and `--zip KEY,KEY`."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from haptic_bench.experiment.model import Experiment
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, variant_of
from haptic_sim.worlds.parameters import NAME

Settings = Sequence[str] | Mapping[str, Any]
"""KEY=VALUE as on the command line, with VALUE in YAML; or values by dotted key."""


def variants(
    document: dict[str, Any], settings: Settings, duration: float | str | None, zipped: Sequence[str]
) -> Iterator[tuple[dict[str, Any], tuple[tuple[str, str], ...]]]:
    """An experiment's document with settings, for each combination of what is swept; and what is swept, as texts.

    Args: as for `loading.load`.

    Raises:
        ParameterError: what is wrong with a setting.
    """
    if isinstance(settings, Mapping):
        pairs = [(_checked_key(key, f"settings[{key!r}]"), plain(value)) for key, value in settings.items()]
    else:
        pairs = [_parse_setting(setting) for setting in settings]
    if duration is not None:
        with contextlib.suppress(inputs.InputError):  # a text that is no number is named when it is checked
            duration = inputs.number(duration) if isinstance(duration, str) else duration
        pairs.append(("duration", duration))
    pairs = list(dict(pairs).items())  # of a key that is given twice, the last counts
    types = [(key, value) for key, value in pairs if key.endswith(".type") and isinstance(value, str)]
    settings_of = list(_sweeps(Experiment, _apply(Experiment, document, types), pairs))
    swept = {key for key, _, sweeps in settings_of if sweeps}
    axes = _axes({key: values for key, values, _ in settings_of}, swept, zipped)
    for combination in itertools.product(*axes):
        values = dict(itertools.chain.from_iterable(combination))
        ordered = [(key, values[key]) for key, _, _ in settings_of]
        varied = tuple((key, _label(value)) for key, value in ordered if key in swept)
        yield _apply(Experiment, document, ordered), varied


def _axes(
    values_of: dict[str, list[Any]], swept: set[str], zipped: Sequence[str]
) -> list[list[tuple[tuple[str, Any], ...]]]:
    """The settings that vary together, for each of their values.

    Raises:
        ParameterError: what is zipped are not lists of the same length.
    """
    together: dict[str, list[str]] = {}  # keys by the first of their group
    seen: set[str] = set()
    for text in zipped:
        keys = text.split(",")
        lengths = {key: len(values_of[key]) for key in keys if key in swept}
        shown = f"--zip {inputs.shown(text)}"
        if len(keys) < 2 or len(set(keys)) < len(keys):
            raise ParameterError([f"{shown}: must be two keys or more, as in --zip contact.stiffness,contact.damping"])
        for key in keys:
            if key not in swept:
                raise ParameterError([f"{shown}: {inputs.shown(key)} has no list of values; give one with --set"])
            if key in seen:
                raise ParameterError([f"{shown}: {key} is zipped already"])
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{key} has {count}" for key, count in lengths.items())
            raise ParameterError([f"{shown}: must be lists of the same length; {counts} values"])
        seen.update(keys)
        together[min(keys, key=list(values_of).index)] = keys
    axes = []
    for key in values_of:
        if key in together or key not in seen:
            keys = together.get(key, [key])
            rows = zip(*(values_of[one] for one in keys), strict=True)
            axes.append([tuple(zip(keys, row, strict=True)) for row in rows])
    return axes


_INDEX = re.compile(r"\[(\d{1,4})\]")  # of an entry of a list


def _steps(key: str) -> list[str]:
    """The names and indices on the way to a key."""
    return _INDEX.sub(r".\1", key).split(".")


def _checked_key(key: Any, shown: str) -> str:
    """A dotted key.

    Raises:
        ParameterError: it is none.
    """
    parts = [_INDEX.sub("", part) for part in key.split(".")] if isinstance(key, str) else [""]
    if not all(part.isidentifier() or NAME.fullmatch(part) for part in parts):
        example = "contact.stiffness=2000, or scene.bodies.box.shapes[0].size=[0.1,0.1,0.2]"
        raise ParameterError([f"{shown}: must be KEY=VALUE, as in --set {example}"])
    return str(key)


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    shown = f"--set {inputs.shown(setting)}"
    _checked_key(key if equals else "", shown)
    try:
        return key, inputs.read_yaml(text)
    except inputs.InputError as error:
        raise ParameterError([f"{shown}: invalid YAML: {str(error).rpartition('not YAML: ')[2]}"]) from error


def plain(value: Any) -> Any:
    """A value of a program as one of a file: arrays and tuples are lists, paths are texts."""
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case Mapping():
            return {name: plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case os.PathLike():
            return os.fspath(value)
    return value


def _label(value: Any) -> str:
    """A value as in YAML, for the name of a directory."""
    match value:
        case list():
            return f"[{','.join(map(_label, value))}]"
        case None | bool():
            text = json.dumps(value)
        case _:
            text = str(value)
    return re.sub(r"[/\0]", "_", text).replace(" ", "")


def _sweeps(
    model: type[BaseModel], document: dict[str, Any], pairs: Sequence[tuple[str, Any]]
) -> Iterator[tuple[str, list[Any], bool]]:
    """Each setting with its values, and whether it sweeps: where a list is given for a key that takes one value.

    A value of a key that takes lists, of lists even, sweeps if it has one more level of brackets than the key takes.

    Raises:
        ParameterError: two values of a sweep are the same, or would have the same directory.
    """
    for key, value in pairs:
        if isinstance(value, list) and value and _levels(value) > _levels_taken(model, document, _steps(key)):
            labels = [_label(one) for one in value]
            for i, label in enumerate(labels):
                if label in labels[:i]:
                    raise ParameterError([f"{key}: duplicate value {label}; must be different values"])
            yield key, value, True
        else:
            yield key, [value], False


def _levels(value: Any) -> int:
    """Number of nested lists of a value."""
    return 1 + max(map(_levels, value), default=0) if isinstance(value, list) else 0


def _levels_of(annotation: Any) -> float:
    """Largest number of nested lists that an annotation takes."""
    kinds = list(_parts(annotation))
    lists = [kind for kind in kinds if typing.get_origin(kind) in (tuple, list)]
    return max((1 + _levels_of(typing.get_args(kind)[0]) for kind in lists), default=0)


def _levels_taken(model: Any, document: Any, path: Sequence[str]) -> float:
    """Largest number of nested lists that the key at `path` takes; infinite for unknown keys: errors show all of it."""
    steps = list(path)
    while steps:
        name = steps.pop(0)
        field = getattr(model, "model_fields", {}).get(name)
        if field is None:
            return math.inf
        document = _member(document, name)
        kinds = list(_parts(field.annotation))
        while steps and (entries := [_entry(kind) for kind in kinds if typing.get_args(kind)]):
            kinds = [part for entry in entries for part in _parts(entry)]
            document = _member(document, steps.pop(0))
        if not steps:
            return max(map(_levels_of, kinds), default=0)
        tag = _member(document, "type")
        variant = variant_of(model, name, tag if isinstance(tag, str) else None)
        model = variant or next((kind for kind in kinds if steps[0] in getattr(kind, "model_fields", {})), None)
    return math.inf


def _member(document: Any, name: str) -> Any:
    """Entry of a part of a document under a name or an index; None if there is none."""
    match document:
        case list():
            return document[int(name)] if name.isdigit() and int(name) < len(document) else None
        case dict():
            return document.get(name)
    return None


def _entry(kind: Any) -> Any:
    """Type of the entries of a list or mapping."""
    return typing.get_args(kind)[1 if typing.get_origin(kind) is dict else 0]


def _parts(annotation: Any) -> Iterator[Any]:
    """The members of a union, annotations taken off."""
    if typing.get_origin(annotation) is typing.Annotated:
        yield from _parts(annotation.__origin__)
    elif typing.get_origin(annotation) is typing.Union or type(annotation).__name__ == "UnionType":
        for member in typing.get_args(annotation):
            yield from _parts(member)
    else:
        yield annotation


def _apply(model: type[BaseModel], document: dict[str, Any], settings: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A copy of `document` with the settings. Setting X.type drops the keys of X that the new variant does not have."""
    result = _copy(document)
    for key, value in settings:
        *parents, last = _steps(key)
        target: Any = result
        for name, after in itertools.pairwise([*parents, last]):
            place = _place(target, name, key)
            target = target.setdefault(place, {}) if isinstance(target, dict) else target[place]
            match target, after.isdigit():
                case (list(), True) | (dict(), False):
                    continue
                case _, True:
                    missing = "is not a list in the experiment; set it as a whole"
                case list(), _:
                    missing = f"is a list; say which, as in {name}[0]"
                case _:
                    missing = "has no keys of its own"
            raise ParameterError([f"--set {key}: {name} {missing}"])
        if last == "type" and len(parents) == 1:
            variant = variant_of(model, parents[0], value) if isinstance(value, str) else None
            if variant is not None and target.get("type") != value:
                given = {k.split(".")[1] for k, _ in settings if k.startswith(parents[0] + ".")}
                for name in list(target):
                    if name not in variant.model_fields and name not in given:
                        del target[name]
        target[_place(target, last, key)] = value
    return result


def _place(target: Any, name: str, key: str) -> Any:
    """Key or index in a mapping or a list that a step of a key names."""
    if not isinstance(target, list):
        return name
    if not name.isdigit() or int(name) >= len(target):
        entries = {0: "is empty", 1: "has [0] alone"}.get(len(target), f"has [0] to [{len(target) - 1}]")
        raise ParameterError([f"--set {key}: [{name}] is not in the list, which {entries}"])
    return int(name)


def _copy(document: Any) -> Any:
    match document:
        case list():
            return [_copy(value) for value in document]
        case dict():
            return {key: _copy(value) for key, value in document.items()}
    return document
