"""Formulas: the grammar, what is derived from them against differences, what is refused, what a system is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import yaml
from conftest import ROOT
from constrained_systems import DAMPED, LOPSIDED, POINT, build, disk_of, rows
from scipy.spatial.transform import Rotation

from haptic_sim.constraints import analysis, derivation, equations, generated, sources
from haptic_sim.constraints.description import Description, DescriptionError
from haptic_sim.constraints.equations import Spring
from haptic_sim.constraints.errors import ConstraintError
from haptic_sim.constraints.formulas import FUNCTIONS, FormulaError, evaluate, parse
from haptic_sim.constraints.projection import ADVANCED, ProjectionSolver
from haptic_sim.constraints.scenes import ConstraintParameters, FormulasParameters, build_setup
from haptic_sim.constraints.stabilised import StabilisedSolver
from haptic_sim.constraints.system import System
from haptic_sim.parameters import ParameterError

NAMES = {"x": 0.7, "y": -1.3, "phi": 0.4}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2*3 - 4/8", 6.5),
        ("-x**2", -(0.7**2)),
        ("2**-1", 0.5),
        ("2**3**2", 512.0),
        ("(2**3)**2", 64.0),
        ("--x - -y", 0.7 - 1.3),
        ("x/y/2", 0.7 / -1.3 / 2),
        ("x*-y", 0.7 * 1.3),
        (" 1e-3 + .5\n", 0.501),
        ("sin(phi)**2 + cos(phi)**2", 1.0),
        ("atan2(y, x)", math.atan2(-1.3, 0.7)),
        ("abs(y) + sqrt(x) + exp(x) + log(x)", 1.3 + math.sqrt(0.7) + math.exp(0.7) + math.log(0.7)),
        ("asin(phi) + acos(phi) + atan(y)", math.pi / 2 + math.atan(-1.3)),
        ("tan(x) + sinh(x) + cosh(x) + tanh(x)", math.tan(0.7) + math.exp(0.7) + math.tanh(0.7)),
        ("cos(pi)", -1.0),
    ],
)
def test_formulas_have_the_values_of_arithmetic(text, value):
    assert evaluate(parse(text, NAMES), NAMES) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("x +", r"character 4 .*: the end found, a number, a name or a parenthesis expected"),
        ("x y", r"character 3 .*: 'y' found, an operation or the end expected"),
        ("x.__class__", r"character 2 .*: '\.' is not allowed"),
        ("__import__('os')", r"character 1 .*: '_' is not allowed"),
        ("x__y", r"'x__y' is not a coordinate"),
        ("open(x)", r"character 1 .*: 'open' is not a function"),
        ("x(1)", r"'x' is not a function"),
        ("sin", r"the function sin needs its argument"),
        ("sin(x, y)", r"sin has 2 arguments: must have 1"),
        ("atan2(x)", r"atan2 has 1 arguments: must have 2"),
        ("'os'", r"is not allowed"),
        ("x; y", r"';' is not allowed"),
        ("x[0]", r"'\[' is not allowed"),
        ("lambda: x", r"':' is not allowed"),
        ("lambda", r"'lambda' is not a coordinate"),
        ("x if y else 1", r"'if' found"),
        ("x == y", r"'=' is not allowed"),
        ("x // y", r"'/' found"),
        ("1_000", r"is not allowed"),
        ("0x10", r"'x10' found"),
        ("1e999", r"the number inf must be"),
        ("9**9**9**9", r"must be at most 16 in size"),
        ("10**16", r"must be at most 1e15"),
        ("x**100", r"the exponent 100 must be at most 16"),
        ("(-2)**0.5", r"is not a finite real number"),
        ("0**-1", r"is not a finite real number"),
        ("x/0", r"character 2 .*: division by zero"),
        ("x/(1 - 1)", r"division by zero"),
        ("psi", r"'psi' is not a coordinate, parameter or time \(did you mean phi\?\): allowed are phi, x, y"),
        ("(" * 1_000_000, r"has 1000000 characters: must have at most 20000"),
        ("(" * 10_000, r"more than 60 nested parentheses"),
        ("-" * 10_000 + "x", r"more than 60 nested parentheses or signs"),
        ("x" + "**x" * 5_000, r"more than 60"),
        ("+".join(["x"] * 9_000), r"more than 5000 numbers, names and operations"),
        ("\u0660 + x", r"is not allowed"),
        ("x\u2212y", r"is not allowed"),
        ("x\x00", r"is not allowed"),
    ],
)
def test_what_is_no_formula_gets_one_line_that_names_the_place(text, problem):
    with pytest.raises(FormulaError, match=problem) as caught:
        parse(text, NAMES)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def interpreted(description, q, v, p, t=0.0):
    """What the generated kernels fill, without compiling them, by the names of a workspace."""
    module = generated._module(description.document())
    n, k = description.n, len(description.positions)
    m = len(description.row_names)
    out = np.zeros(n * n + 2 * n + k + 2 * m * n + 2 * m + 12 * n + 12 + 3 + n)
    for kernel in (module.evaluate, module.observe):
        kernel.py_func(t, q, v, p, out)
    shapes = {"M": (n, n), "bias": (n,), "passive": (n,), "c": (k,), "A": (m, n), "Adot": (m, n), "b": (m,)}
    shapes |= {"bdot": (m,), "J": (3, n), "E": (3, n), "p": (3,), "R": (3, 3), "Jdot": (3, n), "Edot": (3, n)}
    shapes |= {"potential": (1,), "power": (1,), "power_rate": (1,), "power_gradient": (n,)}
    found, place = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        found[name] = out[place : place + size].reshape(shape)
        place += size
    assert place == out.size
    return found


def random_description(seed):
    """A system of random formulas; their inertia is that of a sum of squares."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 4))
    q = [f"a{i}" for i in range(n)]

    def term():
        angle = "+".join(random.choice(q, 2))
        shape = random.choice(["sin({0})", "cos({0} + s)", "exp(-{1}**2)", "tanh({0})*{1}", "sqrt(2 + {1}**2)"])
        return f"{random.uniform(0.2, 1.0):.3f}*" + shape.format(angle, random.choice(q))

    squares = [f"({name}_dot + {term()}*{random.choice(q)}_dot)**2" for name in q]
    extra = [f"0.3*{name}_dot**2" for name in q]
    return Description(
        tuple(q),
        ("s", "g", "c0"),
        "+".join(["u**2", *squares, *extra]),
        f"g*({term()} + {term()})",
        {"w": term(), "u": f"w*{q[0]}_dot"},
        {q[0]: f"-0.2*{q[1]}_dot + {term()}*sin(3*t)"},
        (f"{term()} - {term()} + 0.1*t - c0",),
        (f"{term()}*{q[0]}_dot + {q[1]}_dot - {term()}*sin(t)",),
        (term(), term(), q[-1]),
        (
            (f"cos({q[0]} + s)", f"-sin({q[0]} + s)", "0"),
            (f"sin({q[0]} + s)", f"cos({q[0]} + s)", "0"),
            ("0", "0", "1"),
        ),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.exhaustive
def test_derived_terms_are_those_of_differences(seed):
    d = random_description(seed)
    random = np.random.default_rng(100 + seed)
    q, v, p, t, h = random.normal(size=d.n), random.normal(size=d.n), np.array([0.3, 2.0, 0.1]), 0.4, 1e-5
    values = dict(zip(d.parameters, p, strict=True))
    unit = np.eye(d.n)
    w = interpreted(d, q, v, p, t)

    def T(q, v):
        return d.value("kinetic", q, v, values, t)

    M = [[(T(q, x + y) - T(q, x - y)) / 2 for y in unit] for x in unit]  # T is quadratic: exact
    assert w["M"] == pytest.approx(np.array(M), abs=1e-12)

    def momentum(q, v):
        return np.array([T(q, v + 0.5 * x) - T(q, v - 0.5 * x) for x in unit])

    push = np.array([(T(q + h * x, v) - T(q - h * x, v)) / (2 * h) for x in unit])
    coriolis = (momentum(q + h * v, v) - momentum(q - h * v, v)) / (2 * h) - push
    assert w["bias"] == pytest.approx(coriolis, abs=1e-7)
    slope = [
        (d.value("potential", q + h * x, v, values) - d.value("potential", q - h * x, v, values)) / (2 * h)
        for x in unit
    ]
    forces = np.array(
        [d.value(f"forces.{name}", q, v, values, t) if name in d.forces else 0.0 for name in d.coordinates]
    )
    assert w["passive"] == pytest.approx(forces - slope, abs=1e-7)
    assert w["power"][0] == pytest.approx(forces @ v, abs=1e-12)

    position = [d.value("positions[0]", q + s * h * x, v, values, t) for x in unit for s in (1, -1)]
    assert w["A"][0] == pytest.approx((np.array(position[::2]) - position[1::2]) / (2 * h), abs=1e-7)
    assert w["b"][0] == pytest.approx(-0.1) and w["c"][0] == pytest.approx(d.value("positions[0]", q, v, values, t))
    assert w["A"][1] @ v - w["b"][1] == pytest.approx(d.value("velocities[0]", q, v, values, t), abs=1e-12)
    ahead, behind = (interpreted(d, q + s * h * v, v, p, t + s * h) for s in (1, -1))
    for name, rate in (("A", "Adot"), ("b", "bdot"), ("J", "Jdot"), ("E", "Edot")):
        assert w[rate] == pytest.approx((ahead[name] - behind[name]) / (2 * h), abs=1e-6), name
    assert w["J"] @ v == pytest.approx((ahead["p"] - behind["p"]) / (2 * h), abs=1e-7)
    spin = (ahead["R"] - behind["R"]) / (2 * h) @ w["R"].T
    assert w["E"] @ v == pytest.approx([spin[2, 1], spin[0, 2], spin[1, 0]], abs=1e-7)


def test_both_solvers_move_a_random_system_alike():
    d = random_description(1)
    values = {"s": 0.3, "g": 2.0, "c0": 0.0}
    q = np.full(d.n, 0.4)
    values["c0"] = d.value("positions[0]", q, q, values)
    system = System(d, values, dict.fromkeys(d.coordinates, 0.4))
    stabilised = StabilisedSolver(system, q, np.zeros(d.n), 5.0)
    projected = ProjectionSolver(system, q, stabilised.v)
    for _ in range(500):
        assert (stabilised.step(), projected.step()) == (ADVANCED, ADVANCED)
    assert projected.q == pytest.approx(stabilised.q, abs=1e-9)
    assert projected.residual < 1e-12


SLEIGH = {
    "type": "formulas",
    "parameters": {"m": 1.0, "I": 0.1, "a": 0.2},
    "coordinates": ["x", "y", "phi"],
    "kinetic": "m*(x_dot**2 + y_dot**2)/2 + I*phi_dot**2/2",
    "velocities": ["-sin(phi)*x_dot + cos(phi)*y_dot - a*phi_dot"],
    "hand": {"position": ["x", "y", "0"]},
    "start": {"x_dot": "m/2"},
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kinetic": "m*x_dot**2 + z"}, r"scene\.kinetic: character 14 .*'z' is not a coordinate"),
        ({"kinetic": "m*x_dot**3"}, r"scene\.kinetic: m\*x_dot\*\*3 is not quadratic in the rates"),
        ({"kinetic": "m*x_dot**2 + m*y_dot**2 + phi_dot"}, r"scene\.kinetic: .* is not quadratic"),
        ({"kinetic": "m*x_dot**2 + 1"}, r"scene\.kinetic: .* is not quadratic"),
        ({"kinetic": "m*(x_dot**2 + y_dot**2)"}, r"scene\.kinetic: the inertia is not positive definite .*along phi"),
        ({"kinetic": "m*(x_dot**2 + y_dot**2)/x + phi_dot**2"}, r"scene\.kinetic: has no finite value at the start"),
        ({"velocities": ["x_dot*y_dot"]}, r"scene\.velocities\[0\]: x_dot\*y_dot is not linear in the rates"),
        ({"velocities": ["x_dot/y"]}, r"scene\.velocities\[0\]: has no finite value at the start"),
        ({"positions": ["x_dot"]}, r"scene\.positions\[0\]: character 1 .*'x_dot' is not a coordinate"),
        ({"positions": ["y - 1"]}, r"positions\[0\] \(y - 1\) is not met by the initial configuration"),
        ({"positions": ["y", "y - 5e-9"]}, r"positions\[[01]\] .* contradicts the others"),
        ({"start": {"y_dot": 1.0}}, r"velocities\[0\] .* is not met by the initial velocity"),
        ({"start": {"z": 1.0}}, r"scene\.start\.z: is neither a coordinate nor a rate: must be of x, y, phi, x_dot"),
        ({"start": {"x": "1/(m - 1)"}}, r"scene\.start\.x: 1/\(m - 1\) is not finite"),
        ({"forces": {"z": "1"}}, r"scene\.forces\.z: is not a coordinate: must be of x, y, phi"),
        (
            {"drawing": {"points": {"P": ["x", "w", "0"]}}},
            r"scene\.drawing\.points\.P\[1\]: character 1 .*'w' is not a coord",
        ),
        ({"drawing": {"points": {"P": ["x_dot", "y", "0"]}}}, r"scene\.drawing\.points\.P\[0\]: character 1 .*'x_dot'"),
        (
            {"drawing": {"points": {"P": ["x", "y", "0"]}, "links": [["P", "Q"]]}},
            r"scene\.drawing\.links\[0\]: 'Q' is not a point: must be of P",
        ),
        (
            {"drawing": {"circles": [{"centre": "C", "radius": "1"}]}},
            r"scene\.drawing\.circles\[0\]\.centre: 'C' is no",
        ),
        ({"potential": "t"}, r"scene\.potential: character 1 .*'t' is not a coordinate"),
        ({"coordinates": ["x", "y", "sin"]}, r"scene\.coordinates: 'sin' is a function in formulas"),
        ({"coordinates": ["x", "y", "x_dot"]}, r"scene\.coordinates: the name 'x_dot' is already used"),
        ({"coordinates": ["x", "y", "m"]}, r"scene\.parameters: the name 'm' is already used in coordinates"),
        (
            {"hand": {"rotation": [["2", "0", "0"], ["0", "1", "0"], ["0", "0", "1"]]}},
            r"scene\.hand\.rotation: is not a rot",
        ),
    ],
)
def test_a_scene_that_cannot_be_used_is_explained(changes, problem):
    scene = FormulasParameters.model_validate(SLEIGH | changes)
    with pytest.raises(ParameterError, match=problem):
        setup = build_setup(scene, ConstraintParameters())
        try:
            ProjectionSolver(setup.system, setup.q, setup.v)
        except ConstraintError as error:
            raise ParameterError([str(error)]) from error


@pytest.mark.parametrize(
    ("kinetic", "row", "problem"),
    [
        ("m*x_dot**2 + t*x_dot", "x_dot", "kinetic"),  # not to be seen at t = 0
        ("m*x_dot**2 + 1e-12*x_dot", "x_dot", "kinetic"),
        ("m*x_dot**2 + (m - m0)*x_dot", "x_dot", "kinetic"),  # nor with these parameters
        ("m*x_dot**2 + sin(t)", "x_dot", "kinetic"),
        ("m*x_dot**2 + t*abs(x_dot)*x_dot", "x_dot", "kinetic"),
        ("m*x_dot**2", "x_dot + t*x_dot**2", r"velocities\[0\]"),
        ("(x_dot + t)**2 - 2*t*x_dot - t**2", "x_dot - t", ""),
        ("x_dot**2 + (sin(t)**2 + cos(t)**2 - 1)*x_dot", "sqrt(x_dot**2 + 2*t*x_dot + t**2)**2/(x_dot + t)", ""),
    ],
)
def test_the_form_of_energy_and_rows_is_that_of_any_time(kinetic, row, problem):
    of = Description(("x",), ("m", "m0"), kinetic, velocities=(row,))
    symbols = derivation.Symbols(of)
    if not problem:
        derivation.check_forms(symbols)
        return
    with pytest.raises(DescriptionError, match=problem + r": .* is not (quadratic|linear) in the rates"):
        derivation.check_forms(symbols)


def test_a_form_that_shows_later_is_refused_as_one_that_shows_at_once():
    with pytest.raises(ConstraintError, match=r"^kinetic: x_dot\*\*2 \+ t\*x_dot is not quadratic in the rates: each"):
        System.from_formulas(["x"], "x_dot**2 + t*x_dot")


def test_a_derivation_that_does_not_end_is_ended(monkeypatch, tmp_path):
    monkeypatch.setenv("HAPTICS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(generated, "PATIENCE", 1)  # of which SymPy's import takes a half
    for name in [name for name in generated.sys.modules if name.startswith("haptic_sim.constraints.formulas_")]:
        monkeypatch.delitem(generated.sys.modules, name)  # of another test
    with pytest.raises(ParameterError, match="the derivation did not end within 1 s"):
        of_config("bicycle")


@pytest.mark.long
def test_what_was_derived_once_is_not_derived_again(monkeypatch, tmp_path):
    monkeypatch.setenv("HAPTICS_CACHE_DIR", str(tmp_path))
    document = Description(("x",), ("m",), "m*x_dot**2/2").document()
    source = generated.derive(document)
    monkeypatch.setattr(generated, "derive", lambda _: source)
    first = generated._module(document)
    monkeypatch.setattr(generated, "derive", None)
    monkeypatch.delitem(generated.sys.modules, first.__name__)
    again = generated._module(document)
    assert again is not first
    out = np.zeros(24)
    again.evaluate.py_func(0.0, np.zeros(1), np.ones(1), np.array([3.0]), out)
    assert out[0] == 3.0
    (kept,) = tmp_path.glob("formulas/*.py")
    kept.write_bytes(kept.read_bytes()[:-20])  # damaged: it is not used
    monkeypatch.delitem(generated.sys.modules, first.__name__)
    with pytest.raises(TypeError):
        generated._module(document)


def growth(coordinates, velocities, positions=(), at=None):
    q = tuple(coordinates.split())
    description = Description(
        q, (), "+".join(f"{name}_dot**2" for name in q), positions=tuple(positions), velocities=tuple(velocities)
    )
    point = np.random.default_rng(3).uniform(0.3, 0.9, len(q)) if at is None else np.array(at)
    return analysis.growth(description, {}, [point.tolist()])


@pytest.mark.parametrize(
    ("coordinates", "velocities", "expected"),
    [
        ("x y a", ["sin(a)*x_dot - cos(a)*y_dot"], [2, 3]),  # a knife edge
        ("x y a b", ["y_dot - a*x_dot", "a_dot - b*x_dot"], [2, 3, 4]),  # Engel's chain
        ("x y z", ["z_dot - y**3*x_dot"], [2, 3]),
        ("x y z", ["exp(x)*(y*x_dot + x*y_dot + cos(z)*z_dot)"], [2]),  # a gradient times a factor
        ("x y z w", ["x*y_dot - z_dot + w_dot", "x*y_dot - z_dot - w_dot"], [2, 3]),  # their difference is w'
        ("x y", ["y_dot - 2"], [1]),
        ("x y", ["y_dot - x"], [1, 2]),  # with the time
        ("x y z", [], [3]),
    ],
)
def test_growth_of_known_distributions(coordinates, velocities, expected):
    assert growth(coordinates, velocities) == expected


def test_rolling_on_a_sphere_reaches_everything_in_contact():
    d = Description(
        tuple(sources.ROLLING_SPHERES["coordinates"]),
        ("mass", "small", "large"),
        sources.ROLLING_SPHERES["kinetic"],
        positions=tuple(sources.ROLLING_SPHERES["positions"]),
        velocities=tuple(sources.ROLLING_SPHERES["velocities"]),
    )
    found = analysis.growth(d, {"mass": 1.0, "small": 0.05, "large": 0.55}, [[0.6, 0.3, 0.2, 0.5, 0.8, 0.1]])
    assert found[0] == 3 and found[-1] == 5


@pytest.mark.long
@pytest.mark.exhaustive
def test_structure_of_the_rolling_disk_and_its_state_space_form():
    q = np.array([0, 0, 0.03, 0.3, 0.2, math.pi / 2])
    disk = disk_of(sources.ROLLING_DISK, q, DAMPED, LOPSIDED, radius=0.03)
    found = disk.structure()
    assert (found.positions, found.velocities, found.rank, found.degrees_of_freedom) == (2, 2, 4, 2)
    assert (found.growth, found.integrable_velocities, found.nonholonomy) == ((2, 3, 4), 0, 3)
    assert found.cyclic == () and found.singular == ()  # the disk stays upright: its positions keep it from x6 = 0
    assert found.given_up == ""
    v = np.array([-0.03 * math.cos(0.3) * 4.0, -0.03 * math.sin(0.3) * 4.0, 0, 2.0, 4.0, 0])
    wrench = np.array([0.1, -0.2, 0.3, 0.01, 0.02, 0.03])
    f, g = disk.drift_and_input(q, v)
    solver = ProjectionSolver(disk, q, v)
    solver.step(wrench)
    assert (f + g @ wrench)[6:] == pytest.approx(solver.a, abs=1e-9)
    # the printed formulas are the same numbers
    form = disk.state_space()
    assert form["eta"] == ["x4_dot", "x5_dot"]
    others = [disk.coordinates.index(name) for name in disk.coordinates if name not in ("x4", "x5")]
    names = dict(zip(disk.coordinates, q, strict=True)) | dict(zip(disk.description.rates, v, strict=True))
    names |= disk.parameters | {"eta1": 2.0, "eta2": 4.0, "gamma": 0.0}
    shown_f = [evaluate(parse(text, names), names) for text in form["f"]]
    shown_g = [[evaluate(parse(text, names), names) for text in row] for row in form["g"]]
    (determinant,) = (evaluate(parse(text, names), names) for text in form["D"])
    assert abs(determinant) == pytest.approx(abs(np.linalg.det(disk.A(q)[:, others])), rel=1e-12)
    assert shown_f[:6] == pytest.approx(v, abs=1e-12)
    accelerations = (np.array(shown_f) + np.array(shown_g) @ wrench)[6:]
    assert accelerations == pytest.approx(solver.a[[3, 4]], abs=1e-9)


@pytest.mark.exhaustive
def test_a_state_space_form_says_where_it_does_not_hold():
    """A unicycle loses no rank, but its speed along x says nothing of it where it goes along y."""
    formulas = {
        "coordinates": ["x", "y", "theta"],
        "kinetic": "m*(x_dot**2 + y_dot**2)/2 + theta_dot**2/2",
        "hand": {"position": ["x", "y", "0"]},
    }
    unicycle = build(rows(formulas, velocities=["-sin(theta)*x_dot + cos(theta)*y_dot"]), np.zeros(3), m=1.0)
    assert unicycle.structure().singular == ()
    form = unicycle.state_space()
    assert (form["eta"], form["D"]) == (["x_dot", "theta_dot"], ["cos(theta)"])


def of_config(name):
    return build_setup(FormulasParameters(type="formulas", **read_system(name)), ConstraintParameters()).system


def read_system(name):
    content = yaml.safe_load((ROOT / "config" / "systems" / f"{name}.yaml").read_text())
    return {key: value for key, value in content.items() if key != "type"}


@pytest.mark.long
@pytest.mark.exhaustive
def test_singular_configurations_are_those_of_the_positions():
    """At the bowl's rim a row of the rolling ball follows from the others; at e0 = 0, half a turn, none does."""
    assert of_config("ball_in_bowl")._singularities() == ("rows: z = 0",)
    # P on its line, with rods of L + s = 0.7 m stretched: A meets B
    x = math.sqrt(0.7**2 - (0.21 / 0.4) ** 2)
    found = of_config("peaucellier")._singularities()
    assert {f"rows: xP = {-x:.6g}", f"rows: xP = {x:.6g}"} <= set(found)


@pytest.mark.long
@pytest.mark.exhaustive
def test_the_bicycle_is_told_in_formulas_as_far_as_they_can_be_read():
    form = of_config("bicycle").state_space()
    assert set(equations.STATE_SPACE) <= set(form) and "given up" not in form
    assert form["eta"] == ["psi_dot", "theta_dot", "delta_dot"] or len(form["eta"]) == 3
    assert analysis.TOO_LONG in form["S^T (M gamma + V + G)"] and "phi_dot" not in form["S"][0]


@pytest.mark.long
def test_what_is_known_is_told_where_the_rest_is_given_up(monkeypatch):
    """An answer that ends in the middle of a part."""
    written = '["cyclic", ["x"]]\n["conserved", {}]\n["grow'
    disk = build(rows(POINT, ["z"]), np.zeros(3), m=1.0)
    monkeypatch.setattr(generated, "_ask", lambda *_: (written, "the analysis did not end within 60 s"))
    found = disk.structure()
    assert (found.cyclic, found.growth, found.integrable_velocities, found.nonholonomy) == (("x",), None, None, None)
    assert found.given_up == "growth: the analysis did not end within 60 s"
    monkeypatch.setattr(generated, "_ask", lambda *_: ('["eta", ["x_dot"]]\n', "the analysis failed: MemoryError"))
    form = disk.state_space()
    assert form["eta"] == ["x_dot"]
    assert form["given up"].startswith("D, S, xi, E,") and form["given up"].endswith(
        "f, g: the analysis failed: MemoryError"
    )


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 0.7, math.pi - 1e-9])
def test_the_spring_of_the_held_frame_is_regular(angle):
    """FAULRING appendix II: the moment k_r times the rotation vector to the rest, and its energy."""
    body = Rotation.from_euler("ZXZ", [0.3, 0.9, 0.2])
    turn = Rotation.from_rotvec(angle * np.array([2.0, -1.0, 2.0]) / 3.0)
    rest = turn * body
    free = rows(sources.DISK)
    start = dict(zip(free["coordinates"], (0.1, 0.2, 0.3, 0.3, 0.2, 0.9), strict=True))
    values = {"mass": 1.0, "J1": 1.0, "J2": 1.0, "J3": 1.0, "damping": 0.0, "rotational_damping": 0.0}
    values |= {"g1": 0.0, "g2": 0.0, "g3": 0.0}
    x, y, z, w = rest.as_quat().tolist()
    spring = Spring(5.0, 0.7, (0.0, 0.0, 0.0), (x, y, z, w))
    system = System.from_formulas(**free, parameters=values, start=start, spring=spring)
    terms = system.evaluate(system.q, np.zeros(6))
    assert terms.passive[:3] == pytest.approx([-0.5, -1.0, -1.5], abs=1e-12)
    assert terms.passive[3:] == pytest.approx(0.7 * terms.E[:, 3:].T @ turn.as_rotvec(), abs=1e-7)
    assert terms.potential[0] == pytest.approx(2.5 * 0.14 + 0.35 * angle**2, abs=1e-9)


def test_the_parametrisation_needs_no_newton_step():
    """psi(z) keeps the constraints by itself; the motion converges in first order to that of the other integrator."""
    ends, residuals = [], []
    for period in (1e-3, 5e-4):
        q = np.array([0, 0, 0.03, 0.3, 0, math.pi / 2])
        values = {"mass": 0.25, "J1": 0.0025, "J2": 0.003, "J3": 0.0041, "g1": 0.0, "g2": 0.0, "g3": 0.0} | DAMPED
        given = {"start": {"x1": 0.0, "x2": 0.0, "x4": 0.3, "x5": 0.0}, "coordinates": sources.ROLLING_DISK_PLACED}
        formulas = sources.ROLLING_DISK
        disk = System.from_formulas(**formulas, parameters=values | {"radius": 0.03}, parametrisation=given)
        assert disk.q == pytest.approx(q, abs=1e-15)  # psi of the start
        solvers = [ProjectionSolver(disk, q, np.zeros(6), period, kind) for kind in ("rk4", "parametrised")]
        for _ in range(round(0.5 / period)):
            for solver in solvers:
                assert solver.step(np.array([0.4, -0.3, 2.0, 0.01, 0.02, 0.015])) == ADVANCED
            residuals.append(max(solvers[1].residuals))
        ends.append(np.abs(solvers[0].q - solvers[1].q).max())
    assert max(residuals) < 1e-15
    assert ends[1] > 1e-7 and ends[0] / ends[1] == pytest.approx(2.0, abs=0.1)


def test_the_object_in_python():
    system = build(rows(POINT, ["z - x*y"]), [1.0, 2.0, 2.0], m=2.0)
    assert system.M(system.q) == pytest.approx(2.0 * np.eye(3))
    assert system.A(system.q) == pytest.approx(np.array([[-2.0, -1.0, 1.0]]))
    assert system.bias(system.q, [1.0, 2.0, 3.0]) == pytest.approx(np.zeros(3))
    assert system.step(np.array([0, 0, 1.0, 0, 0, 0])) == ADVANCED
    assert system.q[2] == pytest.approx(system.q[0] * system.q[1], abs=1e-12) and system.time == pytest.approx(1e-3)
    assert set(FUNCTIONS) == {
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sqrt", "exp", "log", "abs", "sinh", "cosh", "tanh")
    }
