"""The parameters of a trial as YAML: first those that are not as in the experiment's file."""

from __future__ import annotations

from html import escape
from typing import Any

from pydantic import BaseModel

from haptic_bench.experiment import Experiment, declared
from haptic_bench.report import html

_HEAD = ("name", "title", "source", "description")  # which the page's head has


def section(experiment: Experiment) -> str:
    """The parameters, folded."""
    own = dict(_parameters(experiment))
    given = declared(experiment.name)
    if given is None:
        return html.folded("Parameters of the experiment", _block(own))
    of_file = dict(_parameters(given))
    changed = {key: one for key, one in own.items() if _differs(key, one[0], of_file)}
    others = {key: one for key, one in own.items() if key not in changed}
    title = f"Parameters changed from the experiment's file, by a setting or at the start: {len(changed) or 'none'}"
    lead = f"<h3>{title}</h3>\n{_block(changed)}"
    return lead + html.folded("The other parameters of the experiment", _block(others))


def _differs(key: str, value: Any, of_file: dict[str, tuple[Any, str]]) -> bool:
    """Whether a value is another than in the file; one that is open there (null) is chosen at the start."""
    if key not in of_file:
        return True
    given = of_file[key][0]
    return given is not None and given != value


def _block(parameters: dict[str, tuple[Any, str]]) -> str:
    """Lines of YAML, each with its unit as a comment."""
    if not parameters:
        return ""
    lines = []
    for key, (value, unit) in parameters.items():
        comment = f'  <span class="soft"># {escape(unit)}</span>' if unit else ""
        lines.append(f"{escape(key)}: {escape(html.yaml_of(value))}{comment}")
    return "<pre>" + "\n".join(lines) + "</pre>"


def _parameters(section: BaseModel, prefix: str = "") -> Any:
    """Dotted key, and value as data with its unit, of every parameter."""
    data = section.model_dump(mode="json") if not prefix else None
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _parameters(value, f"{prefix}{name}.")
        elif prefix or name not in _HEAD:
            extra = field.json_schema_extra
            unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
            plain = data[name] if data is not None else section.model_dump(mode="json", include={name})[name]
            yield prefix + name, (plain, unit)
