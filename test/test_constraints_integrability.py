"""Frobenius cases: integrable, nonholonomic, mixed; series against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.integrability import Series, integrability

r = 0.03


def upright_disk(q):
    """FAULRING (25)."""
    c, s = np.cos(q[3]), np.sin(q[3])
    return [[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, r * c, 0], [0, 1, 0, 0, r * s, 0]]


def test_rolling_disk_has_two_integrable_rows_of_four():
    found = integrability(upright_disk, [0.1, 0.2, 0.03, 0.4, 0.5, math.pi / 2])
    assert found.kind == "mixed" and found.holonomic == 2
    assert found.growth == (2, 3, 4)
    assert found.integrable_rows == (True, True, False, False)


def test_knife_edge_is_nonholonomic():
    found = integrability(lambda q: [[np.sin(q[2]), -np.cos(q[2]), 0]], [0.0, 0.0, 0.3])
    assert found.kind == "nonholonomic" and found.growth == (2, 3)
    assert not any(found.integrable_rows)


def test_gradients_times_a_factor_are_integrable():
    """e^{q0} grad(q0 q1 + sin q2) and grad(q1^2 q3) / q0."""

    def rows(q):
        f, g = np.exp(q[0]), 1.0 / q[0]
        return [[f * q[1], f * q[0], f * np.cos(q[2]), 0.0], [0.0, g * 2 * q[1] * q[3], 0.0, g * q[1] ** 2]]

    found = integrability(rows, [0.5, 0.7, 0.3, 0.9])
    assert found.kind == "integrable" and found.integrable_rows == (True, True) and found.growth == (2,)


def test_rows_mixed_together_show_the_integrable_combination():
    """x dy - dz alone is not integrable, dw is; the rows given are their sum and difference."""

    def rows(q):
        return [[0.0, q[0], -1.0, 1.0], [0.0, q[0], -1.0, -1.0]]

    found = integrability(rows, [0.5, 0.7, 0.3, 0.9])
    assert found.kind == "mixed" and found.integrable_rows == (False, False)
    assert abs(found.combinations @ [1.0, -1.0]) == pytest.approx([math.sqrt(2.0)])


def test_engel_chain_needs_brackets_of_brackets():
    found = integrability(lambda q: [[-q[2], 1, 0, 0], [-q[3], 0, 1, 0]], np.zeros(4))
    assert found.growth == (2, 3, 4) and found.kind == "nonholonomic"


def test_a_point_where_brackets_vanish_does_not_decide():
    """dz - y^3 dx: at y = 0 the first two brackets vanish, around it they do not."""
    found = integrability(lambda q: [[-(q[1] ** 3), 0.0, 1.0]], np.zeros(3))
    assert found.kind == "nonholonomic"


def test_rolling_on_a_sphere_and_on_one_of_equal_size():
    """Rolling without slip alone leaves spinning: dimension 3 in 5, all of which are reached, growth (3, 5)."""

    def rows(q):  # latitude, longitude, psi, theta, phi, at contact: YUN with the rows of true rolling
        k, d = 0.05 / 0.6, q[2] - q[1]
        ca, sa, ct, st, cd, sd = (f(x) for x in (q[0], q[3], d) for f in (np.cos, np.sin))
        return [[1, 0, 0, -k * sd, k * st * cd], [0, ca, -k * ca, -k * sa * cd, -k * (sa * st * sd + ca * ct)]]

    found = integrability(rows, [0.3, 0.2, 0.5, 0.8, 0.1])
    assert found.kind == "nonholonomic" and found.growth[0] == 3 and found.growth[-1] == 5


def test_a_rate_that_depends_on_the_state_can_spoil_integrability():
    """y_t = x is not integrable in (x, y, t); y_t = 2 is."""
    row = [[0.0, 1.0]]
    assert integrability(lambda q: row, [0.3, 0.2], rate=lambda q: [2.0]).kind == "integrable"
    assert integrability(lambda q: row, [0.3, 0.2], rate=lambda q: [q[0]]).kind == "nonholonomic"


def test_series_have_the_derivatives_of_the_functions():
    x, y = Series.variables(np.array([0.4, 0.9]), 5)
    f = np.exp(x * y) * np.sin(x) / np.sqrt(y) + np.log(y) * np.cos(x) ** 3 - np.tan(x) + y**-1.5

    def value(a, b):
        return math.exp(a * b) * math.sin(a) / math.sqrt(b) + math.log(b) * math.cos(a) ** 3 - math.tan(a) + b**-1.5

    h = 1e-3
    second = [(value(0.4 + h, b) - 2 * value(0.4, b) + value(0.4 - h, b)) / h**2 for b in (0.9 + h, 0.9 - h)]
    expected = (second[0] - second[1]) / (2 * h)
    assert f.x[0] == pytest.approx(value(0.4, 0.9), rel=1e-14)
    assert f.derivative(0).derivative(0).derivative(1).x[0] == pytest.approx(expected, rel=1e-4)


def test_wrong_shapes_are_refused():
    with pytest.raises(ConstraintError, match=r"rows\(q\) has the shape \(2,\): must be \(m, 2\)"):
        integrability(lambda q: [1.0, 2.0], [0.0, 0.0])
