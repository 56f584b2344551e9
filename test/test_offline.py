"""Offline runs of the corner peg against the tick written out in plain NumPy; determinism, end and order."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from offline_runs import run_unrecorded
from scipy.optimize import nnls

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import MessageStore, of_trial
from haptic_bench.running.offline import simulate
from haptic_sim.messages import COLLIDING, DeviceCommand, DeviceState, ToolCommand, ToolState, WorldState
from haptic_sim.spatial import planar_angle
from haptic_sim.tool import tool_side
from haptic_sim.tool.parameters import SurveySchedule


def trial(*settings: str, duration: float | None = None) -> Trial:
    return experiment.load("corner_peg", settings, duration)[0]


class Reference:
    """The tick of THESIS 4.5 for a planar peg, on (x, y, angle), each rule in a line or two."""

    def __init__(self, one: Trial) -> None:
        self.x = one.experiment
        tool, scene, controller = self.x.tool, self.x.scene, self.x.controller
        self.T = 1.0 / self.x.rate
        self.M = np.array([tool.mass, tool.mass, tool.inertia])
        half = 0.5 * np.array(tool.size)
        self.corners = half * np.array([[1, -1], [1, 1], [-1, 1], [-1, -1]])
        self.normals = np.array([[-1.0, 0], [0, 1], [1, 0], [0, -1]])
        self.reach = np.array([half[0] + scene.gap[0], half[1] + scene.gap[1]])
        self.reach = np.append(self.reach, [half[0] + scene.far_gap[0], half[1] + scene.far_gap[1]])
        self.Kc, self.Bc = np.array(controller.stiffness), np.array(controller.damping)
        self.old: set[tuple[int, int]] = set()
        self.pending = False

    def contact(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, int, bool]:
        """Wrench (fx, fy, tz), number of contacts, whether impulses act."""
        c, x = self.x.contact, self.x
        R = np.array([[np.cos(q[2]), -np.sin(q[2])], [np.sin(q[2]), np.cos(q[2])]])
        arms = self.corners @ R.T
        s = self.normals @ (arms + q[:2]).T + self.reach[:, None]  # (wall, corner)
        touching = [(wall, corner) for wall in range(4) for corner in range(4) if s[wall, corner] < 0]
        J = [(*self.normals[w], arms[i, 0] * self.normals[w, 1] - arms[i, 1] * self.normals[w, 0]) for w, i in touching]
        J = np.array(J).reshape(-1, 3)
        b = J @ v
        new = {pair for pair, b_i in zip(touching, b, strict=True) if b_i < 0} - self.old
        colliding = self.pending or bool(new)
        self.old, self.pending = set(touching), False
        hit = b < 0
        if x.environment.method.type == "impulse_augmented" and colliding and hit.any():
            J, b = J[hit], (1 + c.restitution) * b[hit]
            p = -np.linalg.pinv(J / self.M @ J.T, rcond=1e-10) @ b
            if p.min() < -1e-12 * p.max():
                W = J / np.sqrt(self.M)
                p = nnls(W.T, -np.linalg.pinv(W) @ b)[0]
            wrench = J.T @ p / self.T
            if x.device.impulse_rendering in ("scaled", "spread"):
                scale = min(1.0, *(np.array(x.device.wrench_limit) / np.maximum(np.abs(wrench), 1e-300)))
                wrench, self.pending = wrench * scale, scale < 1 and x.device.impulse_rendering == "spread"
            return wrench, len(touching), True
        depth = [-s[pair] for pair in touching]
        return J.T @ np.maximum(c.stiffness * np.array(depth) - c.damping * b, 0), len(touching), False

    def run(self) -> dict[str, np.ndarray]:
        x, xd, q, v = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
        F = np.array(self.x.operator.wrench)[[0, 1, 5]]
        limit = np.inf if self.x.device.impulse_rendering == "full" else np.array(self.x.device.wrench_limit)
        rows: dict[str, list[Any]] = {name: [] for name in ("hand", "tool", "env", "rendered", "contacts", "colliding")}
        for _ in range(round(self.x.duration * self.x.rate) + 1):
            Fc = self.Kc * (q - x) + self.Bc * (v - xd)
            Fenv, contacts, colliding = self.contact(q, v)
            rendered = np.clip(Fenv + Fc, -limit, limit)
            for name, value in (
                ("hand", [*x, *xd]),
                ("tool", [*q, *v]),
                ("env", Fenv),
                ("rendered", rendered),
                ("contacts", contacts),
                ("colliding", colliding),
            ):
                rows[name].append(np.array(value))
            v = v + self.T * (F - Fc + Fenv) / self.M
            q = q + self.T * v
            xd = xd + self.T * (F + rendered) / self.M
            x = x + self.T * xd
        return {name: np.array(values) for name, values in rows.items()}


VARIANTS = [
    ("environment.method=penalty",),
    ("environment.method=penalty", "contact.per=wall", "contact.stiffness=1000"),
    ("device.impulse_rendering=full",),
    ("device.impulse_rendering=saturated",),
    ("device.impulse_rendering=scaled",),
    ("device.impulse_rendering=spread",),
    ("operator.wrench=[0.8, -0.6, 0, 0, 0, 0.002]", "device.impulse_rendering=spread"),
    ("operator.wrench=[0.5, -0.9, 0, 0, 0, -0.004]", "contact.restitution=0.4"),
    ("rate=1000", "scene.gap=[0.02, 0.02]", "tool.size=[0.03, 0.05]", "controller.stiffness=[300, 200, 1]"),
]


@pytest.mark.parametrize(
    "settings",
    [one if i in (0, 2, 5) else pytest.param(one, marks=pytest.mark.exhaustive) for i, one in enumerate(VARIANTS)],
    ids=" ".join,
)
def test_corner_peg_is_the_tick_written_out(settings: tuple[str, ...]) -> None:
    one = trial(*settings)
    if one.experiment.contact.per == "wall":
        reference = Reference(trial(*settings, "contact.per=point"))  # overdamped: a face has two points
        reference.x = reference.x.model_copy(
            update={"contact": reference.x.contact.model_copy(update={"stiffness": 500.0, "damping": 15.0})}
        )
    else:
        reference = Reference(one)
    expected, samples = reference.run(), run_unrecorded(one)
    assert len(samples) == round(one.experiment.duration * one.experiment.rate) + 1
    assert samples["contacts"].max() >= 2
    np.testing.assert_array_equal(samples["contacts"], expected["contacts"])
    np.testing.assert_array_equal(samples["colliding"], expected["colliding"])
    for prefix in ("hand", "tool"):
        pose, twist = samples.pose(prefix), samples.twist(prefix)
        found = np.column_stack([pose[:, :2], planar_angle(pose), twist[:, [0, 1, 5]]])
        np.testing.assert_allclose(found, expected[prefix], rtol=0, atol=1e-9)
    for name in ("env", "rendered"):
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(samples.wrench(name)[:, [0, 1, 5]], expected[name], rtol=0, atol=1e-9 * scale)
        np.testing.assert_array_equal(samples.wrench(name)[:, 2:5], 0.0)
    np.testing.assert_array_equal(
        samples.wrench("operator"), np.tile(one.experiment.operator.wrench, (len(samples), 1))
    )
    energy = 0.5 * expected["tool"][:, 3:] ** 2 @ reference.M
    np.testing.assert_allclose(samples["kinetic_energy"], energy, rtol=0, atol=1e-10)
    q = np.column_stack([samples[f"q{i}"] for i in range(3)] + [samples[f"v{i}"] for i in range(3)])
    np.testing.assert_allclose(q, expected["tool"], rtol=0, atol=1e-9)


ASYNCHRONOUS = ("local_model.type=full", "environment.rate=60", "environment.delay=0.03")


@pytest.mark.parametrize("settings", [*VARIANTS[2:6], ASYNCHRONOUS], ids=" ".join)
def test_two_runs_are_the_same_bits(settings: tuple[str, ...]) -> None:
    stores = []
    for _ in range(2):
        calls: list[tuple[str, int, bytes]] = []
        simulate(trial(*settings, duration=1.2), lambda *message, calls=calls: calls.append(message))
        stores.append(calls)
    assert stores[0] == stores[1]


@pytest.mark.parametrize(
    ("rate", "duration", "last"), [(512, 0.1, 51), (1000, 0.0004, 0), (333.3, 0.1, 33), (512, 1, 512)]
)
def test_ticks_zero_to_n_are_executed(rate: float, duration: float, last: int) -> None:
    """N = round(D rate); the device's state after the last tick tells what was rendered in it."""
    store = MessageStore()
    one = trial(f"rate={rate}", duration=duration)
    assert simulate(one, store) == last + 1
    counts = {topic: len(messages) for topic, messages in store.messages.items()}
    assert counts == {
        "tool_state": last + 2,
        "device_state": last + 2,
        "tool_command": last + 1,
        "device_command": last + 1,
        "world_state": last // max(1, round(rate / 60)) + 1,
    }
    samples = of_trial(one, store.messages)
    assert samples["tick"].tolist() == list(range(last + 1))


def test_messages_come_in_the_order_of_the_tick() -> None:
    calls: list[tuple[str, int]] = []
    simulate(trial(duration=0.01), lambda tick, messages: calls.extend((topic, tick) for topic in messages))
    row = ["device_state", "tool_command", "tool_state", "device_command"]
    assert calls == [
        ("tool_state", -1),
        *((topic, k) for k in range(6) for topic in [*row, *(["world_state"] if k == 0 else [])]),
        ("device_state", 6),
    ]


def test_surveys_are_handed_over_when_they_are_known() -> None:
    """60 Hz are 9 ticks of 512 Hz, 0.03 s are 15: survey 0 at tick 0, survey 9 at 24, before the tick's messages."""
    calls: list[tuple[str, int]] = []
    asynchronous = trial(*ASYNCHRONOUS, duration=0.2)
    simulate(asynchronous, lambda tick, messages: calls.extend((topic, tick) for topic in messages))
    at = {tick: calls[i + 1] for i, (topic, tick) in enumerate(calls) if topic == "local_geometry"}
    schedule = SurveySchedule(9, 15)
    expected = {schedule.due(k): ("device_state", k) for k in range(103) if schedule.due(k) is not None}
    assert at == expected
    assert at[0] == ("device_state", 0)
    assert at[9] == ("device_state", 24)


def test_messages_carry_tick_and_time() -> None:
    seen: dict[str, list[tuple[int, int]]] = {}
    layouts = {
        "device_state": DeviceState(),
        "tool_command": ToolCommand(),
        "tool_state": ToolState(q=3, v=3, constraint_directions=36),
        "device_command": DeviceCommand(),
    }

    def sink(tick: int, messages: Mapping[str, bytes]) -> None:
        for topic, data in messages.items():
            if topic == "world_state":
                layouts.setdefault(topic, WorldState.of_layout(data, 8))
            layouts[topic].load(data)
            assert layouts[topic].tick == tick
            seen.setdefault(topic, []).append((tick, layouts[topic].nanoseconds))

    simulate(trial(duration=0.05), sink)
    for topic in ("device_state", "tool_command", "device_command", "world_state"):
        assert all(time == tick * 1_953_125 for tick, time in seen[topic])
    assert all(time == (tick + 1) * 1_953_125 for tick, time in seen["tool_state"])  # of the state after the tick


def test_stop_ends_early() -> None:
    store, asked = MessageStore(), []

    def stop() -> bool:
        asked.append(len(store.messages["device_command"]))
        return len(asked) == 3

    done = simulate(trial(), store, stop=stop)
    assert (done, asked) == (192, [64, 128, 192])
    assert len(of_trial(trial(), store.messages)) == 192  # whole rows, with what was rendered in the last


def test_progress_counts_the_ticks() -> None:
    seen: list[int] = []
    simulate(trial(duration=0.5), MessageStore(), progress=seen.append)
    assert seen == [64, 128, 192, 256]


def test_a_stopped_run_is_the_beginning_of_the_whole() -> None:
    whole, part = MessageStore(), MessageStore()
    simulate(trial(duration=0.5), whole)
    simulate(trial(duration=0.5), part, stop=lambda: len(part.messages["device_command"]) >= 128)
    for topic, messages in part.messages.items():
        assert messages == whole.messages[topic][: len(messages)]


def test_peg_and_hand_collide_and_come_to_rest_in_the_corner() -> None:
    """At rest each wall has two springs that carry the push: 0.32 N / 8000 N/m and 0.4 N / 8000 N/m deep."""
    one = trial()
    samples = run_unrecorded(one)
    np.testing.assert_allclose(samples.pose("tool")[-1][:2], [0.03 + 4e-5, -0.06 - 5e-5], rtol=0, atol=1e-6)
    np.testing.assert_allclose(samples.pose("hand")[-1], samples.pose("tool")[-1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(samples.wrench("env")[-1], [-0.32, 0.4, 0, 0, 0, 0], rtol=0, atol=1e-2)
    state = ToolState(q=3, v=3, constraint_directions=36)
    store = MessageStore()
    simulate(one, store)
    states = []
    for data in store.messages["tool_state"]:
        state.load(data)
        states.append(state.contact_state)
    assert states.count(COLLIDING) == samples["colliding"].sum() >= 2


def test_nothing_is_compiled_again() -> None:
    """After one run of each way to simulate, other values compile nothing."""
    import sys

    settings = [(f"device.impulse_rendering={name}",) for name in ("full", "saturated", "scaled", "spread")]
    settings += [("environment.method=penalty",), ("local_model.type=full", "environment.rate=60")]
    for setting in settings:
        simulate(trial(*setting, duration=0.05), MessageStore())
    kernels = {
        id(kernel): kernel
        for name, module in list(sys.modules.items())
        if name.startswith(("haptic_sim", "haptic_control", "haptic_drivers"))
        for kernel in vars(module).values()
        if isinstance(kernel, CPUDispatcher)
    }
    before = {key: len(kernel.signatures) for key, kernel in kernels.items()}
    for setting in settings:
        simulate(trial(*setting, "contact.restitution=0.5", "rate=1000", duration=1.0), MessageStore())
    assert {key: len(kernel.signatures) for key, kernel in kernels.items()} == before
    assert len(kernels) >= 15


# One world


@pytest.mark.parametrize(
    ("name", "settings"),
    [("corner_peg", ()), ("corner_peg", ("local_model.type=full", "environment.rate=60")), ("rolling_disk", ())],
)
def test_the_world_of_a_trial_is_built_once(
    name: str, settings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks, offline run, samples and analysis share it, and none of them changes it."""
    built: list[str] = []
    for function in ("build_world", "build_setup"):
        real = getattr(tool_side, function)
        monkeypatch.setattr(
            tool_side, function, lambda *given, real=real, **named: (built.append(name), real(*given, **named))[1]
        )
    (one,) = experiment.load(name, [*settings, "analysis=trial"], 0.1)
    first, second = MessageStore(), MessageStore()
    for store in (first, second):
        simulate(one, store)
    analysis = analysis_of(one.experiment)
    analysis.analyse(one, analysis.samples(one, first.messages))
    assert built == [name]
    assert first.messages == second.messages


def test_a_variant_of_a_trial_has_its_own_world() -> None:
    one = trial()
    scene = one.experiment.scene.model_copy(update={"gap": (0.01, 0.02)})
    other = replace(one, experiment=one.experiment.model_copy(update={"scene": scene}))
    assert other.start is not one.start
    assert replace(one, varied=(("seed", "0"),), built=one.start).start is one.start


def test_another_process_builds_the_world_of_a_trial_itself() -> None:
    one = trial(duration=0.1)
    other = pickle.loads(pickle.dumps(one))
    assert other == one
    first, second = MessageStore(), MessageStore()
    simulate(one, first)
    simulate(other, second)
    assert first.messages == second.messages
