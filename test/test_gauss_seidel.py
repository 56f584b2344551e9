"""Coulomb friction by Gauss-Seidel on the cone: closed forms, Pinocchio's ADMM, and properties over random problems.

A problem here is a dense J (3n, nv) in scaled coordinates, one tree or several: A = J J^T, c = J u + offset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.registry import CPUDispatcher
from scipy.spatial.transform import Rotation

from haptic_sim.contact.solvers import gauss_seidel as module
from haptic_sim.contact.solvers.gauss_seidel import GaussSeidelMemory, gauss_seidel
from haptic_sim.contact.solvers.outcomes import NOT_CONVERGED, SOLVED
from haptic_sim.dynamics.scaled import ScaledContacts
from haptic_sim.packed import Packed
from haptic_sim.records import allocate

GRAVITY = 9.81  # [m/s^2]
STEP = 1e-3  # [s]


@dataclass
class Problem:
    """Contacts of trees of 6 (or `width`) coordinates; tree -1 is fixed."""

    J: np.ndarray  # (n, 3, nv)
    tree: np.ndarray  # (n, 2)
    mu: np.ndarray
    u: np.ndarray
    width: int = 6
    bias: np.ndarray = field(default_factory=lambda: np.zeros(0))
    offset: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))

    def __post_init__(self) -> None:
        n = len(self.J)
        self.bias = self.bias if len(self.bias) else np.zeros(n)
        self.offset = self.offset if len(self.offset) else np.zeros((n, 3))

    def contacts(self) -> ScaledContacts:
        trees = len(self.u) // self.width
        out = ScaledContacts.allocate(
            len(self.J) + 2, np.arange(trees) * self.width, np.full(trees, self.width, np.int64)
        )
        out.W[:] = np.nan  # behind the contacts in use, and of absent trees
        for i, pair in enumerate(self.tree):
            for side, t in enumerate(pair):
                out.tree[i, side] = t
                if t >= 0:
                    out.W[i, :, side] = self.J[i, :, t * self.width : (t + 1) * self.width]
        out.offset[: len(self.J)] = self.offset
        return out

    @property
    def flat(self) -> np.ndarray:
        return self.J.reshape(-1, len(self.u))

    def velocity(self, u: np.ndarray) -> np.ndarray:
        """(n, 3), offset and bias included."""
        c = (self.flat @ u).reshape(-1, 3) + self.offset
        c[:, 0] += self.bias
        return c


@dataclass
class Solution:
    code: int
    sweeps: int
    solves: int
    residual: float
    u: np.ndarray
    p: np.ndarray


def solve(problem: Problem, p: np.ndarray | None = None, tolerance: float = 1e-10, max_sweeps: int = 1000) -> Solution:
    n = len(problem.J)
    contacts = problem.contacts()
    room = len(contacts.W)
    u = problem.u.copy()
    impulses = np.full((room, 3), 77.0)
    impulses[:n] = 0.0 if p is None else p
    mu, bias = np.full(room, np.nan), np.full(room, np.nan)
    mu[:n], bias[:n] = problem.mu, problem.bias
    memory = Packed(allocate(GaussSeidelMemory, contacts.sizes)).arrays
    found = gauss_seidel(n, Packed(contacts).arrays, mu, bias, u, impulses, memory, tolerance, max_sweeps)
    assert (impulses[n:] == 77.0).all()
    out = Solution(*found, u, impulses[:n].copy())
    check_admissible(problem, out)
    return out


def check_admissible(problem: Problem, out: Solution) -> None:
    """What holds converged or not: p in the cone, u of p, no energy added."""
    assert np.isfinite(out.p).all()
    assert np.isfinite(out.u).all()
    assert (out.p[:, 0] >= 0.0).all()
    limit = np.where(out.p[:, 0] > 0.0, problem.mu * out.p[:, 0], 0.0)
    assert (np.linalg.norm(out.p[:, 1:], axis=1) <= limit * (1 + 1e-12) + 1e-300).all()
    push = problem.flat.T @ out.p.ravel()
    scale = np.abs(problem.flat.T) @ np.abs(out.p.ravel()) + np.abs(problem.u)
    assert (np.abs(out.u - problem.u - push) <= 1e-12 * (scale + scale.max())).all()
    rounding = 1e-12 * (np.sum(scale) ** 2 + np.sum(np.abs(out.p * problem.velocity(problem.u))))
    work = np.sum(out.p * problem.velocity(problem.u)) + 0.5 * push @ push
    assert work <= rounding


def natural_map(problem: Problem, out: Solution) -> float:
    """|p - P(p - (c + mu |c_t| n) / a)| a, a a mobility, largest over contacts [m/s]: De Saxce's form of the law."""
    worst = 0.0
    c = problem.velocity(out.u)
    for i in range(len(out.p)):
        a = np.trace(problem.J[i] @ problem.J[i].T)
        mu = float(problem.mu[i])
        dilated = c[i] + np.array([mu * np.linalg.norm(c[i, 1:]), 0.0, 0.0])
        y = out.p[i] - dilated / a
        length = float(np.linalg.norm(y[1:]))
        if length <= mu * y[0]:
            q = y
        elif y[0] + mu * length <= 0.0:
            q = np.zeros(3)
        else:
            q_n = (y[0] + mu * length) / (1 + mu**2)
            q = np.concatenate([[q_n], mu * q_n * y[1:] / length])
        worst = max(worst, a * float(np.linalg.norm(out.p[i] - q)))
    return worst


def one_contact(A: np.ndarray, c: np.ndarray, mu: float, **more: np.ndarray) -> Problem:
    """A contact with the block A and the velocity c before: J the Cholesky factor, u = J^-1 c."""
    J = np.linalg.cholesky(A)
    return Problem(J[None], np.array([[-1, 0]]), np.array([mu]), np.linalg.solve(J, c), width=3, **more)


def random_problem(
    rng: np.random.Generator, n: int, trees: int, mu: float, width: int = 6, grounded: float = 0.4
) -> Problem:
    J = np.zeros((n, 3, trees * width))
    tree = np.full((n, 2), -1)
    for i in range(n):
        pair = (
            rng.choice(trees, 2, replace=False) if trees > 1 and rng.uniform() > grounded else [-1, rng.integers(trees)]
        )
        for side, t in enumerate(pair):
            tree[i, side] = t
            if t >= 0:
                J[i, :, t * width : (t + 1) * width] = rng.normal(size=(3, width))
    return Problem(J, tree, np.full(n, mu), rng.normal(size=trees * width), width)


Box = tuple[float, float, np.ndarray]  # mass, half side, centre


def boxes(bodies: list[Box], touching: list[tuple[int, int, np.ndarray]], mu: float, v: np.ndarray) -> Problem:
    """Cubes with vertical normals; contacts (below, above, point), velocities v (bodies, 6) of centres and rotation."""
    J = np.zeros((len(touching), 3, 6 * len(bodies)))
    tree = np.array([[a, b] for a, b, _ in touching]).reshape(-1, 2)
    scale = np.concatenate([[m] * 3 + [m * 2 * h**2 / 3] * 3 for m, h, _ in bodies]) ** 0.5
    for i, (a, b, point) in enumerate(touching):
        for body, sign in ((a, -1.0), (b, 1.0)):
            if body >= 0:
                for d, axis in enumerate(np.eye(3)[[2, 0, 1]]):
                    row = np.concatenate([axis, np.cross(point - bodies[body][2], axis)])
                    J[i, d, 6 * body : 6 * body + 6] = sign * row
    u = (v.ravel() + np.tile([0, 0, -GRAVITY * STEP, 0, 0, 0], len(bodies))) * scale
    return Problem(J / scale, tree, np.full(len(touching), mu), u)


def stack(masses: list[float], mu: float = 0.5, v: np.ndarray | None = None) -> Problem:
    h, n = 0.05, len(masses)
    bodies = [(m, h, np.array([0.0, 0.0, h + 2 * h * k])) for k, m in enumerate(masses)]
    corners = [(x, y) for x in (-h, h) for y in (-h, h)]
    touching = [(k - 1, k, np.array([x, y, 2 * h * k])) for k in range(n) for x, y in corners]
    return boxes(bodies, touching, mu, np.zeros((n, 6)) if v is None else v)


GENERIC = np.array([[1.0, 0.3, -0.2], [0.3, 1.5, 0.4], [-0.2, 0.4, 0.8]])  # normal and tangents coupled


def test_a_contact_that_leaves_has_no_impulse() -> None:
    out = solve(one_contact(GENERIC, np.array([0.1, -2.0, 3.0]), 0.7))
    assert (out.code, out.sweeps, out.p.tolist()) == (SOLVED, 0, [[0.0, 0.0, 0.0]])


def test_a_contact_that_sticks_stops() -> None:
    p = np.array([1.0, -0.3, 0.5])  # inside of the cone for mu = 0.7
    out = solve(one_contact(GENERIC, -GENERIC @ p, 0.7))
    assert out.code == SOLVED
    np.testing.assert_allclose(out.p[0], p, rtol=0, atol=1e-9)
    np.testing.assert_allclose(out.u, 0.0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mu", [1e-6, 0.1, 0.7, 3.0])
@pytest.mark.parametrize("angle", [0.7, 2.0, -1.3])
def test_a_contact_that_slides_is_opposed_exactly(angle: float, mu: float) -> None:
    """p_t = -mu p_n d chosen, then the velocity before that leads to c = (0, 0.2 d) after."""
    d = np.array([math.cos(angle), math.sin(angle)])
    p = 1.3 * np.array([1.0, *(-mu * d)])
    after = np.array([0.0, *(0.2 * d)])
    A = GENERIC if mu < 1.0 else np.diag([1.0, 1.5, 0.8])  # for more friction, coupling may have several solutions
    problem = one_contact(A, after - A @ p, mu)
    out = solve(problem)
    assert out.code == SOLVED
    np.testing.assert_allclose(out.p[0], p, rtol=0, atol=1e-8)
    np.testing.assert_allclose(problem.velocity(out.u)[0], after, rtol=0, atol=1e-9)


def test_no_friction_slides_freely_and_all_of_it_sticks() -> None:
    c = np.array([-1.0, 0.4, 0.2])
    out = solve(one_contact(GENERIC, c, 0.0))
    np.testing.assert_allclose(out.p[0], [1.0, 0.0, 0.0], rtol=0, atol=1e-10)
    for mu in (1e6, math.inf):
        out = solve(one_contact(GENERIC, c, mu))
        np.testing.assert_allclose(out.p[0], -np.linalg.solve(GENERIC, c), rtol=0, atol=1e-9)


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(0, 2**31), st.floats(0.0, 5.0))
def test_any_one_contact_has_a_solution(seed: int, mu: float) -> None:
    """Whatever the coupling: there is a root (module docstring), found in one visit."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(3, 3)) * 10.0 ** rng.uniform(-2, 2, 3)[:, None]
    problem = one_contact(B @ B.T + 1e-6 * np.trace(B @ B.T) * np.eye(3), rng.normal(size=3), mu)
    out = solve(problem, tolerance=1e-9)
    assert out.code == SOLVED
    assert out.sweeps <= 4
    assert natural_map(problem, out) <= 1e-7 * (1 + mu)


def test_a_gap_lets_a_contact_close_it_and_an_offset_moves_the_wall() -> None:
    A = np.diag([1.0, 1.0, 1.0])
    out = solve(one_contact(A, np.array([-1.0, 0.0, 0.0]), 0.5, bias=np.array([0.4])))
    np.testing.assert_allclose(out.p[0], [0.6, 0.0, 0.0], rtol=0, atol=1e-10)
    out = solve(one_contact(A, np.array([-1.0, 0.0, 0.0]), 0.5, offset=np.array([[0.0, 0.3, 0.0]])))
    np.testing.assert_allclose(out.p[0], [1.0, -0.3, 0.0], rtol=0, atol=1e-10)  # a belt takes it along


@pytest.mark.parametrize("speed", [0.5, 0.003])
def test_a_box_slides_and_stops(speed: float) -> None:
    """On four corners at mu = 0.3: mu g h slower, or at rest when that is more than it has."""
    v = np.zeros((1, 6))
    v[0, :2] = speed * np.array([math.cos(0.7), math.sin(0.7)])
    problem = stack([2.0], 0.3, v)
    out = solve(problem)
    assert out.code == SOLVED
    left = max(0.0, 1 - 0.3 * GRAVITY * STEP / speed)
    if left == 0.0:
        np.testing.assert_allclose(out.u, 0.0, rtol=0, atol=1e-9)
    else:
        np.testing.assert_allclose(out.u[:2], left * problem.u[:2], rtol=1e-8)
        np.testing.assert_allclose(out.u[2:], 0.0, rtol=0, atol=1e-9)
    assert out.p[:, 0].sum() == pytest.approx(2.0 * GRAVITY * STEP, rel=1e-7)


MASSES = {
    "equal": [1.0] * 20,
    "heavy top": [1.0] * 19 + [100.0],
    "alternating": [1.0, 10.0] * 10,
}


@pytest.mark.parametrize("masses", MASSES.values(), ids=MASSES.keys())
def test_a_stack_carries_its_weight(masses: list[float]) -> None:
    """Each joint carries the boxes above, cold in few sweeps; the impulses of now solve the next step as they are."""
    problem = stack(masses)
    out = solve(problem, tolerance=1e-9)
    assert out.code == SOLVED
    assert out.sweeps <= 20
    carried = out.p[:, 0].reshape(-1, 4).sum(axis=1)
    above = np.cumsum(masses[::-1])[::-1] * GRAVITY * STEP
    np.testing.assert_allclose(carried, above, rtol=1e-5)
    np.testing.assert_allclose(out.u, 0.0, rtol=0, atol=1e-6)  # times the root of the mass
    again = solve(problem, out.p, tolerance=1e-9)
    assert (again.code, again.sweeps, again.solves) == (SOLVED, 0, 0)
    np.testing.assert_allclose(again.p, out.p, rtol=0, atol=1e-15)


def test_warm_start_saves_sweeps() -> None:
    rng = np.random.default_rng(20260)
    saved = []
    for _ in range(20):
        problem = random_problem(rng, 20, 6, 0.3)
        cold = solve(problem)
        problem.u += 1e-6 * rng.normal(size=problem.u.shape)
        saved.append(solve(problem).sweeps - solve(problem, cold.p).sweeps)
    assert np.mean(saved) > 2
    assert min(saved) >= -2


def admm(problem: Problem) -> np.ndarray:
    """Impulses by Pinocchio's ADMM, with De Saxce's correction: the same law; its order is (t1, t2, n)."""
    n = len(problem.J)
    turn = np.concatenate([3 * i + np.array([1, 2, 0]) for i in range(n)])
    A = problem.flat[turn] @ problem.flat[turn].T
    g = problem.velocity(problem.u).ravel()[turn]
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
    models, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for mu in problem.mu:
        contact = pin.PointContactConstraintModel(model, 0, pin.SE3.Identity(), joint, pin.SE3.Identity())
        contact.setFriction(float(mu))
        models.append(pin.ConstraintModel(contact))
    for one in models:
        datas.append(one.createData())
    s = pin.ADMMSolverSettings()
    s.max_iterations = 20000
    s.absolute_feasibility_tol = s.absolute_complementarity_tol = 1e-11
    s.relative_feasibility_tol = s.relative_complementarity_tol = 1e-13
    result = pin.ADMMSolverResult()
    solver = pin.ADMMConstraintSolver(3 * n)
    assert solver.solve(pin.DelassusOperatorDense(A), g, models, datas, s, result)
    p = np.asarray(result.retrieveConstraintImpulses())
    back = np.empty_like(p)
    back[turn] = p
    return back.reshape(-1, 3)


def test_pinocchios_admm_agrees() -> None:
    """Independent contacts and little friction, for which the solution is the only one."""
    rng = np.random.default_rng(20261)
    kinds = np.zeros(3, int)
    for _ in range(40):
        problem = random_problem(rng, int(rng.integers(1, 8)), 5, float(rng.uniform(0.05, 0.4)))
        out = solve(problem, tolerance=1e-12)
        assert out.code == SOLVED
        p = admm(problem)
        np.testing.assert_allclose(out.p, p, rtol=0, atol=1e-7 * np.abs(p).max())
        c = problem.velocity(problem.u + problem.flat.T @ p.ravel())
        np.testing.assert_allclose(problem.velocity(out.u), c, rtol=0, atol=1e-7)
        opened = out.p[:, 0] == 0.0
        sliding = ~opened & (np.linalg.norm(c[:, 1:], axis=1) > 1e-6)
        kinds += [opened.sum(), sliding.sum(), (~opened & ~sliding).sum()]
    assert kinds[0] > 20
    assert kinds[1] > 20


@pytest.mark.parametrize("mu", [0.0, 0.2, 0.5])
def test_converged_is_the_law_whatever_the_contacts(mu: float) -> None:
    """Dependent contacts among them (60 on 12 coordinates); the law is checked by a map of its own."""
    rng = np.random.default_rng(20262)
    solved = 0
    for _ in range(30):
        problem = random_problem(rng, int(rng.integers(1, 61)), 2, mu)
        out = solve(problem, tolerance=1e-9)
        if out.code == SOLVED:
            solved += 1
            assert out.residual <= 1e-9
            assert natural_map(problem, out) <= 1e-7
        else:
            assert out.residual > 1e-9
    assert solved >= 28


def test_pushed_stacks_obey_the_law() -> None:
    """Layers pushed apart, so that some slide, some stick and some tip: slow for sweeps alone."""
    rng = np.random.default_rng(20263)
    solved = 0
    for n in (2, 3, 5, 8):
        for mu in (0.1, 0.5, 0.9):
            v = np.zeros((n, 6))
            v[:, :2] = 0.02 * rng.normal(size=(n, 2))
            problem = stack([1.0] * n, mu, v)
            out = solve(problem, tolerance=1e-8)
            if out.code == SOLVED:
                solved += 1
                assert natural_map(problem, out) <= 1e-6
    assert solved >= 10


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 25), st.integers(1, 4), st.floats(0.0, 3.0), st.integers(0, 12))
def test_whatever_the_sweeps_no_energy_is_added(seed: int, n: int, trees: int, mu: float, sweeps: int) -> None:
    """Cone, u and energy are checked in `solve`; here with b >= 0, also from an arbitrary start that adds much."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n, trees, mu)
    problem.bias = np.maximum(0.0, rng.normal(size=n))
    out = solve(problem, 10.0 * rng.normal(size=(n, 3)), tolerance=1e-12, max_sweeps=sweeps)
    assert out.u @ out.u <= problem.u @ problem.u * (1 + 1e-10)


def test_what_is_not_converged_is_damped_and_says_so() -> None:
    problem = stack([1.0] * 5)
    out = solve(problem, np.tile([1.0, 0.0, 0.0], (20, 1)), max_sweeps=0)
    assert (out.code, out.sweeps) == (NOT_CONVERGED, 0)
    assert out.residual > 1e-3
    assert out.u @ out.u <= problem.u @ problem.u


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(0, 2**31))
def test_order_and_tangents_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, int(rng.integers(1, 9)), 4, 0.2)
    out = solve(problem)
    assert out.code == SOLVED
    order = rng.permutation(len(problem.J))
    moved = solve(Problem(problem.J[order], problem.tree[order], problem.mu, problem.u))
    np.testing.assert_allclose(moved.u, out.u, rtol=0, atol=1e-8)
    turns = [Rotation.from_euler("x", a).as_matrix() for a in rng.uniform(-3, 3, len(problem.J))]
    turned = Problem(np.einsum("ide,iek->idk", turns, problem.J), problem.tree, problem.mu, problem.u)
    other = solve(turned)
    np.testing.assert_allclose(other.u, out.u, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.einsum("ide,ie->id", turns, out.p), other.p, rtol=0, atol=1e-7)


def test_planar_worlds_and_rows_of_zero() -> None:
    """No second tangent: the same impulses as in the plane, none along it. No normal: no impulse at all."""
    rng = np.random.default_rng(20264)
    for _ in range(30):
        problem = random_problem(rng, 4, 2, 0.4, width=3)
        problem.J[:, 2] = 0.0
        out = solve(problem)
        assert out.code == SOLVED
        assert (out.p[:, 2] == 0.0).all()
        problem.J[0, 0] = 0.0
        out = solve(problem)
        assert out.code == SOLVED
        assert (out.p[0] == 0.0).all()


def test_no_contacts() -> None:
    out = solve(Problem(np.zeros((0, 3, 6)), np.zeros((0, 2), int), np.zeros(0), np.arange(6.0)))
    assert (out.code, out.sweeps, out.solves, out.residual) == (SOLVED, 0, 0, 0.0)
    assert out.u.tolist() == list(range(6))


@pytest.mark.parametrize("mu", [0.0, 0.5, 1e9])
def test_hostile_rows_stay_finite(mu: float) -> None:
    """Mass ratios of a million, zero rows, parallel rows, copies; checked in `solve`."""
    rng = np.random.default_rng(20265)
    for _ in range(40):
        problem = random_problem(rng, 12, 3, mu)
        problem.J *= np.repeat(10.0 ** rng.uniform(-3, 3, 3), 6)
        problem.J[rng.integers(12), rng.integers(3)] = 0.0
        problem.J[1, 2] = problem.J[1, 1]
        problem.J[2], problem.tree[2] = problem.J[3], problem.tree[3]
        problem.J[4] = 0.0
        solve(problem, tolerance=1e-9, max_sweeps=100)


@pytest.mark.parametrize("where", ["u", "J", "bias", "offset"])
def test_not_a_number_ends_without_impulses_there(where: str) -> None:
    problem = random_problem(np.random.default_rng(20266), 5, 2, 0.3)
    getattr(problem, where).flat[0] = np.nan
    contacts = problem.contacts()
    u, p = problem.u.copy(), np.ones((7, 3))
    mu, bias = np.full(7, 0.3), np.append(problem.bias, [0.0, 0.0])
    memory = Packed(allocate(GaussSeidelMemory, contacts.sizes)).arrays
    code, *_ = gauss_seidel(5, Packed(contacts).arrays, mu, bias, u, p, memory, 1e-9, 50)
    assert code in (SOLVED, NOT_CONVERGED)
    assert np.isfinite(p).all()
    if where != "u":
        assert np.isfinite(u).all()


def test_kernels_are_their_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(20267)
    compiled = [(problem, solve(problem)) for problem in (random_problem(rng, 6, 2, 0.4) for _ in range(3))]
    compiled.append((stack([1.0] * 3), solve(stack([1.0] * 3))))
    for name, kernel in vars(module).items():
        if isinstance(kernel, CPUDispatcher):
            monkeypatch.setattr(module, name, kernel.py_func)
    monkeypatch.setitem(globals(), "gauss_seidel", module.gauss_seidel)
    for problem, out in compiled:
        other = solve(problem)
        assert other.code == out.code
        np.testing.assert_allclose(other.u, out.u, rtol=0, atol=1e-8)


def test_nothing_is_compiled_again() -> None:
    rng = np.random.default_rng(20268)
    solve(random_problem(rng, 3, 2, 0.3))
    kernels = [kernel for kernel in vars(module).values() if isinstance(kernel, CPUDispatcher)]
    before = [len(kernel.signatures) for kernel in kernels]
    for n in (0, 1, 20):
        solve(random_problem(rng, n, 3, 0.3, width=4))
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert kernels
