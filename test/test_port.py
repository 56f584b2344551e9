"""Passivity of a device at the hand: against BROWN, against simulated hands, and what an experiment is told of it."""

from __future__ import annotations

import numpy as np
import pytest

from haptic_bench import experiment
from haptic_control.activation import passivity_fact, passivity_problem, port_of
from haptic_control.direct import DirectParameters
from haptic_control.four_channel import FourChannelParameters
from haptic_control.parameters import ControllerParameters
from haptic_control.passivity.coupling import CouplingParameters, analyse
from haptic_control.passivity.directions import analyse_directions
from haptic_control.passivity.port import Connection, Device, Port, World, analyse_port, connection_of
from haptic_control.stability import CoupledInertias
from haptic_control.unilateral import UnilateralParameters
from haptic_drivers.inertial import InertialDevice
from haptic_sim.messages import FREE, RESTING, DeviceCommand, DeviceState, ToolCommand, ToolSizes
from haptic_sim.parameters import ParameterError

RATE, T = 512.0, 1.0 / 512.0
PLANE = np.array([0, 1, 5])
CONTACT = (15000.0, 30.0)  # [N/m, N s/m]


def inertias(device: float, damping: float, tool: float = 2.0) -> CoupledInertias:
    """A device and a tool in the plane; both turn about z with 0.005 kg m^2."""
    W = np.diag([1 / tool, 1 / tool, 1 / tool, 0, 0, 200.0])
    return CoupledInertias(
        planar=True,
        tool=tuple(W.ravel().tolist()),
        device=(device, 0.005),
        damping=(damping, damping),
        contact=CONTACT,
    )


def coupling(K: float, B: float) -> Connection:
    """A spring and a damper between device and tool, and no forces, in one direction."""
    tool, device = np.zeros((5, 1, 1)), np.zeros((6, 1, 1))
    device[[0, 1, 3, 4], 0, 0] = -K, -B, K, B
    tool[[0, 1, 3, 4], 0, 0] = K, B, -K, -B
    return Connection(tool, device)


def analysed(connection: Connection, world: World, W: np.ndarray, b: np.ndarray, integrator: int = 2) -> Port:
    nothing = np.zeros(b.size)
    return analyse_port(connection, world, W, Device(np.ones(b.size), b), (nothing, nothing), T, integrator)


@pytest.mark.parametrize(
    ("K", "B", "mass", "integrator"),
    [
        (1000.0, 0.0, None, 2),
        *((K, B, mass, 2) for K, B in ((1000.0, 2.0), (100.0, 70.0)) for mass in (None, 2.0, 0.5)),
        *((100.0, 70.0, 2.0, integrator) for integrator in (1, 3)),
    ],
)
def test_a_coupling_requires_what_brown_says(K: float, B: float, mass: float | None, integrator: int) -> None:
    given = CouplingParameters(stiffness=K, damping=B, rate=RATE, device_damping=1.0, mass=mass, integrator=integrator)
    required = analyse(given).required_damping
    assert required is not None
    W = np.array([[1.0 / (mass or 1.0)]])
    for factor, passive in ((1.001, True), (0.999, False)):
        world: World = "rigid" if mass is None else "free"
        found = analysed(coupling(K, B), world, W, np.array([factor * required]), integrator)
        assert found.passive is passive and found.stable


def test_directions_that_are_coupled_require_what_their_matrices_do() -> None:
    rotate = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    K, B = (rotate @ np.diag(values) @ rotate.T for values in ([900.0, 400.0, 100.0], [3.0, 1.0, 2.0]))
    W = rotate.T @ np.diag([1.0, 0.5, 0.2]) @ rotate
    tool, device = np.zeros((5, 3, 3)), np.zeros((6, 3, 3))
    tool[[0, 1, 3, 4]] = K, B, -K, -B
    device[[0, 1, 3, 4]] = -K, -B, K, B
    b = np.array([3.0, 2.0, 4.0])
    scale = analyse_directions(K, B, RATE, np.diag(b), np.linalg.inv(W), 2).scale
    for factor, passive in ((1.001, True), (0.999, False)):
        assert analysed(Connection(tool, device), "free", W, factor * scale * b).passive is passive


def work_of_hand(
    parameters: ControllerParameters, of: CoupledInertias, world: World, theta: float, cycles: int = 60
) -> float:
    """Work of a hand that pushes along x with sin(theta k), of its mean power in the end, over its apparent power.

    Device and controller are the ones that run; the tool is the one of the analysis.
    """
    assert of.device is not None
    device_core = InertialDevice(*of.device, planar=True, damping=of.damping)
    controller = parameters.build(RATE)
    device, tool = DeviceState(), ToolSizes(6, 6, 0).tool_state()
    tool.pose[6], tool.inverse_inertia[:] = 1.0, of.tool
    tool.contact_state = FREE if world == "free" else RESTING
    tool_command, device_command = ToolCommand(), DeviceCommand()
    ticks = round(cycles * 2 * np.pi / theta)
    force, moved = np.zeros(ticks), np.zeros(ticks)
    for k in range(ticks):
        device.pose[:], device.twist[:] = device_core.pose, device_core.twist
        device.operator_wrench[0] = force[k] = np.sin(theta * k)
        controller.coordinate(device, tool, tool_command)
        push, v = tool_command.wrench[0], tool.twist[0]
        E = {"free": 0.0, "contact": -CONTACT[0] * tool.pose[0] - CONTACT[1] * v, "rigid": -push}[world]
        tool.wrench[0] = E
        controller.command(tool, device_command)  # the wrench of the tick, the state of its beginning
        if world != "rigid":
            tool.twist[0] = v + T * of.tool[0] * (push + E)
            tool.pose[0] += T * tool.twist[0]
        before = device_core.pose[0]
        device_core.step(device.operator_wrench, device_command.wrench, T)
        moved[k] = device_core.pose[0] - before
    late = slice(ticks // 2, None)
    return float(np.sum(force[late] * moved[late]) / np.sqrt(np.sum(force[late] ** 2) * np.sum(moved[late] ** 2)))


CASES: list[tuple[ControllerParameters, float, float, bool]] = [
    (FourChannelParameters(), 2.0, 3.0, True),
    (FourChannelParameters(), 1.0, 3.0, False),
    (DirectParameters(), 2.0, 0.0, True),
    (DirectParameters(), 2.0, 3.0, False),
    (UnilateralParameters(force_scale=0.0), 2.0, 60.0, True),
    (UnilateralParameters(), 2.0, 3.0, False),
]


@pytest.mark.parametrize(("parameters", "mass", "damping", "passive"), CASES)
def test_hands_get_energy_exactly_from_what_is_active(
    parameters: ControllerParameters, mass: float, damping: float, passive: bool
) -> None:
    of = inertias(mass, damping)
    found = port_of(parameters, of, RATE)
    assert found is not None
    world, port = found
    assert port.passive is passive
    if not passive:
        assert work_of_hand(parameters, of, world, port.theta) < -1e-6  # type: ignore[arg-type]
        return
    for theta in (0.02, 0.1, 0.5, 2.0):
        assert work_of_hand(parameters, of, "contact", theta) > -1e-6  # type: ignore[arg-type]


@pytest.mark.parametrize("b", [0.0, 3.0])
def test_a_spring_without_a_damper_is_active(b: float) -> None:
    """The loop with a free tool has poles on the unit circle, where nothing can be evaluated."""
    found = port_of(FourChannelParameters(damping=(0.0, 0.0, 0.375)), inertias(2.0, b), RATE)
    assert found is not None and not found[1].passive
    assert work_of_hand(FourChannelParameters(damping=(0.0, 0.0, 0.375)), inertias(2.0, b), *found_at(found)) < 0.0


def found_at(found: tuple[World, Port]) -> tuple[World, float]:
    return found[0], found[1].theta


def test_a_controller_is_as_its_equations() -> None:
    parameters = FourChannelParameters(stiffness=(100, 200, 0.5), damping=(7, 8, 0.3), force_scale=2.0)
    connection = connection_of(parameters.build(RATE), PLANE, "contact", np.zeros(36).tolist())
    K, B, one = np.diag([100, 200, 0.5]), np.diag([7, 8, 0.3]), np.eye(3)
    np.testing.assert_allclose(connection.tool, [K, B, 2.0 * one, -K, -B], atol=1e-6)
    np.testing.assert_allclose(connection.device, [-K, -B, 0.0 * one, K, B, one], atol=1e-6)
    assert connection.passes_forces and not coupling(1.0, 1.0).passes_forces


@pytest.mark.long
def test_gains_that_are_passive_are_named() -> None:
    # with s = 0 no force is passed on, and the wall requires K T/2 + B = 5.1 N s/m, more than there is
    parameters = UnilateralParameters(stiffness=(1000, 1000, 0.02), damping=(5, 5, 1e-4), force_scale=0.0)
    of = inertias(2.0, 3.0)
    problem = passivity_problem(parameters, of, RATE)
    assert problem.startswith("controller.stiffness = [1000, 1000, 0.02], controller.damping = [5, 5, 0.0001]: ")
    named = dict(part.split("=") for part in problem.partition("gains that are passive: ")[2].split(";")[0].split())
    gains = {name.partition(".")[2]: tuple(map(float, text[1:-1].split(","))) for name, text in named.items()}
    assert passivity_problem(parameters.model_copy(update=gains), of, RATE) == ""
    assert gains["stiffness"][0] * T / 2 + gains["damping"][0] == pytest.approx(3.0, rel=0.05)
    assert passivity_problem(parameters.model_copy(update={"allow_active": True}), of, RATE) == ""
    assert passivity_problem(parameters, of.model_copy(update={"damping": None}), RATE) == ""


@pytest.mark.parametrize("force_scale", [0.0, 1.0])  # with 1 forces are passed on, and the mass counts
def test_directions_without_a_motor_need_no_damping(force_scale: float) -> None:
    """As passive as the same device in the plane that does not turn, whatever is commanded about z."""
    parameters = UnilateralParameters(stiffness=(300, 300, 0.5), damping=(2, 2, 0.3), force_scale=force_scale)
    # 0.29 + 2 N s/m by (K T / 2 + B) where no force is passed on; no torque is rendered, and there is no damping of it
    for damping, passive in ((3.0, True), (0.5, False)):
        of = inertias(2.0, damping).model_copy(update={"damping": (damping, 0.0)})
        driven = of.model_copy(update={"driven": tuple(np.diag([1.0, 1, 1, 0, 0, 0]).ravel().tolist())})
        still = of.model_copy(update={"device": (2.0, 1e9), "damping": (damping, 1e9)})  # turns for nobody
        found, expected = (port_of(parameters, one, RATE) for one in (driven, still))
        assert found is not None and expected is not None
        assert found[1].passive is expected[1].passive
        if not force_scale:
            assert found[1].passive is passive
            assert port_of(parameters, of, RATE)[1].passive is False  # type: ignore[index]
        if not found[1].passive:
            assert found[1].direction in (0, 1)


@pytest.mark.long
def test_without_a_force_sensor_no_wrench_of_the_hand_is_passed_on() -> None:
    """As with force_scale = 0; an observer tells the wrench all the same."""
    parameters, of = FourChannelParameters(), inertias(1.0, 3.0)
    without = of.model_copy(update={"force_sensor": False})
    found, expected = (
        port_of(given, one, RATE)
        for given, one in ((parameters, without), (parameters.model_copy(update={"force_scale": 0.0}), of))
    )
    assert found == expected and found is not None and found[1].passive
    observed = parameters.model_copy(update={"operator_wrench": "observed", "device_mass": 1.0, "device_inertia": 5e-3})
    assert passivity_problem(parameters, of, RATE) and passivity_problem(observed, without, RATE)


def test_where_no_gains_help_the_line_says_so() -> None:
    problem = passivity_problem(DirectParameters(), inertias(2.0, 3.0), RATE)
    assert problem.startswith("controller.type = direct: ") and "no gains that were tried are passive" in problem
    assert "use another device" in problem  # direct coupling is passive without damping only


@pytest.mark.long
def test_where_no_gains_help_the_line_names_a_damping_of_the_device_that_does() -> None:
    parameters, of = UnilateralParameters(), inertias(2.0, 3.0)
    named = passivity_problem(parameters, of, RATE).partition("device.damping=[")[2]
    enough = tuple(map(float, named.partition("]")[0].split(",")))
    assert enough[0] > 3.0
    assert passivity_problem(parameters, of.model_copy(update={"damping": enough}), RATE) == ""


@pytest.mark.long
def test_more_damping_is_named_where_it_helps() -> None:
    """Four channels coordinate a braked device with the tool the better, the stronger their damping is."""
    parameters = FourChannelParameters(damping=(1.0, 1.0, 0.1))
    of = inertias(2.0, 3.0).model_copy(update={"damping": (3.0, 0.01), "contact": (4000.0, 30.0)})
    problem = passivity_problem(parameters, of, RATE)
    factor = float(problem.partition("; ")[2].split()[0])
    assert f"{factor:g} times controller.damping is passive" in problem and factor > 1.0
    more = parameters.model_copy(update={"damping": tuple(factor * value for value in parameters.damping)})
    assert passivity_problem(more, of, RATE) == ""


@pytest.mark.long
def test_an_experiment_with_an_active_device_is_refused() -> None:
    wall = "controller={type: unilateral_coupling, stiffness: [1000, 1000, 2.5], damping: [50, 50, 0.125]}"
    with pytest.raises(ParameterError, match=r"damping \[3, 0.01\], is not passive along [xy].*allow_active=true"):
        experiment.load("corner_peg", [wall, "device.damping=[3, 0.01]"])


@pytest.mark.exhaustive
def test_what_is_said_of_passivity_at_the_start() -> None:
    wall = "controller={type: unilateral_coupling, stiffness: [1000, 1000, 2.5], damping: [50, 50, 0.125]}"
    (allowed,) = experiment.load("corner_peg", [wall, "device.damping=[3, 0.01]", "controller.allow_active=true"])
    (passive,) = experiment.load("corner_peg", ["device.damping=[3, 0.01]"])
    (ideal,) = experiment.load("corner_peg")
    facts = [
        passivity_fact(trial.experiment.controller, trial.coupled_inertias, trial.experiment.rate)
        for trial in (allowed, passive, ideal)
    ]
    assert facts[0] == "active with a tool in contact (controller.allow_active: true)"
    assert facts[1].startswith("device passive") and facts[2].startswith("passivity not analysed")
