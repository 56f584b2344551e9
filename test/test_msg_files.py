"""Definitions of messages: what is read of a file, what is refused, and what follows for kernels and type checkers."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from haptic_sim import definitions, installed, msg_files, msg_stub
from haptic_sim.messages import TOPICS, DeviceState, ToolCommand, ToolState
from haptic_sim.msg_files import DefinitionError, parse


def test_a_definition_is_read() -> None:
    read = parse(
        "X",
        "# What it is.\n# More of it.\n\nuint8 ON=3 # a constant\nint8 OFF = -1\nstd_msgs/Header header\n"
        "int32 body -1  # of the world # or the hand\nfloat64[3] a\nuint16[] b# close\ngeometry_msgs/Pose[2] poses\n"
        "EnergyBalance energy\n",
    )
    assert (read.name, read.type, read.meaning) == ("X", "haptics/msg/X", "What it is.\nMore of it.")
    assert read.constants == {"ON": 3, "OFF": -1}
    assert [(one.name, one.dtype, one.count, one.sequence, one.width) for one in read.fields] == [
        ("body", "<i4", 1, False, 1),
        ("a", "<f8", 3, False, 1),
        ("b", "<u2", 1, True, 1),
        ("poses", "<f8", 14, False, 1),
        ("energy", "<f8", 8, False, 1),
    ]
    assert (read.fields[0].default, read.fields[0].meaning) == (-1, "of the world # or the hand")
    assert (read.fields[2].default, read.fields[2].meaning) == (0, "close")


@pytest.mark.parametrize(
    "line", ["float64[<=3] q", "float64", "float64 a 1.5", 'string s "x"', "uint8[2] A=1", "uint8 A=", "float64 a b"]
)
def test_what_is_not_supported_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse("X", f"# first\nint64 tick\n{line}  # and why\n")
    assert str(caught.value) == (
        f"X.msg:3: {line!r}: must be TYPE NAME, TYPE[] NAME, TYPE[LENGTH] NAME, TYPE NAME DEFAULT or TYPE NAME=VALUE"
    )


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"^Twisted: is not a message: must be one of Back.*, .*WorldState,"):
        _ = parse("X", "Twisted twist\n").fields


@pytest.mark.parametrize("text", ["uint8 a\nuint64 b\n", "uint8[] a\n", "string a\n"])
def test_an_element_has_constant_length_and_no_padding(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"^X\.msg: [ab]: must be of constant length and begin at a multiple"):
        _ = parse("X", text).element


def test_classes_are_as_their_files() -> None:
    assert {cls.__name__ for cls in TOPICS.values()} == {
        name for name in msg_files.names() if msg_files.definition(name).is_servo
    }
    assert (inspect.getdoc(DeviceState) or "").startswith("State of the device at the beginning of a servo tick,")
    assert (ToolState.RESTING, ToolCommand().body, DeviceState().command_tick) == (2, -1, 0)
    assert vars(DeviceState)["command_tick"].__doc__ == (
        "of the command rendered during the previous tick, -1: none, zero force"
    )


def test_kernels_have_the_values_of_a_message() -> None:
    state = ToolState(q=4, v=3, multipliers=0, constraint_directions=36)
    arrays = state.arrays()
    assert arrays._fields == ("sec", "nanosec", *(field.name for field in ToolState.FIELDS))
    assert all(np.shares_memory(array, state._buffer) for array in arrays if array.size)
    assert definitions.ToolStateArrays.impulse.__doc__ == (  # type: ignore[attr-defined]
        "of the contacts on the tool since the start of the trial, world axes [N s, N m s], (6,) of float64"
    )
    assert pickle.loads(pickle.dumps(definitions.ToolStateArrays)) is ToolState.Arrays


def test_the_stub_is_that_of_the_files() -> None:
    written = (ROOT / "haptic_sim" / "definitions.pyi").read_text(encoding="utf-8")
    assert written == msg_stub.stub(), "python -m haptic_sim.msg_stub > haptic_sim/definitions.pyi"


def test_files_of_an_installation_are_in_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "PACKAGES", tmp_path / "lib" / "python3.11" / "site-packages")
    assert installed.shared_folder("msg", "*.msg") is None
    folder = tmp_path / "share" / "haptics" / "msg"
    folder.mkdir(parents=True)
    assert installed.shared_folder("msg", "*.msg") is None
    (folder / "A.msg").touch()
    assert installed.shared_folder("msg", "*.msg") == folder
