"""Identified properties of a device, in its data: `config/devices/NAME.yaml`, or a file anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from haptic_bench.experiment.devices import find_device
from haptic_drivers.devices.parameters import IdentifiedParameters
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, explain


def is_file(name: str) -> bool:
    """Whether a name is that of a file."""
    return os.sep in name or name.endswith((".yaml", ".yml"))


def read_keys(path: Path) -> dict[str, Any]:
    """The keys in the data of any device, or those of the section `device` where the file has one.

    Raises:
        ParameterError: unreadable, not YAML, or not a mapping.
    """
    found = inputs.read_mapping(path)
    found.pop("name", None)
    section = found.get("device", found)
    if not isinstance(section, dict):
        raise ParameterError([f"{path}: device: must be a mapping of keys to values"])
    return section


def read_identified(name: str) -> IdentifiedParameters:
    """Read the identified data of a device, by its name or the path of the data.

    Raises:
        ParameterError: there is none, or a line for each key that is wrong.
    """
    path = find_device(name)
    keys = {key: value for key, value in read_keys(path).items() if key in IdentifiedParameters.model_fields}
    try:
        return IdentifiedParameters.model_validate(keys)
    except ValidationError as error:
        raise ParameterError(f"{path}: {line}" for line in explain(error, IdentifiedParameters)) from error


def with_key(text: str, key: str, value: Any, comment: str) -> str:
    """The text of a device's data with a value and a comment for a key; all other lines stay as they are."""
    shown = yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
    line = f"{key}: {shown}  # {comment}"
    # a key at the left margin, and what is indented below it
    found = re.search(rf"^{key}[ \t]*:.*(?:\n[ \t]+\S.*|\n- .*)*$", text, re.M)
    return f"{text.rstrip()}\n{line}\n" if found is None else text[: found.start()] + line + text[found.end() :]


def write_identified(path: Path, values: Mapping[str, Any], comments: Mapping[str, str], header: str) -> dict[str, Any]:
    """Write values into the data of a device, each with a comment; all other lines stay as they are.

    Args:
        path: of the data; a file that is not there is made, with `header` as its first line.
        values: by key of IdentifiedParameters; comments: for each.

    Returns:
        What was there before, by key; None for a key that was not.

    Raises:
        ParameterError: the file cannot be read, changed or written.
    """
    IdentifiedParameters.model_validate(values)
    there = path.exists()
    before = read_keys(path) if there else dict[str, Any]()
    text = inputs.read_text(path) if there else f"# {header}\n"
    for key, value in values.items():
        text = with_key(text, key, value, comments[key])
    try:
        after = inputs.read_yaml(text)
    except inputs.InputError:
        after = None
    if after != {**before, **values}:
        raise ParameterError([f"{path}: cannot be changed line by line; write to another file with --out FILE"])
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ParameterError([f"{path}: cannot be written: {error.strerror}; give --out FILE"]) from error
    return {key: before.get(key) for key in values}
