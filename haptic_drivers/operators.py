"""Operators: the simulated hands that act on a device. Wrenches are at the hand point, in world axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from haptic_sim.parameters import ParameterError, Parameters, Wrench, quantity

COLUMNS = ("time", "fx", "fy", "fz", "tx", "ty", "tz")


class OperatorParameters(Parameters):
    """What all operators have."""

    release: float | None = quantity(
        None, unit="s", description="The wrench is zero from this time on; null: never", ge=0.0
    )


class ConstantParameters(OperatorParameters):
    """The same wrench all the time."""

    type: Literal["constant"] = "constant"
    wrench: Wrench = quantity(unit="N, N m", description="Wrench [fx, fy, fz, tx, ty, tz]")


class SineParameters(OperatorParameters):
    """offset + amplitude sin(2 pi frequency t + phase)."""

    type: Literal["sine"] = "sine"
    amplitude: Wrench = quantity(unit="N, N m", description="Amplitude [fx, fy, fz, tx, ty, tz]")
    frequency: float = quantity(unit="Hz", description="Frequency", ge=0.0)
    phase: float = quantity(0.0, unit="rad", description="Phase at the start")
    offset: Wrench = quantity((0.0,) * 6, unit="N, N m", description="Mean [fx, fy, fz, tx, ty, tz]")


class FileParameters(OperatorParameters):
    """Recorded wrenches: linear interpolation between the rows of a CSV file, zero outside its times."""

    type: Literal["file"] = "file"
    path: str = quantity(description="CSV with the header " + ",".join(COLUMNS))


AnyOperatorParameters = Annotated[ConstantParameters | SineParameters | FileParameters, Field(discriminator="type")]


class Operator(Protocol):
    """Anything that says what the hand applies at a time."""

    def wrench(self, time: float, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]."""


class Constant:
    """See `ConstantParameters`."""

    def __init__(self, parameters: ConstantParameters):
        self._wrench = np.array(parameters.wrench)

    def wrench(self, time: float, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]."""
        out[:] = self._wrench


class Sine:
    """See `SineParameters`."""

    def __init__(self, parameters: SineParameters):
        self._amplitude, self._offset = np.array(parameters.amplitude), np.array(parameters.offset)
        self._frequency, self._phase = 2 * math.pi * parameters.frequency, parameters.phase

    def wrench(self, time: float, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]."""
        np.multiply(self._amplitude, math.sin(self._frequency * time + self._phase), out=out)
        out += self._offset


class Recorded:
    """See `FileParameters`; `table` as from `read_table`."""

    def __init__(self, table: np.ndarray):
        self._times, self._wrenches = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1:])
        self._row = 0  # times are asked for in order: the search starts at the last row

    def wrench(self, time: float, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]."""
        times = self._times
        if not times[0] <= time <= times[-1]:
            out[:] = 0.0
            return
        if time < times[self._row]:
            self._row = 0
        while self._row < times.size - 2 and times[self._row + 1] <= time:
            self._row += 1
        i = self._row
        if times.size == 1:
            out[:] = self._wrenches[0]
            return
        part = (time - times[i]) / (times[i + 1] - times[i])
        out[:] = (1.0 - part) * self._wrenches[i] + part * self._wrenches[i + 1]


class Released:
    """Another operator until it lets go."""

    def __init__(self, operator: Operator, release: float):
        self._operator, self._release = operator, release

    def wrench(self, time: float, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m] for `time` [s]."""
        if time < self._release:
            self._operator.wrench(time, out)
        else:
            out[:] = 0.0


def build_operator(
    parameters: ConstantParameters | SineParameters | FileParameters, table: np.ndarray | None = None
) -> Operator:
    """The operator of some parameters; `table` holds the rows of a `file` operator."""
    operator: Operator
    match parameters:
        case ConstantParameters():
            operator = Constant(parameters)
        case SineParameters():
            operator = Sine(parameters)
        case FileParameters():
            if table is None:
                raise TypeError("a file operator needs its table")
            operator = Recorded(table)
    return operator if parameters.release is None else Released(operator, parameters.release)


def read_table(lines: Iterable[str], name: str) -> np.ndarray:
    """Rows of a wrench file, (n, 7): time [s], force [N], torque [N m].

    Raises:
        ParameterError: a line that is not seven finite numbers, or times that do not increase; names the line.
    """
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1:
            if tuple(cells) != COLUMNS:
                raise ParameterError([f"{name}, line 1: {line.strip()!r}: must be the header {','.join(COLUMNS)}"])
            continue
        if not line.strip():
            continue
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            row = []
        if len(row) != len(COLUMNS) or not all(math.isfinite(value) for value in row):
            raise ParameterError([f"{name}, line {number}: {line.strip()!r}: must be seven finite numbers"])
        if rows and row[0] <= rows[-1][0]:
            raise ParameterError(
                [f"{name}, line {number}: time = {row[0]:g} s: must be after the line before ({rows[-1][0]:g} s)"]
            )
        rows.append(row)
    if not rows:
        raise ParameterError([f"{name}: no rows: must have the header {','.join(COLUMNS)} and at least one row"])
    return np.array(rows)
