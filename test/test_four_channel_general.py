"""The general four-channel controller: its law, energy, integral, and the map of its loop against its own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_control import four_channel
from haptic_control.coupled_loop import channels_loop, channels_of, coupling_problem
from haptic_control.four_channel import FourChannel, FourChannelParameters
from haptic_control.stability import CoupledInertias, diverges, growth
from haptic_drivers.encoder import Encoder, EncoderParameters
from haptic_drivers.inertial import InertialDevice
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, ToolSizes, tick_time
from haptic_sim.parameters import explain
from haptic_sim.spatial import advance_pose

RATE = 1000.0  # [Hz]
T = 1.0 / RATE
BASE = {"stiffness": (100.0, 110.0, 120.0, 0.5, 0.6, 0.7), "damping": (7.0, 7.1, 7.2, 0.03, 0.04, 0.05)}


class Loop:
    """Controller and messages, at generic states."""

    def __init__(self, seed: int = 20260, **gains: Any) -> None:
        self.core = FourChannel(FourChannelParameters.model_validate(BASE | gains), RATE)
        self.device, self.tool = DeviceState(), ToolSizes(3, 3).tool_state()
        self.to_tool, self.to_device = ToolCommand(), DeviceCommand()
        rng = np.random.default_rng(seed)
        for state in (self.device, self.tool):
            state.pose[:3], state.pose[3:] = rng.normal(size=3), Rotation.random(rng=rng).as_quat()
            state.twist[:] = rng.normal(size=6)
        self.device.operator_wrench[:], self.before, self.environment = rng.normal(size=(3, 6))
        self.device.command_tick = -1
        self.device.stamp(0, 0)

    def tick(self, number: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Commands to tool and device of one tick, in which the last command has been rendered."""
        if number is not None:
            self.device.stamp(number, tick_time(number, RATE))
            self.device.command_tick = number - 1
            self.tool.stamp(number - 1, 0)
        self.tool.wrench[:] = self.before
        self.core.coordinate(self.device, self.tool, self.to_tool)
        self.tool.stamp(self.device.tick, 0)
        self.tool.wrench[:] = self.environment
        self.core.command(self.tool, self.to_device)
        return self.to_tool.wrench.copy(), self.to_device.wrench.copy()


def random_gains(rng: np.random.Generator) -> dict[str, Any]:
    pose = (*(0.1 * rng.normal(size=3)), *Rotation.random(rng=rng).as_quat())
    names = "stiffness damping tool_stiffness tool_damping contact_damping contact_damping_limit local_device_stiffness"
    others = "local_device_damping local_tool_stiffness local_tool_damping"
    return {name: tuple(rng.uniform(0.1, 2.0, 6)) for name in f"{names} {others}".split()} | {
        "force_scale": 0.7,
        "environment_scale": 1.3,
        "position_scale": 2.5,
        "reference": pose,
    }


@pytest.mark.parametrize("seed", range(20))
def test_the_general_form_is_that_of_the_figure(seed: int) -> None:
    """Each term of the module's equations, by SciPy's rotations, at generic poses."""
    gains = random_gains(np.random.default_rng(seed))
    g = {name: np.array(values) for name, values in gains.items()}
    loop = Loop(seed, **gains)
    to_tool, to_device = loop.tick()

    def less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        turn = Rotation.from_quat(a[3:]) * Rotation.from_quat(b[3:]).inv()
        return np.concatenate([a[:3] - b[:3], turn.as_rotvec()])

    S = np.array([2.5, 2.5, 2.5, 1, 1, 1])
    stands_for = loop.device.pose.copy()
    stands_for[:3] = g["reference"][:3] + 2.5 * (loop.device.pose[:3] - g["reference"][:3])
    r, u = less(loop.tool.pose, stands_for), loop.tool.twist - S * loop.device.twist
    sizes = np.repeat([np.linalg.norm(loop.before[:3]), np.linalg.norm(loop.before[3:])], 3)
    adaptive = np.minimum(g["contact_damping"] * sizes, g["contact_damping_limit"])
    on_tool = 0.7 / S * loop.device.operator_wrench - g["tool_stiffness"] * r - (g["tool_damping"] + adaptive) * u
    on_tool -= g["local_tool_stiffness"] * less(loop.tool.pose, g["reference"])
    on_tool -= g["local_tool_damping"] * loop.tool.twist
    on_device = S * (1.3 * loop.environment + g["stiffness"] * r + g["damping"] * u)
    on_device -= g["local_device_stiffness"] * less(loop.device.pose, g["reference"])
    on_device -= g["local_device_damping"] * loop.device.twist
    np.testing.assert_allclose(to_tool, on_tool, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(to_device, on_device, rtol=1e-10, atol=1e-10)
    assert 0 < np.count_nonzero(adaptive < g["contact_damping_limit"]) < 6 or seed


def test_what_is_left_at_its_default_changes_no_bit() -> None:
    """The same gains written in full, and additions of nothing."""
    plain = Loop()
    written = Loop(
        tool_stiffness=BASE["stiffness"],
        tool_damping=BASE["damping"],
        integral_limit=(1.0,) * 3,
        contact_damping_limit=(1.0,) * 3,
        reference=(1, 2, 3, 0, 0, 0, 1),
    )
    for k in range(3):
        np.testing.assert_array_equal(plain.tick(k), written.tick(k))


# Energy


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_position_scaling_alone_scales_no_power(scale: float) -> None:
    """Whatever the wrenches: their powers on both sides differ by what spring and damper take from u and r."""
    for seed in range(10):
        loop = Loop(seed, position_scale=scale, reference=(0.1, 0.2, 0.3, 0, 0, 0, 1), tool_damping=(0.0,) * 6,
                    damping=(0.0,) * 6, tool_stiffness=(0.0,) * 6, stiffness=(0.0,) * 6)  # fmt: skip
        to_tool, to_device = loop.tick()
        S = np.array([scale] * 3 + [1.0] * 3)
        # the tool moves as the device does: v_tool = S v_device
        v = loop.device.twist
        assert to_tool @ (S * v) == pytest.approx(loop.device.operator_wrench @ v, rel=1e-9)
        assert to_device @ v == pytest.approx(loop.environment @ (S * v), rel=1e-9)
        coupled = Loop(seed, position_scale=scale, reference=(0.1, 0.2, 0.3, 0, 0, 0, 1), stiffness=(0.0,) * 6)
        coupled.device.operator_wrench[:] = coupled.environment[:] = 0.0
        to_tool, to_device = coupled.tick()
        u = coupled.tool.twist - S * v
        taken = to_tool @ coupled.tool.twist + to_device @ v
        assert taken == pytest.approx(-np.sum(BASE["damping"] * u**2), rel=1e-9)


def test_consistent_scales_exchange_power_scaled_by_one_factor() -> None:
    """C2 = 1/C3 = K/K1 = B/B1: with power counted `factor` times at the device the coupling only dissipates."""
    factor = 5.0
    scaled = {"force_scale": factor, "environment_scale": 1.0 / factor}
    scaled |= {f"tool_{name}": tuple(factor * np.array(values)) for name, values in BASE.items()}
    for seed in range(10):
        loop = Loop(seed, **scaled, position_scale=3.0, reference=(0, 0, 0, 0, 0, 0, 1))
        S, rest = np.array([3.0] * 3 + [1.0] * 3), Loop(seed, **scaled | {"force_scale": 0.0})
        assert rest.core.parameters.force_scale == 0.0
        v = loop.device.twist
        own = loop.tick()
        loop.device.operator_wrench[:] = loop.environment[:] = 0.0
        coupling = loop.tick()
        operator, environment = own[0] - coupling[0], own[1] - coupling[1]
        again = Loop(seed)
        assert operator @ (S * v) == pytest.approx(factor * again.device.operator_wrench @ v, rel=1e-9)
        assert factor * environment @ v == pytest.approx(again.environment @ (S * v), rel=1e-9)
        np.testing.assert_allclose(coupling[0], -factor * coupling[1] / S, rtol=1e-12)


# Integral


def held(integral_limit: float, ticks: int = 4000, load: float = 3.0, **keys: Any) -> tuple[np.ndarray, FourChannel]:
    """Distance of a tool of 0.5 kg under a constant load from a device that is held; its wrench clipped at 2 N."""
    gains = {"stiffness": (100.0,) * 3, "damping": (10.0,) * 3, "integral": (500.0,) * 3} | keys
    parameters = FourChannelParameters.model_validate(gains | {"integral_limit": (integral_limit,) * 3})
    core = FourChannel(parameters, RATE)
    device, tool, to_tool, to_device = DeviceState(), ToolSizes(0, 0).tool_state(), ToolCommand(), DeviceCommand()
    device.pose[6] = tool.pose[6] = 1.0
    far = []
    for k in range(ticks):
        device.stamp(k, tick_time(k, RATE))
        device.command_tick = k - 1
        core.coordinate(device, tool, to_tool)
        tool.twist[:3] += T / 0.5 * (to_tool.wrench[:3] + np.array([load, 0, 0]))
        advance_pose(tool.twist, T, tool.pose)
        tool.stamp(k, 0)
        core.command(tool, to_device)
        device.rendered_wrench[:] = np.clip(to_device.wrench, -2.0, 2.0)
        far.append(tool.pose[0])
    return np.array(far), core


def test_an_integral_takes_the_steady_difference_away_within_its_limit() -> None:
    """A load of 1.5 N: F/K = 15 mm without an integral, none with one, and (F - limit)/K where that is too small."""
    for limit, expected in ((2.0, 0.0), (0.5, 0.01)):
        far, core = held(limit, load=1.5)
        assert far[-1] == pytest.approx(expected, abs=1e-5)
        assert core.remembers
    far, _ = held(1.0, load=1.5, integral=(0.0,) * 3)
    assert far[-1] == pytest.approx(0.015, abs=1e-5)


def test_an_integral_does_not_wind_up_where_the_device_renders_less_than_it_is_told() -> None:
    """With a load of 3 N the device is at its 2 N: the integral stops where they are reached, far below its limit."""
    far, core = held(100.0, load=3.0)
    z = core._channels.z[0]
    assert 0.0 < z < 2.0
    assert far[-1] == pytest.approx((3.0 - z) / 100.0, rel=1e-3)
    assert core._channels.z[1:].any() == 0.0


def test_an_integral_rests_while_the_device_renders_nothing() -> None:
    loop = Loop(integral=(10.0,) * 6, integral_limit=(5.0,) * 6)
    for k in range(5):
        loop.device.stamp(k, tick_time(k, RATE))
        loop.device.command_tick = -1
        loop.core.coordinate(loop.device, loop.tool, loop.to_tool)
    assert not loop.core._channels.z.any()
    loop.device.stamp(5, tick_time(5, RATE))
    loop.device.command_tick = 3
    loop.core.coordinate(loop.device, loop.tool, loop.to_tool)
    assert loop.core._channels.z.all()
    loop.core.configure(FourChannelParameters.model_validate(BASE))
    assert not loop.core.remembers and not loop.core._channels.z.any()


def test_adaptive_damping_is_bounded_in_an_impact() -> None:
    """An impulse is a wrench of p / T: 60 s/m of 1000 N would be 60,000 N s/m."""
    loop, plain = (
        Loop(contact_damping=(60.0,) * 6, contact_damping_limit=(30.0,) * 3 + (0.2,) * 3),
        Loop(),
    )
    loop.before[:] = plain.before[:] = 1000.0
    difference = plain.tick()[0] - loop.tick()[0]
    u = loop.tool.twist - loop.device.twist
    np.testing.assert_allclose(difference, np.array([30.0] * 3 + [0.2] * 3) * u, rtol=1e-9)


# The map of the loop


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "apart": {"tool_stiffness": (300.0,) * 3 + (1.0,) * 3, "tool_damping": (20.0,) * 3 + (0.2,) * 3},
    "local": {
        "local_device_stiffness": (50.0,) * 3 + (0.1,) * 3,
        "local_device_damping": (3.0,) * 3 + (0.01,) * 3,
        "local_tool_stiffness": (80.0,) * 3 + (0.2,) * 3,
        "local_tool_damping": (1.0,) * 3 + (0.01,) * 3,
        "reference": (0, 0, 0, 0, 0, 0, 1),
    },
    "integral": {"integral": (300.0,) * 3 + (2.0,) * 3, "integral_limit": (1e3,) * 6},
    "scaled": {"position_scale": 3.0, "reference": (0, 0, 0, 0, 0, 0, 1)},
    "observed": {"operator_wrench": "observed", "device_mass": 0.35, "device_inertia": 1.5e-3, "force_scale": 2.0},
    "damped observed": {
        "operator_wrench": "observed",
        "device_mass": 0.3,
        "device_inertia": 2e-3,
        "device_damping": (9.0,) * 3 + (0.02,) * 3,
    },
}
VARIANTS["all"] = {key: value for one in VARIANTS.values() for key, value in one.items()}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(
    ("damping", "integrator", "encoder"),
    [
        (None, 2, None),
        ((5.0, 0.01), 2, None),
        (None, 1, None),
        ((5.0, 0.01), 3, None),
        ((5.0, 0.01), 2, {"velocity": "difference"}),
        (None, 3, {"velocity": "difference", "velocity_cutoff": 60.0}),
    ],
)
def test_the_map_is_the_kernels_loop(
    name: str, damping: tuple[float, float] | None, integrator: int, encoder: dict[str, Any] | None
) -> None:
    """From the same state, tick for tick, in all six directions; small rotations."""
    p = FourChannelParameters.model_validate(BASE | VARIANTS[name])
    mass, inertia, device = 0.2, 1e-3, (0.4, 2e-3)
    m = np.array([mass] * 3 + [inertia] * 3)
    core, hand = FourChannel(p, RATE), InertialDevice(*device, planar=False, damping=damping)
    rng, small = np.random.default_rng(20260), np.array([1e-3] * 3 + [1e-6] * 3)
    tool, state, to_tool, to_device = ToolSizes(0, 0).tool_state(), DeviceState(), ToolCommand(), DeviceCommand()
    tool.pose[6] = 1.0
    tool.twist[:], hand.twist[:] = small * rng.normal(size=(2, 6))
    S = np.array([p.position_scale] * 3 + [1.0] * 3)
    measured = EncoderParameters.model_validate(encoder or {})
    reader = Encoder(measured, hand.pose, RATE)
    coupled = CoupledInertias(
        planar=False,
        tool=tuple(np.diag(1.0 / m).ravel()),
        device=device,
        damping=damping,
        integrator=integrator,
        difference=measured.difference_part(RATE),
    )
    channels = channels_of(p, coupled, RATE)
    loop, states, last = channels_loop(channels, coupled, RATE), [], np.zeros(6)

    def rotation_vector(pose: np.ndarray) -> np.ndarray:
        return np.concatenate([pose[:3], 2.0 * pose[3:6]])

    for k in range(300):
        state.stamp(k, tick_time(k, RATE))
        state.pose[:], state.twist[:], state.command_tick = hand.pose, hand.twist, k - 1
        reader.read(state)
        x, device_x = rotation_vector(tool.pose), rotation_vector(hand.pose)
        blocks = [x - S * device_x, tool.twist.copy(), hand.twist.copy()]
        blocks += [x] if channels.K_t.any() or channels.K_d.any() else []
        blocks += [core._channels.z.copy()] if channels.Ki.any() else []
        if channels.observer is not None:
            before = core._operator._arrays.momentum / core._operator._arrays.model.inertia.diagonal()
            blocks += [core._operator._arrays.estimate.copy(), before, last.copy()]
        blocks += [state.twist.copy()] if encoder else []
        states.append(np.concatenate(blocks))
        core.coordinate(state, tool, to_tool)
        before_tick = tool.twist.copy()
        tool.twist[:] += T * to_tool.wrench / m
        moving = {1: before_tick, 2: tool.twist, 3: 0.5 * (before_tick + tool.twist)}[integrator]
        advance_pose(moving, T, tool.pose)
        tool.stamp(k, 0)
        core.command(tool, to_device)
        hand.step(np.zeros(6), to_device.wrench, T)
        state.rendered_wrench[:] = last[:] = to_device.wrench
    expected = states[1]  # at the first tick there is nothing to remember
    for found in states[1:]:
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-9 * np.abs(states[1]).max())
        expected = loop @ expected


@pytest.mark.parametrize(
    "bad",
    [
        {"tool_damping": (700.0,) * 3 + (0.03,) * 3},
        {"local_device_damping": (0.0, 5e3, 0.0, 0.0, 0.0, 0.0)},
        {"local_tool_stiffness": (9e6,) * 3 + (0.0,) * 3, "reference": (0, 0, 0, 0, 0, 0, 1)},
        {"contact_damping": (60.0,) * 6, "contact_damping_limit": (900.0,) * 3 + (0.2,) * 3},
        {"integral": (0.0,) * 5 + (900.0,), "integral_limit": (1.0,) * 6},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_each_gain_that_diverges_is_named_with_the_largest_that_would_do(bad: dict[str, Any]) -> None:
    coupled = CoupledInertias(planar=False, tool=tuple(np.diag([5.0] * 3 + [1e3] * 3).ravel()), device=(0.4, 2e-3))
    assert coupling_problem(FourChannelParameters.model_validate(BASE), coupled, RATE) == ""
    given = FourChannelParameters.model_validate(BASE | bad)
    problem = coupling_problem(given, coupled, RATE)
    names = [name for name in bad if name not in ("reference", "integral_limit", "contact_damping")]
    for name in names:
        assert f"controller.{name} = [" in problem, problem
    would = problem.split("stable gains: ")[1].split(";")[0]
    found = {
        part.split("=")[0].removeprefix("controller."): tuple(map(float, part.split("=")[1].strip("[]").split(",")))
        for part in would.split(" ")
    }
    assert set(found) == set(names)
    for factor, refused in ((1.0, False), (1.05, True)):
        gains = {name: tuple(factor * value for value in values) for name, values in found.items()}
        again = FourChannelParameters.model_validate(BASE | bad | gains)
        assert bool(coupling_problem(again, coupled, RATE)) == refused


def test_a_device_that_moves_exactly_has_a_loop_of_its_own() -> None:
    """Under a held wrench a spring without a damper gives energy to a device without damping (K T/2 of it takes it)."""
    tool = tuple(np.diag([1e-9] * 3 + [1e-9] * 3).ravel())  # as good as fixed
    spring = FourChannelParameters(stiffness=(1000.0,) * 3 + (1.0,) * 3, damping=(0.0,) * 6)

    def problem(damping: tuple[float, float] | None) -> str:
        coupled = CoupledInertias(planar=False, tool=tool, device=(0.4, 2e-3), damping=damping)
        return coupling_problem(spring, coupled, RATE)

    assert problem(None) == ""
    assert problem((0.0, 0.0)).startswith("controller.stiffness = [1000, 1000, 1000, 1, 1, 1]: the sampled coupling")
    assert problem((0.55, 5.5e-4)) == ""  # K T / 2 = 0.5 N s/m, 5e-4 N m s/rad
    assert problem((0.45, 4.5e-4)) != ""


def test_the_integrator_of_the_tool_is_in_its_loop() -> None:
    """Explicit Euler (method 1) lets a spring supply energy, which only its damper takes: T K < B."""
    tool, device = tuple(np.diag([2.0] * 3 + [2.0] * 3).ravel()), (1e8, 1e8)  # as good as fixed

    def problem(damping: float, integrator: int) -> str:
        coupled = CoupledInertias(planar=False, tool=tool, device=device, integrator=integrator)
        return coupling_problem(FourChannelParameters(stiffness=(1000.0,) * 6, damping=(damping,) * 6), coupled, RATE)

    # z^2 - (2 - beta) z + 1 - beta + kappa: stable if kappa < beta, which is T K < B; method 3: T K / 2 < B
    for integrator, limit in ((1, 1.0), (3, 0.5)):
        assert problem(1.02 * limit, integrator) == ""
        assert "diverges" in problem(0.98 * limit, integrator)
    assert problem(0.0, 2) == ""


def test_limits_that_are_missing_are_named() -> None:
    for gains, said in (
        ({"integral": (1.0, 0.0, 0.0)}, "controller.integral_limit = null: integral is not 0; give its limit"),
        (
            {"contact_damping": (1.0, 0.0, 0.0)},
            "controller.contact_damping_limit = null: contact_damping is not 0; give its limit",
        ),
    ):
        with pytest.raises(ValidationError) as caught:
            FourChannelParameters.model_validate(gains)
        assert explain(caught.value, FourChannelParameters, "controller") == [said]


def test_the_reference_is_that_of_the_hand_at_the_start() -> None:
    (trial,) = experiment.load("corner_peg", ["analysis=trial", "controller.position_scale=2"])
    assert trial.experiment.controller.reference == pytest.approx((0, 0, 0, 0, 0, 0, 1))
    (plain,) = experiment.load("corner_peg", ["analysis=trial"])
    assert plain.experiment.controller.reference is None


def test_no_kernel_is_compiled_again() -> None:
    loop, kernels = Loop(), (four_channel._coordinate, four_channel._answer)
    loop.core.warm_up(ToolSizes(3, 3))
    before = [len(kernel.signatures) for kernel in kernels]
    for seed in range(3):
        loop.core.configure(FourChannelParameters.model_validate(random_gains(np.random.default_rng(seed))))
        loop.tick(seed)
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert growth(np.eye(2)) == 1.0 and not diverges(np.eye(2))
