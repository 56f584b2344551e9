"""Errors name keys as a file has them, whatever is wrong in any section of an experiment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import pytest
from fake_hardware import data
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from haptic_bench.experiment.model import Experiment
from haptic_drivers.devices import force_dimension, haply, haply_2diy, open_haptics
from haptic_drivers.devices.parameters import HardwareParameters
from haptic_sim.constraints.scenes import ParametrisationFormulas
from haptic_sim.parameters import Parameters, explain
from haptic_sim.parts import kind_of

WRONG = ["x", -1e400, [], ["x", -1.5], [[None]], {"entry": "x"}, {"entry": ["x"]}, [{"entry": 1}], None, True, -7]
KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*(?= = |: |$)")
ENTRY = "entry"


class Place(NamedTuple):
    """A class of parameters, and where it is in an experiment: fills a section of it into a document."""

    model: type[Parameters]
    path: tuple[str, ...]
    document: Callable[[dict[str, Any]], dict[str, Any]]


def members(annotation: Any) -> Iterator[tuple[Any, bool, bool]]:
    """The types that an annotation allows; and whether as entries of a list, or of a mapping."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from members(arguments[0])
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from members(argument)
    elif origin in (tuple, list, dict):
        for kind, listed, named in members(arguments[-1] if origin is dict else arguments[0]):
            yield kind, listed or origin is not dict, named or origin is dict
    else:
        yield annotation, False, False


def of_field(field: FieldInfo) -> Iterator[tuple[Any, bool, bool]]:
    """As `members`, of a field; of one that takes parts, all that are registered."""
    kind = kind_of(field)
    if kind is None:
        yield from members(field.annotation)
    else:
        yield from ((kind.find(name), False, False) for name in kind.entries())


def places(place: Place) -> Iterator[Place]:
    """A place, and all below it, each class once on its way."""
    yield place
    for name, field in place.model.model_fields.items():
        for kind, listed, named in of_field(field):
            if not (isinstance(kind, type) and issubclass(kind, Parameters)) or kind.__name__ in place.path:
                continue

            def document(
                inner: dict[str, Any], name: str = name, kind: Any = kind, listed: bool = listed, named: bool = named
            ) -> dict[str, Any]:
                tag = kind.model_fields.get("type")
                whole: Any = inner if tag is None or tag.default is None else {"type": tag.default, **inner}
                whole = [whole] if listed else {ENTRY: whole} if named else whole
                return place.document({name: whole})

            yield from places(Place(kind, (*place.path, kind.__name__), document))


ROOTS = [Place(Experiment, (), lambda inner: inner)]
ROOTS += [
    Place(module.Connection, (), lambda inner: inner) for module in (force_dimension, haply, haply_2diy, open_haptics)
]
PLACES = [(root.model, place) for root in ROOTS for place in places(root)]


def is_there(key: str, document: Any) -> bool:
    """Whether a key is in a document, or all but its last name or number is."""
    parts = re.findall(r"[\w-]+", key)
    for i, part in enumerate(parts):
        if isinstance(document, list):
            if not (part.isdigit() and int(part) < len(document)):
                return part.isdigit() and i == len(parts) - 1
            document = document[int(part)]
        elif isinstance(document, dict):
            if part not in document:
                return i == len(parts) - 1
            document = document[part]
        else:
            return False
    return True


def check(root: type[Parameters], document: dict[str, Any]) -> int:
    """Each line about a document begins with a key that is there; how many there are."""
    try:
        root.model_validate(document)
    except ValidationError as error:
        lines = explain(error, root)
        for line in lines:
            found = KEY.match(line)
            assert found is None or is_there(found[0], document), (line, document)
        return sum(KEY.match(line) is not None for line in lines)
    return 0


def check_place(root: type[Parameters], place: Place) -> None:
    """Each key of a class has each wrong value in turn."""
    names = [name for name in place.model.model_fields if name != "type"]
    found = 0
    for value in WRONG:
        found += check(root, place.document(dict.fromkeys(names, value)))
    assert found or not names, place.path


def test_the_walk_finds_the_sections() -> None:
    found = {place.model.__name__ for _, place in PLACES}
    assert {"HardwareDeviceParameters", "ContactParameters", "BoundParameters", "Connection"} <= found and len(
        found
    ) > 60


@pytest.mark.parametrize("first", range(3))
def test_a_wrong_value_is_said_by_the_key_of_the_file(first: int) -> None:
    for root, place in PLACES[first::40]:
        check_place(root, place)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(3, 40))
def test_each_wrong_value_is_said_by_the_key_of_the_file(first: int) -> None:
    for root, place in PLACES[first::40]:
        check_place(root, place)


def test_a_value_of_several_types_is_said_once() -> None:
    with pytest.raises(ValidationError) as caught:
        data(connection={"port": [1]})
    wanted = "connection.port = [1]: must be a text or a number or a whole number or true or false"
    assert explain(caught.value, HardwareParameters) == [wanted]
    with pytest.raises(ValidationError) as caught:
        ParametrisationFormulas.model_validate({"start": {"z": [1]}})
    assert explain(caught.value, ParametrisationFormulas) == ["start.z = [1]: must be a number or a text"]


def test_a_part_that_is_named_is_said_by_the_key_that_holds_the_name() -> None:
    names = "must be one of 'haptics', 'mujoco', 'external', 'robot', 'ros_robot'"
    expected = {
        "environment.engine = x: " + names: "x",
        "environment.engine.type = x: " + names: {"type": "x"},
        "environment.engine = 3: must be a name or a mapping of keys to values": 3,
    }
    for line, engine in expected.items():
        with pytest.raises(ValidationError) as caught:
            Experiment.model_validate({"environment": {"engine": engine}})
        assert line in explain(caught.value, Experiment)
