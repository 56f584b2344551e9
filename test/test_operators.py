"""Simulated hands: what they apply when, and what is said of a bad wrench file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from haptic_drivers.operators import (
    COLUMNS,
    ArmParameters,
    ConstantParameters,
    FileParameters,
    Operator,
    SineParameters,
    build_operator,
    read_table,
)
from haptic_sim.parameters import ParameterError

WRENCH = (0.32, -0.4, 0.1, 0.01, -0.02, 0.03)
HEADER = "time,fx,fy,fz,tx,ty,tz"


def applied(operator: Operator, time: float) -> np.ndarray:
    out = np.full(6, 77.0)
    operator.wrench(time, np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6), out)
    return out


def recorded(table: Any, **more: Any) -> Operator:
    return build_operator(FileParameters(path="x.csv", **more), np.array(table, float))


def row(time: float, value: float) -> list[float]:
    return [time, *(value * np.arange(1, 7))]


def swung(period: float, mass: float, **more: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the force along x of an arm that goes 0.1 m in 0.5 s, on a device that swings: (n,), (n,)."""
    arm = build_operator(ArmParameters(path=((0.1, 0, 0, 0), (0.6, 0.1, 0, 0)), mass=mass, **more))
    times, forces, out = np.arange(0.0, 1.0 + period / 2, period), [], np.zeros(6)
    for time in times:
        x, v = device(time)
        arm.wrench(float(time), np.array([x, 0, 0, 0, 0, 0, 1]), np.array([v, 0.0, 0, 0, 0, 0]), out)
        forces.append(out[0])
    return times, np.array(forces)


def device(time: float) -> tuple[float, float]:
    return 0.01 * (1.0 - np.cos(9.0 * time)), 0.09 * np.sin(9.0 * time)


def aim(time: float) -> tuple[float, float]:
    phase = np.pi * np.clip((time - 0.1) / 0.5, 0.0, 1.0)
    return 0.05 * (1.0 - np.cos(phase)), 0.05 * np.pi / 0.5 * np.sin(phase)


def test_hand_with_a_mass_is_what_an_independent_integration_says_and_converges() -> None:
    gains = {"stiffness": 300.0, "damping": 12.0, "grip_stiffness": 900.0, "grip_damping": 7.0}

    def grip(time: float, x: float, v: float) -> float:
        at, moving = device(time)
        return 900.0 * (x - at) + 7.0 * (v - moving)

    def motion(time: float, state: np.ndarray) -> list[float]:
        place, velocity = aim(time)
        arm = 300.0 * (place - state[0]) + 12.0 * (velocity - state[1])
        return [state[1], (arm - grip(time, *state)) / 1.5]

    errors = []
    for period in (2e-3, 1e-3):
        times, forces = swung(period, 1.5, **gains)
        exact = solve_ivp(motion, (0.0, 1.001), [0.0, 0.0], "DOP853", times, rtol=1e-10, atol=1e-12, max_step=0.01)
        expected = [grip(*each) for each in zip(times, *exact.y, strict=True)]
        errors.append(np.abs(forces - expected).max())
    assert errors[1] < 1e-3 and errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_light_hand_in_a_hard_grip_is_nearly_one_without_a_mass() -> None:
    _, without = swung(1e-3, 0.0)
    _, light = swung(1e-3, 1e-6, grip_stiffness=1e5, grip_damping=1e4)
    assert np.abs(light - without)[10:].max() < 0.01 * np.abs(without).max()
    times, expected = swung(1e-3, 0.0, stiffness=250.0, damping=3.0)
    springs = [250.0 * (aim(t)[0] - device(t)[0]) + 3.0 * (aim(t)[1] - device(t)[1]) for t in times]
    assert np.allclose(expected, springs, rtol=0, atol=1e-12)


def test_hand_with_a_mass_gives_back_no_more_than_it_got() -> None:
    """An arm that stays where it is, under device velocities that are held over each tick: passive, whatever it is."""
    random = np.random.default_rng(3)
    for _ in range(20):
        gains = 10.0 ** random.uniform(0, 5, 4) * (random.uniform(size=4) < 0.8)
        names = ("stiffness", "damping", "grip_stiffness", "grip_damping")
        values = {name: min(value, 1e4) for name, value in zip(names, gains, strict=True)}
        arm = build_operator(ArmParameters(path=((0.0, 0, 0, 0),), mass=float(10.0 ** random.uniform(-3, 1)), **values))
        pose, twist, out, before = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6), np.zeros(6), np.zeros(6)
        arm.wrench(0.0, pose, twist, before)
        given, most = 0.0, -np.inf
        for k in range(1, 2000):
            moved = random.normal(size=3) * 1e-4
            pose[:3] += moved
            # Velocity at the end of a tick such that the mean of both ends is that of the tick.
            twist[:3] = 2.0 * moved / 1e-3 - twist[:3]
            arm.wrench(1e-3 * k, pose, twist, out)
            given += 0.5 * (out + before)[:3] @ moved
            before[:] = out
            most = max(most, given)
        assert most <= 1e-12


@pytest.mark.parametrize("time", [0.0, 0.1, 3600.0])
def test_constant(time: float) -> None:
    np.testing.assert_array_equal(applied(build_operator(ConstantParameters(wrench=WRENCH)), time), WRENCH)


def test_sine_is_offset_plus_amplitude() -> None:
    """At 2.5 Hz: none at 0, a quarter period later the amplitude, and the whole form at generic times."""
    offset = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    operator = build_operator(SineParameters(amplitude=WRENCH, frequency=2.5, offset=offset))
    np.testing.assert_array_equal(applied(operator, 0.0), offset)
    np.testing.assert_allclose(applied(operator, 0.1), np.add(offset, WRENCH), rtol=1e-15)
    np.testing.assert_allclose(applied(operator, 0.3), np.subtract(offset, WRENCH), rtol=1e-15)
    operator = build_operator(SineParameters(amplitude=WRENCH, frequency=2.5, phase=0.7))
    for time in (0.0, 0.013, 1.7):
        expected = np.array(WRENCH) * np.sin(2 * np.pi * 2.5 * time + 0.7)
        np.testing.assert_allclose(applied(operator, time), expected, rtol=1e-13)


def test_sine_of_no_frequency_is_constant() -> None:
    operator = build_operator(SineParameters(amplitude=WRENCH, frequency=0.0, phase=np.pi / 2))
    np.testing.assert_allclose(applied(operator, 5.0), WRENCH, rtol=1e-15)


def test_file_interpolates_between_its_rows() -> None:
    table = [row(0.5, 1.0), row(1.0, 3.0), row(1.25, -2.0), row(4.0, 5.0)]
    operator = recorded(table)
    for time, value in (
        (0.5, 1),
        (0.6, 1.4),
        (0.75, 2),
        (1.0, 3),
        (1.1, 1),
        (1.25, -2),
        (2.625, 1.5),
        (4.0, 5),
    ):
        np.testing.assert_allclose(applied(operator, time), value * np.arange(1, 7), rtol=1e-14, atol=1e-14)


def test_file_is_numpys_interpolation_whatever_the_order_of_times() -> None:
    """Also when time goes back, as after a reset."""
    rng = np.random.default_rng(20260)
    times = np.cumsum(rng.uniform(1e-3, 0.1, 80))
    table = np.column_stack([times, rng.normal(size=(80, 6))])
    operator = recorded(table)
    asked = np.concatenate(
        [np.linspace(-0.1, times[-1] + 0.1, 500), rng.uniform(0, times[-1], 500), times, times[::-1]]
    )
    for time in asked:
        inside = times[0] <= time <= times[-1]
        expected = [np.interp(time, times, table[:, i]) if inside else 0.0 for i in range(1, 7)]
        np.testing.assert_allclose(applied(operator, time), expected, rtol=1e-12, atol=1e-12)


def test_file_is_exact_at_its_rows() -> None:
    rng = np.random.default_rng(20261)
    table = np.column_stack([np.cumsum(rng.uniform(1e-3, 0.1, 50)), rng.normal(size=(50, 6))])
    operator = recorded(table)
    for line in table:
        np.testing.assert_array_equal(applied(operator, line[0]), line[1:])


def test_file_is_zero_outside_its_times() -> None:
    operator = recorded([row(0.5, 1.0), row(1.0, 3.0)])
    for time in (-1.0, 0.0, np.nextafter(0.5, 0), np.nextafter(1.0, 2), 99.0):
        np.testing.assert_array_equal(applied(operator, time), np.zeros(6))
    np.testing.assert_array_equal(applied(operator, 0.75), 2.0 * np.arange(1, 7))


def test_file_of_one_row_acts_at_its_time() -> None:
    operator = recorded([row(0.5, 2.0)])
    for time, value in ((0.4, 0.0), (0.5, 2.0), (0.6, 0.0), (0.5, 2.0)):
        np.testing.assert_array_equal(applied(operator, time), value * np.arange(1, 7))


@pytest.mark.parametrize(
    "operator",
    [
        build_operator(ConstantParameters(wrench=WRENCH, release=0.5)),
        build_operator(SineParameters(amplitude=(0,) * 6, frequency=1.0, offset=WRENCH, release=0.5)),
        recorded([[0.0, *WRENCH], [9.0, *WRENCH]], release=0.5),
    ],
    ids=["constant", "sine", "file"],
)
def test_released_from_its_time_on(operator: Operator) -> None:
    for time in (0.0, 0.25, np.nextafter(0.5, 0)):
        np.testing.assert_allclose(applied(operator, time), WRENCH, rtol=1e-15)
    for time in (0.5, 0.6, 99.0):
        np.testing.assert_array_equal(applied(operator, time), np.zeros(6))


def test_released_at_once_never_acts() -> None:
    operator = build_operator(ConstantParameters(wrench=WRENCH, release=0.0))
    np.testing.assert_array_equal(applied(operator, 0.0), np.zeros(6))


def test_file_operator_needs_its_table() -> None:
    with pytest.raises(TypeError) as caught:
        build_operator(FileParameters(path="x.csv"))
    assert str(caught.value) == "a file operator needs its table"


def test_table_is_read() -> None:
    lines = [HEADER, "0,1,2,3,4,5,6\n", "", " 0.5 , -1e-3,0,+2.5,0,0,1E2 \n", "   "]
    expected = [[0, 1, 2, 3, 4, 5, 6], [0.5, -1e-3, 0, 2.5, 0, 0, 100]]
    np.testing.assert_array_equal(read_table(lines, "w.csv"), expected)
    np.testing.assert_array_equal(read_table([", ".join(COLUMNS), "0,0,0,0,0,0,1"], "w.csv"), [[0] * 6 + [1]])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], f"w.csv: no rows: must have the header {HEADER} and at least one row"),
        ([HEADER], f"w.csv: no rows: must have the header {HEADER} and at least one row"),
        ([HEADER, "", " "], f"w.csv: no rows: must have the header {HEADER} and at least one row"),
        (["0,1,2,3,4,5,6"], f"w.csv, line 1: '0,1,2,3,4,5,6': must be the header {HEADER}"),
        (["", HEADER], f"w.csv, line 1: '': must be the header {HEADER}"),
        (
            ["time,fx,fy,fz,tx,ty", "0,0,0,0,0,0"],
            f"w.csv, line 1: 'time,fx,fy,fz,tx,ty': must be the header {HEADER}",
        ),
        ([HEADER, "0,0,0,0,0,0"], "w.csv, line 2: '0,0,0,0,0,0': must be seven finite numbers"),
        ([HEADER, "0,0,0,0,0,0,0,0"], "w.csv, line 2: '0,0,0,0,0,0,0,0': must be seven finite numbers"),
        ([HEADER, "0,0,0,0,0,0,"], "w.csv, line 2: '0,0,0,0,0,0,': must be seven finite numbers"),
        ([HEADER, "0,0,0,0,0,0,x"], "w.csv, line 2: '0,0,0,0,0,0,x': must be seven finite numbers"),
        (
            [HEADER, "0,0,0,0,0,0,0", "", "1,nan,0,0,0,0,0"],
            "w.csv, line 4: '1,nan,0,0,0,0,0': must be seven finite numbers",
        ),
        ([HEADER, "0,0,0,-inf,0,0,0"], "w.csv, line 2: '0,0,0,-inf,0,0,0': must be seven finite numbers"),
        ([HEADER, "inf,0,0,0,0,0,0"], "w.csv, line 2: 'inf,0,0,0,0,0,0': must be seven finite numbers"),
        ([HEADER, "0;0;0;0;0;0;0"], "w.csv, line 2: '0;0;0;0;0;0;0': must be seven finite numbers"),
        (
            [HEADER, "0,0,0,0,0,0,0", "1,0,0,0,0,0,0", "0.5,0,0,0,0,0,0"],
            "w.csv, line 4: time = 0.5 s: must be after the line before (1 s)",
        ),
        (
            [HEADER, "1,0,0,0,0,0,0", "1,0,0,0,0,0,0"],
            "w.csv, line 3: time = 1 s: must be after the line before (1 s)",
        ),
    ],
)
def test_a_bad_table_is_named_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_table(lines, "w.csv")
    assert caught.value.problems == [said]
