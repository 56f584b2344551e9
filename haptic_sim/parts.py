"""Parts: what an experiment names by its `type`. Those of this package and of any other come in by the same way.

A kind of parts (controllers, operators, ...) is a group of entry points. Each names a part: a class of parameters,
which builds its core. The names are read from the metadata of installed packages; of a checkout, which has none, from
its setup.cfg. A module is imported when a part of it is used. `type: module:Class` needs no registration.
"""

from __future__ import annotations

import configparser
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler, SerializationInfo, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from haptic_sim import inputs
from haptic_sim.installed import PACKAGE_NAMES
from haptic_sim.parameters import ParameterError, Parameters

OWN = "haptics"
_GROUP = re.compile(r"haptics\.")
_OWN = {OWN, *PACKAGE_NAMES}
"""The distributions of this package: of pip one, of ament one for each of its folders."""

USERS_PATH = "HAPTICS_PYTHONPATH"
"""Variable with folders of the user's packages, which are looked for after all others (haptic_bench/commands/start)."""

_CHECKOUT = Path(__file__).resolve().parents[1] / "setup.cfg"


class Part(Parameters):
    """Parameters of a part; `type` is its name."""

    ABSENT: ClassVar[bool] = False
    """Whether the part stands for nothing, as its type `none` says."""
    OFFLINE: ClassVar[bool] = True
    """Whether the part can take part in a trial offline: it is neither hardware nor a node of the user's."""
    EXTERNAL: ClassVar[bool] = False
    """Whether the part is a node of the graph that the user starts."""

    type: str = ""

    def check(self, experiment: Any) -> list[str]:
        """Conflicts with the other sections of an experiment; one line each, which begins with a key."""
        return []

    def without_effect(self, experiment: Any) -> Iterable[tuple[str, set[str] | None, str]]:
        """Keys of an experiment that it leaves unused: section, names in it (None: all), and why."""
        return ()

    def facts(self) -> list[str]:
        """Facts about the part for a report, beside its type."""
        return []

    def entries(self) -> tuple[Entry, ...]:
        """Registrations of what the part uses beside its class, as a driver of hardware."""
        return ()


P = TypeVar("P", bound=Part)


class Entry(NamedTuple):
    """A registered part.

    Attributes:
        name: its `type` in an experiment.
        value: MODULE:CLASS, or MODULE.
        package, version: of the distribution that registers it.
    """

    name: str
    value: str
    package: str
    version: str

    @property
    def module(self) -> str:
        """The module that the part is in."""
        return self.value.partition(":")[0]


class PartError(ParameterError):
    """A part that is registered cannot be used."""


_GROUPS: dict[str, Group] = {}


class Group:
    """A group of entry points, `haptics.NAME`: what is registered in it, by name."""

    def __init__(self, name: str):
        self.name = name
        self.group = f"haptics.{name}"
        self._loaded: dict[str, Any] = {}
        _GROUPS[name] = self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def entries(self) -> dict[str, Entry]:
        """Registered parts by name; those of this package first.

        Raises:
            PartError: two packages register something else under one name.
        """
        entries: dict[str, Entry] = {}
        for entry in _registered(self.group):
            other = entries.setdefault(entry.name, entry)
            if other.value != entry.value:
                raise PartError(
                    [
                        f"{self.name}: {entry.name} is registered by {other.package} as {other.value} and by "
                        f"{entry.package} as {entry.value}; uninstall one of them"
                    ]
                )
        return entries

    def load(self, name: str) -> Any:
        """Load the part that is registered under a name, or that MODULE:NAME names.

        Raises:
            PartError: it cannot be imported, or is nothing of this group.
            KeyError: nothing is registered under the name.
        """
        if name not in self._loaded:
            value = name if ":" in name else self.entries()[name].value
            module, _, attribute = value.partition(":")
            add_users_folders()
            try:
                found = functools.reduce(getattr, filter(None, attribute.split(".")), importlib.import_module(module))
            except MemoryError:  # of the machine, not of the part
                raise
            except Exception as error:  # whatever the module of someone else raises
                raise PartError([f"{value} cannot be imported: {type(error).__name__}: {error}"]) from error
            self.check(name, value, found)
            self._loaded[name] = found
        return self._loaded[name]

    def find_or_none(self, name: Any) -> Any:
        """Load a part, as `load`; None where there is no such part, or it cannot be used."""
        try:
            return self.load(name)
        except (KeyError, TypeError, PartError):
            return None

    def check(self, name: str, value: str, found: Any) -> None:
        """Make sure that what was imported is of this group.

        Raises:
            PartError: it is not.
        """

    def documented(self, found: Any) -> Any:
        """The object whose documentation says what a part of this group is: the part itself."""
        return found

    def registration(self, name: str, module: str) -> Entry:
        """The entry of a name; of MODULE:NAME, one whose package is that of the module."""
        if name in (entries := self.entries()):
            return entries[name]
        top = module.partition(".")[0]
        owner = importlib.metadata.packages_distributions().get(top, [top])[0]
        return Entry(name, name, OWN if owner in _OWN else owner, _version_of(owner) or "")


class Kind(Group, Generic[P]):
    """A kind of parts; as an annotation of a type, that of the fields which take any of them.

    Args:
        name: the plural of what it is.
        base: the class that all parts of the kind are derived from.
        by_name: whether the name of a part stands for the part with its defaults, `dahl` for `{type: dahl}`.
    """

    discriminator = "type"

    def __init__(self, name: str, base: type[P], *, by_name: bool = False):
        super().__init__(name)
        self.base, self.by_name = base, by_name

    def find(self, name: str) -> type[P]:
        """The class of a part; see `load`."""
        part: type[P] = self.load(name)
        return part

    def check(self, name: str, value: str, found: Any) -> None:
        """Make sure that what was imported is of this group."""
        if not (isinstance(found, type) and issubclass(found, self.base)):
            base = f"{self.base.__module__}.{self.base.__name__}"
            raise PartError([f"{value} is not one of the {self.name}; must be derived from {base}"])
        if ":" not in name and _tag(found) != name:
            raise PartError([f"{value} has type = {_tag(found)}; must be {name}, the name by which it is registered"])

    def part(self, given: P | str) -> P:
        """A part, or that of a name with its defaults.

        Raises:
            PartError: there is none of that name, or it cannot be used.
        """
        if isinstance(given, self.base):
            return given
        try:
            return self.find(str(given))()
        except KeyError:
            known = ", ".join(self.entries())
            raise PartError([f"{inputs.shown(given)} is not one of the {self.name}; must be one of {known}"]) from None

    def changed(self, part: P, keys: Mapping[str, Any]) -> P:
        """A part with other keys; one of another type keeps those of its keys that the other has, too."""
        name = keys.get("type", self.name_of(type(part)))
        other = self.find(name)
        kept = {key: getattr(part, key) for key in part.model_fields_set & other.model_fields.keys()}
        return other.model_validate(kept | dict(keys) | {"type": _tag(other)})

    def name_of(self, part: type[P]) -> str:
        """The name by which an experiment finds a part again: its type if it is registered, else MODULE:CLASS."""
        return self.entry_of(part).name

    def entry_of(self, part: type[P]) -> Entry:
        """The registration of a part; of one without, with MODULE:CLASS for its name."""
        tag = _tag(part)
        if tag in self.entries() and self.find_or_none(tag) is part:
            return self.entries()[tag]
        return self.registration(f"{part.__module__}:{part.__qualname__}", part.__module__)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validates a mapping with the part that its `type` names, and writes a part with the name that finds it."""
        return core_schema.no_info_plain_validator_function(
            self._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(self._dump, info_arg=True),
        )

    def _validate(self, value: Any) -> P:
        if isinstance(value, self.base):
            return value
        named = self.by_name and isinstance(value, str)  # the key holds the name itself, and has no key `type` below it
        if not (named or isinstance(value, dict)):
            if self.by_name:
                raise _refusal(value, _part_error("must be a name or a mapping of keys to values"), {})
            raise _refusal(value, "model_type", {"class_name": self.base.__name__})
        if named:
            value = {"type": value}
        if "type" not in value:
            raise _refusal(value, "union_tag_not_found", {"discriminator": "'type'"})
        name = value["type"]
        try:
            part = self.find(name if isinstance(name, str) else inputs.shown(name))
        except KeyError:
            known = ", ".join(f"'{one}'" for one in self.entries())
            if named:
                raise _refusal(name, _part_error(f"must be one of {known}"), {}) from None
            context = {"discriminator": "'type'", "tag": inputs.shown(name), "expected_tags": known}
            raise _refusal(value, "union_tag_invalid", context) from None
        except PartError as error:
            raise _refusal(name, _part_error(str(error)), {}, *(() if named else ("type",))) from error
        try:
            return part.model_validate(value | {"type": _tag(part)})
        except ValidationError as error:
            lines = [_again(one, name) for one in error.errors()]
            raise ValidationError.from_exception_data(error.title, lines) from None

    def _dump(self, part: P, info: SerializationInfo) -> dict[str, Any] | str:
        if self.by_name and type(part).model_fields.keys() == {"type"}:
            return self.name_of(type(part))
        values = part.model_dump(
            mode=info.mode,
            by_alias=info.by_alias,
            exclude_unset=info.exclude_unset,
            exclude_defaults=info.exclude_defaults,
            exclude_none=info.exclude_none,
        )
        return {"type": self.name_of(type(part))} | {key: one for key, one in values.items() if key != "type"}


def groups() -> dict[str, Group]:
    """All groups, by name, that the modules which were imported have declared."""
    return dict(_GROUPS)


def _tag(part: type[Part]) -> str:
    return str(part.model_fields["type"].default)


def _refusal(value: Any, kind: Any, context: dict[str, Any], *place: str) -> ValidationError:
    line: Any = {"type": kind, "loc": place, "input": value, "ctx": context}
    return ValidationError.from_exception_data("part", [line])


def _part_error(reason: str) -> PydanticCustomError:
    return PydanticCustomError("part_error", "{reason}", {"reason": reason})


def _again(problem: Any, name: str) -> InitErrorDetails:
    """A problem of a part's key, with the name of the part in its place, as pydantic has it in a union."""
    kind = problem["type"]
    if kind == "part_error":
        kind = _part_error(problem["ctx"]["reason"])
    return {"type": kind, "loc": (name, *problem["loc"]), "input": problem["input"], "ctx": problem.get("ctx", {})}


def _registered(group: str) -> tuple[Entry, ...]:
    return tuple(entry for one, entry in _all_registered(os.environ.get(USERS_PATH, "")) if one == group)


@functools.cache
def _all_registered(users_path: str) -> tuple[tuple[str, Entry], ...]:
    """Groups and entries of all packages, those of this one first; a package that is found twice counts once.

    `users_path` is the value of USERS_PATH, with which they change.
    """
    found = [*_of_checkout()]
    seen = {OWN} if found else set()
    add_users_folders()
    points = importlib.metadata.entry_points()  # of a package that is there twice, those of the first
    for group in filter(_GROUP.match, points.groups):
        for point in points.select(group=group):
            assert point.dist is not None
            name = OWN if point.dist.name in _OWN else point.dist.name
            if name not in seen:
                found.append((group, Entry(point.name, point.value, name, point.dist.version)))
    return tuple(sorted(found, key=lambda one: one[1].package != OWN))


def own_version() -> str:
    """Version of this package."""
    return next(entry.version for _, entry in _all_registered("") if entry.package == OWN)


def _of_checkout() -> Iterator[tuple[str, Entry]]:
    """Groups and entries that the setup.cfg of a checkout declares; none where the package is installed."""
    if not _CHECKOUT.is_file():
        return
    config = configparser.ConfigParser()
    config.read(_CHECKOUT, encoding="utf-8")
    version = config["metadata"]["version"]
    for group, lines in config["options.entry_points"].items():
        if group.startswith("haptics."):
            for line in filter(None, map(str.strip, lines.splitlines())):
                name, _, value = line.partition("=")
                yield group, Entry(name.strip(), value.strip(), OWN, version)


def add_users_folders() -> None:
    """Look for packages of the user after all others."""
    folders = os.environ.get(USERS_PATH, "").split(os.pathsep)
    sys.path.extend(folder for folder in folders if folder and folder not in sys.path)


def packages_of(parameters: BaseModel) -> dict[str, str]:
    """Packages of others whose parts some parameters hold, by name, with their versions."""
    found: dict[str, str] = {}
    for name, field in type(parameters).model_fields.items():
        value = getattr(parameters, name)
        if (kind := kind_of(field)) is not None:
            used = (kind.entry_of(type(value)), *value.entries())
            found |= {entry.package: entry.version for entry in used if entry.package != OWN}
        entry_kind = kind_in(field)
        for one in value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,):
            if entry_kind is not None:
                entry = entry_kind.entry_of(type(one))
                found |= {} if entry.package == OWN else {entry.package: entry.version}
            if isinstance(one, BaseModel):
                found |= packages_of(one)
    return found


def missing(packages: Any) -> list[str]:
    """List the packages that are not installed, one line each; `packages` as of `packages_of`."""
    if not isinstance(packages, dict):
        return []
    add_users_folders()
    return [
        f"{name} = {version}: the package is not there; install it, or put it on PYTHONPATH"
        for name, version in packages.items()
        if isinstance(name, str) and _version_of(name) is None
    ]


def changed(packages: Any) -> list[str]:
    """List the packages that are installed in another version, one line each; `packages` as of `packages_of`."""
    if not isinstance(packages, dict):
        return []
    add_users_folders()
    found = {name: _version_of(name) for name in packages if isinstance(name, str)}
    return [
        f"{name} = {packages[name]}: version {version or 'unknown'} is installed; results may differ"
        for name, version in found.items()
        if version is not None and version != packages[name]
    ]


def _version_of(package: str) -> str | None:
    """Version of a distribution, or empty of a module that belongs to none; None: there is neither."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        return "" if importlib.util.find_spec(package) is not None else None
    except (ImportError, ValueError):
        return None


def kind_in(field: Any) -> Kind[Any] | None:
    """The kind of the parts that a field takes by their names; None if it takes none."""
    annotation = field.annotation
    notes = getattr(get_args(annotation)[1], "__metadata__", ()) if get_origin(annotation) is dict else ()
    return next((note for note in notes if isinstance(note, Kind)), None)


def kind_of(field: Any) -> Kind[Any] | None:
    """The kind of the parts that a field takes; None if it takes no parts."""
    return next((note for note in field.metadata if isinstance(note, Kind)), None)
