"""Parameter objects: frozen, strict, and one line of text for each kind of problem."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from haptic_sim import parameters
from haptic_sim.parameters import (
    Gains,
    NotNegativePair,
    ParameterError,
    Parameters,
    PositivePair,
    Wrench,
    explain,
    quantity,
    six,
    variant_of,
)


class Inner(Parameters):
    stiffness: float = quantity(4000.0, unit="N/m", description="Stiffness", gt=0.0, le=1e7)
    damping: float = quantity(30.0, unit="N s/m", description="Damping", ge=0.0, lt=1e5)
    count: int = quantity(3, description="How many", ge=1)
    enabled: bool = quantity(True, description="Whether")
    per: Literal["point", "wall"] = quantity("point", description="What for")


class Round(Parameters):
    type: Literal["round"] = "round"
    radius: float = quantity(unit="m", description="Radius", gt=0.0)


class Square(Parameters):
    type: Literal["square", "box"] = "square"
    size: PositivePair = quantity((1.0, 1.0), unit="m", description="Extent")
    inner: Inner = quantity(Inner(), description="Within a variant")


class Outer(Parameters):
    name: str = quantity("x", description="Name")
    inner: Inner = quantity(Inner(), description="Section")
    shape: Annotated[Round | Square, Field(discriminator="type")] = quantity(Round(radius=1.0), description="Shape")
    gains: Gains = quantity((1.0, 1.0, 1.0), unit="N/m", description="Gains")
    pair: NotNegativePair = quantity((0.0, 0.0), description="Pair")
    wrench: Wrench = quantity((0.0,) * 6, unit="N, N m", description="Wrench")
    duration: float | None = quantity(None, unit="s", description="Duration", ge=0.0)


def said(data: Any, prefix: str = "") -> list[str]:
    """What is said of unacceptable parameters of `Outer`."""
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(data)
    return explain(caught.value, Outer, prefix)


def test_a_number_within_sections_is_read_and_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pydantic hands the schema of a section over again for each model that contains it."""
    read = []
    monkeypatch.setattr(parameters, "_number", lambda _, value: read.append(value) or value)

    class Part(Parameters):
        number: float = quantity(description="Number")

    class Section(Parameters):
        part: Part = quantity(description="Part")

    class Whole(Parameters):
        section: Section = quantity(description="Section")

    assert Whole.model_validate({"section": {"part": {"number": 2.0}}}).section.part.number == 2.0
    assert read == [2.0]


NAN, INF = float("nan"), float("inf")
MAPPING = "must be a mapping of keys to values"
SHAPES = "must be one of 'round', 'square', 'box'"
THREE_OR_SIX = "must have 3 (x, y, rotation about z) or 6"
OUTER = "(known: name, inner, shape, gains, pair, wrench, duration)"
INNER = "(known: stiffness, damping, count, enabled, per)"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        # bounds, each kind, with the unit on both sides
        ({"inner": {"stiffness": 0}}, "inner.stiffness = 0 N/m: must be > 0 N/m"),
        ({"inner": {"stiffness": -2.5}}, "inner.stiffness = -2.5 N/m: must be > 0 N/m"),
        ({"inner": {"stiffness": 2e7}}, "inner.stiffness = 2e+07 N/m: must be <= 1e+07 N/m"),
        ({"inner": {"damping": -1}}, "inner.damping = -1 N s/m: must be >= 0 N s/m"),
        ({"inner": {"damping": 1e5}}, "inner.damping = 100000 N s/m: must be < 100000 N s/m"),
        ({"inner": {"count": 0}}, "inner.count = 0: must be >= 1"),
        ({"duration": -3}, "duration = -3 s: must be >= 0 s"),
        # not finite
        ({"inner": {"stiffness": NAN}}, "inner.stiffness = nan N/m: must be finite"),
        ({"inner": {"damping": INF}}, "inner.damping = inf N s/m: must be finite"),
        ({"inner": {"damping": -INF}}, "inner.damping = -inf N s/m: must be finite"),
        ({"duration": NAN}, "duration = nan s: must be finite"),
        ({"gains": [1, NAN, 1]}, "gains[1] = nan N/m: must be finite"),
        ({"wrench": [0, 0, 0, 0, 0, INF]}, "wrench[5] = inf N, N m: must be finite"),
        ({"shape": {"type": "square", "size": [NAN, 1]}}, "shape.size[0] = nan m: must be finite"),
        # of the name of a variant
        (
            {"shape": {"type": "round", "radius": 1, "round": 1}},
            "shape.round: unknown key (known: type, radius)",
        ),
        # of another kind
        ({"inner": {"stiffness": "soft"}}, "inner.stiffness = soft: must be a number"),
        ({"inner": {"stiffness": None}}, "inner.stiffness = null: must be a number"),
        ({"inner": {"stiffness": [1, 2.5]}}, "inner.stiffness = [1, 2.5]: must be a number"),
        ({"inner": {"stiffness": True}}, "inner.stiffness = true: must not be true or false"),
        ({"inner": {"count": False}}, "inner.count = false: must not be true or false"),
        ({"inner": {"count": 1.5}}, "inner.count = 1.5: must be a whole number"),
        ({"inner": {"count": "many"}}, "inner.count = many: must be a whole number"),
        ({"inner": {"count": [1]}}, "inner.count = [1]: must be a whole number"),
        ({"inner": {"enabled": "perhaps"}}, "inner.enabled = perhaps: must be true or false"),
        ({"inner": {"enabled": [1]}}, "inner.enabled = [1]: must be true or false"),
        ({"inner": {"per": "edge"}}, "inner.per = edge: must be 'point' or 'wall'"),
        ({"inner": {"per": True}}, "inner.per = true: must be 'point' or 'wall'"),
        ({"name": 3}, "name = 3: must be a text"),
        ({"gains": "soft"}, "gains = soft: must be a list (Gains)"),
        ({"gains": 3}, "gains = 3 N/m: must be a list (Gains)"),
        ({"wrench": [0, 0, "up", 0, 0, 0]}, "wrench[2] = up: must be a number"),
        ({"inner": 3}, f"inner = 3: {MAPPING}"),
        ({"inner": None}, f"inner = null: {MAPPING}"),
        ({"inner": [1]}, f"inner = [1]: {MAPPING}"),
        ({"shape": "round"}, f"shape = round: {MAPPING}"),
        # true and false are no numbers in a list either
        ({"gains": [True, 1, 1]}, "gains[0] = true: must not be true or false"),
        ({"wrench": [0, 0, 0, 0, False, 0]}, "wrench[4] = false: must not be true or false"),
        ({"shape": {"type": "square", "size": [1, True]}}, "shape.size[1] = true: must not be true or false"),
        # number and sign of the values of a list
        ({"gains": [1, 2]}, "gains = [1, 2]: has 2 values: must have 3 (x, y, rotation about z) or 6"),
        ({"gains": [1.5] * 4}, f"gains = [1.5, 1.5, 1.5, 1.5]: has 4 values: {THREE_OR_SIX}"),
        ({"gains": []}, "gains = []: has 0 values: must have 3 (x, y, rotation about z) or 6"),
        ({"gains": [1, 2, -0.5]}, "gains[2] = -0.5: must be >= 0"),
        ({"pair": [1, 2, 3]}, "pair = [1, 2, 3]: must have 2 values"),
        ({"pair": [0, -1]}, "pair[1] = -1: must be >= 0"),
        ({"pair": [1]}, "pair[1]: missing (Pair)"),
        ({"shape": {"type": "square", "size": [1, 0]}}, "shape.size[1] = 0: must be > 0"),
        # keys
        ({"frobnicate": 1}, f"frobnicate: unknown key {OUTER}"),
        ({"nam": "x"}, f"nam: unknown key; did you mean name? {OUTER}"),
        ({"inner": {"stifness": 1}}, f"inner.stifness: unknown key; did you mean stiffness? {INNER}"),
        ({"inner": {"zzz": 1}}, f"inner.zzz: unknown key {INNER}"),
        (
            {"shape": {"type": "round", "radus": 1, "radius": 2}},
            "shape.radus: unknown key; did you mean radius? (known: type, radius)",
        ),
        (
            {"shape": {"type": "box", "innr": {}}},
            "shape.innr: unknown key; did you mean inner? (known: type, size, inner)",
        ),
        (
            {"shape": {"type": "box", "inner": {"cout": 1}}},
            f"shape.inner.cout: unknown key; did you mean count? {INNER}",
        ),
        ({"shape": {"type": "round"}}, "shape.radius: missing (Radius)"),
        # variants
        ({"shape": {"type": "star"}}, f"shape.type = star: {SHAPES}"),
        ({"shape": {"type": None}}, f"shape.type = None: {SHAPES}"),
        ({"shape": {"radius": 2}}, "shape: missing the key 'type'"),
        ({"shape": {"type": "round", "radius": -1}}, "shape.radius = -1 m: must be > 0 m"),
        (
            {"shape": {"type": "box", "inner": {"damping": -1}}},
            "shape.inner.damping = -1 N s/m: must be >= 0 N s/m",
        ),
    ],
)
def test_each_problem_is_one_exact_line(data: dict[str, Any], line: str) -> None:
    assert said(data) == [line]


def test_problems_come_together_and_take_a_prefix() -> None:
    data = {"inner": {"stiffness": 0, "dampin": 1}, "duration": "long"}
    assert said(data, "trial.") == [
        "trial.inner.stiffness = 0 N/m: must be > 0 N/m",
        f"trial.inner.dampin: unknown key; did you mean damping? {INNER}",
        "trial.duration = long: must be a number",
    ]


def test_error_joins_its_problems() -> None:
    error = ParameterError(line for line in ("a: wrong", "b: wrong"))
    assert error.problems == ["a: wrong", "b: wrong"]
    assert str(error) == "a: wrong\nb: wrong"


def test_numbers_are_taken_as_written() -> None:
    """YAML 1.1 reads 1e3 as a text: it is a number all the same."""
    outer = Outer.model_validate({"inner": {"stiffness": "1e3"}, "gains": [1, 2, 3], "duration": 0})
    assert (outer.inner.stiffness, outer.gains, outer.duration) == (1000.0, (1.0, 2.0, 3.0), 0.0)


def test_bounds_themselves() -> None:
    inner = Inner.model_validate({"stiffness": 1e7, "damping": 0.0, "count": 1})
    assert (inner.stiffness, inner.damping, inner.count) == (1e7, 0.0, 1)


def test_values_cannot_change() -> None:
    with pytest.raises(ValidationError) as caught:
        Inner().stiffness = 5.0
    assert caught.value.errors()[0]["type"] == "frozen_instance"


def test_six_spreads_planar_values() -> None:
    assert six((1.0, 2.0, 3.0)) == (1.0, 2.0, 0.0, 0.0, 0.0, 3.0)
    assert six([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert six(value / 2 for value in (1, 2, 3)) == (0.5, 1.0, 0.0, 0.0, 0.0, 1.5)


def test_variants_by_tag() -> None:
    assert variant_of(Outer, "shape", "round") is Round
    assert variant_of(Outer, "shape", "square") is Square
    assert variant_of(Outer, "shape", "box") is Square
    assert variant_of(Outer, "shape", "star") is None
    assert variant_of(Outer, "inner", "round") is None
    assert variant_of(Outer, "nothing", "round") is None


def test_declarations_carry_unit_and_description() -> None:
    field = Inner.model_fields["stiffness"]
    assert field.description == "Stiffness"
    assert field.json_schema_extra["unit"] == "N/m"
    assert field.default == 4000.0
    assert Round.model_fields["radius"].is_required()
