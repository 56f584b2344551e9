"""The gallery of systems from formulas: against other equations of motion, and published numbers.

Each system is compared with equations in other coordinates (bodies' axes, one angle, momenta), without multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from claim_checks import Run, load
from scipy.integrate import solve_ivp

from benchmarks.closed_linkage import ClosedLinkage
from haptic_bench.analysis.base import analysis_of, scene_as
from haptic_experiments import bicycle
from haptic_experiments.common.formula_systems import Motion
from haptic_sim.constraints.scenes import ConstraintParameters, FormulasParameters, build_setup
from haptic_sim.constraints.system import System


def motion(name: str, *settings: str) -> Motion:
    run = Run(name, *settings)
    return Motion(run.trial, run.samples)


def system(name: str, *settings: str) -> System:
    scene = scene_as(load(name, *settings).experiment, FormulasParameters)
    found = build_setup(scene, ConstraintParameters()).system
    assert isinstance(found, System)
    return found


def integrated(f: Callable[[float, np.ndarray], np.ndarray], start: np.ndarray, time: np.ndarray) -> np.ndarray:
    found = solve_ivp(f, (time[0], time[-1]), start, "DOP853", time, rtol=1e-10, atol=1e-11)
    return np.asarray(found.y.T)


def cross(a: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def test_snakeboard_by_its_momentum() -> None:
    m = motion("snakeboard", "duration=2.5")
    p = m.parameters
    inertia = p["J"] + p["Jr"] + 2.0 * p["Jw"]

    def f(t: float, y: np.ndarray) -> np.ndarray:
        momentum, _, _, theta = y
        phi, psi_rate = p["turn"] * math.sin(p["w"] * t), p["swing"] * p["w"] * math.cos(p["w"] * t)
        phi_rate, tan = p["turn"] * p["w"] * math.cos(p["w"] * t), math.tan(phi)
        u = (momentum - tan / p["l"] * p["Jr"] * psi_rate) / (p["m"] + inertia * (tan / p["l"]) ** 2)
        w = tan / p["l"] * u
        rate = (1.0 + tan**2) * phi_rate / p["l"] * (inertia * w + p["Jr"] * psi_rate)
        return np.array([rate, u * math.cos(theta), u * math.sin(theta), w])

    y = integrated(f, np.zeros(4), m.time)
    np.testing.assert_allclose(m.q("x", "y", "theta"), y[:, 1:], atol=1e-8)


@pytest.mark.parametrize("spin", [5.0, -5.0])
@pytest.mark.exhaustive
def test_rattleback_in_axes_of_the_body(spin: float) -> None:
    """Momentum about the point of contact (Garcia and Hubbard 1988); n: the vertical, w: angular velocity."""
    m = motion("rattleback", f"scene.parameters.spin={spin}", "duration=0.6")
    p = m.parameters
    J = np.array([[p["A"], p["D"], 0.0], [p["D"], p["B"], 0.0], [0.0, 0.0, p["C"]]])
    squares, mass = np.array([p["a"], p["b"], p["c"]]) ** 2, p["m"]

    def f(_: float, y: np.ndarray) -> np.ndarray:
        n, w = y[:3], y[3:]
        rate, s = np.cross(n, w), math.sqrt(n @ (squares * n))
        r = -squares * n / s + np.array([0.0, 0.0, p["h"]])
        r_rate = -squares * rate / s + squares * n * (n @ (squares * rate)) / s**3
        v = -np.cross(w, r)
        moment = mass * np.cross(r, np.cross(w, v) - np.cross(w, r_rate) + p["g"] * n) - np.cross(w, J @ w)
        return np.concatenate([rate, np.linalg.solve(J - mass * cross(r) @ cross(r), moment)])

    y = integrated(f, np.array([0.0, 0.0, 1.0, 0.0, p["rock"], spin]), m.time)
    alpha, beta = m.q("alpha", "beta").T
    rates = m.v("psi", "alpha", "beta").T
    w2, w3 = (
        rates[0] * np.sin(alpha) + rates[2],
        rates[0] * np.cos(alpha) * np.cos(beta) + rates[1] * np.sin(beta),
    )
    # the rocking grows, and with it the error of steps of 1 ms, in which it turns by 0.07 rad
    np.testing.assert_allclose(np.sin(alpha), y[:, 1], atol=1e-5)
    np.testing.assert_allclose(w2, y[:, 4], atol=3e-4)
    np.testing.assert_allclose(w3, y[:, 5], atol=3e-4)


@pytest.mark.parametrize("start", [(0.0, 0.0), (0.5, 20.0)])
def test_ball_in_bowl_by_newton_and_euler(start: tuple[float, float]) -> None:
    m = motion(
        "ball_in_bowl", *(f"scene.parameters.{k}={x}" for k, x in zip(("v", "spin"), start, strict=True)), "duration=2"
    )
    p = m.parameters
    mass, inertia, k = p["m"], 0.4 * p["m"] * p["r"] ** 2, p["r"] / (p["R"] - p["r"])
    gravity = np.array([0.0, 0.0, -p["g"]])

    def f(_: float, y: np.ndarray) -> np.ndarray:
        x, w = y[:3], y[3:]
        v = -np.cross(w, k * x)  # the point of contact k x rests
        balance = k * k / inertia * cross(x) @ cross(x) - np.eye(3) / mass
        force = np.linalg.solve(balance, gravity + k * np.cross(w, v))
        return np.concatenate([v, np.cross(k * x, force) / inertia])

    angle = p["angle"]
    normal = np.array([math.sin(angle), 0.0, -math.cos(angle)])
    w = p["spin"] * normal - p["v"] / p["r"] * np.array([math.cos(angle), 0.0, math.sin(angle)])
    y = integrated(f, np.concatenate([(p["R"] - p["r"]) * normal, w]), m.time)
    np.testing.assert_allclose(m.q("x", "y", "z"), y[:, :3], atol=1e-8)
    np.testing.assert_allclose(m.samples.twist("tool")[:, 3:], y[:, 3:], atol=1e-5)


def test_peaucellier_accelerates_as_pinocchios_tree_with_loops() -> None:
    linkage = system("peaucellier")
    other = ClosedLinkage(linkage)
    force = np.array([1.5, 1.0, 0.0])
    for _ in range(4):  # at the start, and while it moves
        f, g = linkage.drift_and_input(linkage.q, linkage.v)
        other.put(linkage.q, linkage.v)
        assert other.hand_acceleration(force)[:2] == pytest.approx((f + g[:, :3] @ force)[14:], abs=1e-7)
        for _ in range(60):
            linkage.step(np.array([*force, 0.0, 0.0, 0.0]))
    assert abs(linkage.v[6]) > 0.05


def test_peaucellier_by_one_angle() -> None:
    """The whole linkage as functions of the angle of C, whose derivatives are those by complex steps."""
    m = motion("peaucellier", "duration=3", "operator={type: constant, wrench: [1.5, 1, 0, 0, 0, 0]}")
    p = m.parameters

    def joints(angle: complex) -> np.ndarray:
        inner = 2.0 * p["d"] * np.cos(angle)
        outer = (p["L"] ** 2 - p["s"] ** 2) / inner
        middle = 0.5 * (inner + outer)
        half = np.sqrt(p["L"] ** 2 - middle**2)
        n, e = np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
        return np.concatenate([middle * n + half * e, middle * n - half * e, inner * n, outer * n])

    def rates(angle: float) -> np.ndarray:
        return np.imag(joints(angle + 1e-30j)) / 1e-30

    rods = [
        ("", "A", "L"),
        ("", "B", "L"),
        ("A", "C", "s"),
        ("B", "C", "s"),
        ("A", "P", "s"),
        ("B", "P", "s"),
        ("", "C", "d"),
    ]
    place = {"A": 0, "B": 2, "C": 4, "P": 6}

    def at(values: np.ndarray, name: str) -> np.ndarray:
        return values[place[name] : place[name] + 2] if name else np.zeros(2)

    def inertia(angle: float) -> float:
        v = rates(angle)
        found = p["mP"] * float(at(v, "P") @ at(v, "P"))
        for one, two, length in rods:
            a, b = at(v, one), at(v, two)
            found += p["rho"] * p[length] / 3.0 * float(a @ a + a @ b + b @ b)
        return found

    def force(angle: float) -> float:
        v = rates(angle)
        found = 1.5 * at(v, "P")[0] + 1.0 * at(v, "P")[1] - p["mP"] * p["g"] * at(v, "P")[1]
        for one, two, length in rods:
            found -= 0.5 * p["rho"] * p[length] * p["g"] * float(at(v, one)[1] + at(v, two)[1])
        return float(found)

    def f(_: float, y: np.ndarray) -> np.ndarray:
        angle, rate = y
        slope = (inertia(angle + 1e-5) - inertia(angle - 1e-5)) / 2e-5
        return np.array([rate, (force(angle) - 0.5 * slope * rate**2) / inertia(angle)])

    found = solve_ivp(f, (0.0, 3.0), [0.0, 0.0], "DOP853", m.time, rtol=1e-9, atol=1e-11)
    wanted = np.array([np.real(joints(angle)) for angle in found.y[0]])
    np.testing.assert_allclose(m.q("xA", "yA", "xB", "yB", "xC", "yC", "xP", "yP"), wanted, atol=1e-8)
    assert np.abs(found.y[0]).max() > 0.1


# Meijaard et al. 2007, section 5
M = np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]])
K0 = np.array([[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]])
K2 = np.array([[0.0, 76.59734589573222], [0.0, 2.65431523794604]])
C1 = np.array([[0.0, 33.86641391492494], [-0.85035641456978, 1.68540397397560]])
WEAVE, CAPSIZE = 4.29238253634111, 6.02426201538837
EIGENVALUES = {  # table 2, by the forward speed
    0.0: [-5.53094371765393, -3.13164324790656, 3.13164324790656, 5.53094371765393],
    5.0: [-14.07838969279822, -0.77534188219585 - 4.46486771378823j, -0.77534188219585 + 4.46486771378823j,
          -0.32286642900409],
}  # fmt: skip


@cache
def benchmark() -> System:
    return system("bicycle")


def test_the_papers_coefficients_are_those_it_publishes() -> None:
    published = dict(zip(("M", "C1", "K0", "K2"), (M, C1, K0, K2), strict=True))
    for (name, wanted), found in zip(published.items(), bicycle.linearised(benchmark().parameters), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12, err_msg=name)


@pytest.mark.exhaustive
def test_the_bicycles_formulas_linearised_are_the_papers_equations() -> None:
    g = benchmark().parameters["g"]
    for v, values in EIGENVALUES.items():
        J = bicycle.of_formulas(benchmark(), v)
        np.testing.assert_allclose(M @ J[:, :2], -g * K0 - v * v * K2, atol=3e-5)
        np.testing.assert_allclose(M @ J[:, 2:], -v * C1, atol=1e-6)
        np.testing.assert_allclose(
            np.sort_complex(bicycle.eigenvalues(J)), np.sort_complex(np.array(values)), atol=1e-6
        )
    weave, capsize = bicycle.critical_speeds(lambda v: bicycle.of_formulas(benchmark(), v))
    assert weave == pytest.approx(WEAVE, abs=1e-6) and capsize == pytest.approx(CAPSIZE, abs=1e-6)


@pytest.mark.parametrize(
    "changed", [{"c": 0.05}, {"rF": 0.3, "IFxx": 0.1}, {"lam": 0.2, "mB": 70.0}, {"w": 1.2, "IBxz": 0.5}]
)
def test_any_bicycle_linearised_is_the_papers(changed: dict[str, float]) -> None:
    other = system("bicycle", *(f"scene.parameters.{name}={value}" for name, value in changed.items()))
    for v in (1.0, 6.0):
        np.testing.assert_allclose(
            bicycle.of_formulas(other, v), bicycle.of_paper(other.parameters, v), rtol=1e-5, atol=1e-4
        )


def test_the_bicycle_far_from_upright_accelerates_as_published() -> None:
    """Basu-Mandal, Chatterjee, Papadopoulos 2007, table 1: a state with 36 degrees of roll, and its accelerations."""
    bike = benchmark()
    # in Moore's coordinates (2012); rates are theirs with the opposite sign
    state = {
        "phi": (0.5 * math.pi - 0.9501292851472, -0.6068425835418, 7.8555281128244),
        "theta": (math.pi - 3.1257073014894, 0.0119185528069, -0.1205543897884),
        "delta": (-0.2311385135743, -0.4859824687093, 4.6198904039403),
        "psi": (0.0, -0.7830033527065, -0.8353281706379),
        "thR": (0.0, -8.9129896614890, -1.8472554144217),
        "thF": (0.0, -8.0133620584155, -2.4548072904550),
        "x": (0.0, 0.3 * (8.9129896614890 - 0.0119185528069), 0.0),
        "y": (0.0, 0.0, 0.0),
    }
    q, v, wanted = np.array([state[name] for name in bike.coordinates]).T
    w = bike.evaluate(q, v)
    assert np.abs(w.c).max() < 1e-12 and np.abs(w.A @ v).max() < 1e-11
    balance = np.block([[w.M, -w.A.T], [w.A, np.zeros((bike.m, bike.m))]])
    found = np.linalg.solve(balance, np.concatenate([w.passive - w.bias, w.bdot - w.Adot @ v]))[: bike.n]
    np.testing.assert_allclose(found[2:], wanted[2:], atol=2e-12)


def test_a_torque_about_the_steering_axis_is_the_riders() -> None:
    """M q'' + g K0 q = (0, steering torque), at rest and upright; the hand's third axis is up, so left is positive."""
    axis = f"[0, 0, 0, {-math.sin(math.pi / 10)}, 0, {math.cos(math.pi / 10)}]"
    still = ("scene.parameters.v=0", "scene.parameters.roll_rate=0", "duration=0.001")
    run = Run("bicycle", *still, f"operator.wrench={axis}")
    m = Motion(run.trial, run.samples)
    wanted = np.linalg.solve(M, [0.0, -1.0])
    np.testing.assert_allclose(m.v("phi", "delta")[-1] * run.trial.experiment.rate, wanted, rtol=1e-3)


def test_other_formulas_are_refused_by_a_study() -> None:
    trial = load("bicycle", "analysis=trial")
    experiment = trial.experiment.model_copy(update={"analysis": "rattleback"})
    (first, *_) = analysis_of(experiment).check(experiment)
    assert first.startswith("analysis = rattleback: needs z among scene.coordinates")
