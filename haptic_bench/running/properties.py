"""Properties that every part must have, of this package or of any other; `haptics check` looks for them.

A part is looked at in a short trial that it takes part in, and alone, under random inputs.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from haptic_bench.experiment import Trial
from haptic_bench.running.foreign_errors import describe_foreign
from haptic_bench.running.offline import simulate
from haptic_control.guard import GuardParameters
from haptic_drivers.operators import build_operator
from haptic_drivers.parameters import DeviceContext
from haptic_sim.dynamics.energy import TERMS, UnstableError
from haptic_sim.geometry.textures import contradiction
from haptic_sim.messages import DeviceCommand, DeviceState, ToolCommand, tick_time
from haptic_sim.simulation import World
from haptic_sim.spatial import rotation_difference
from haptic_sim.tool.tool_side import build_surroundings, world_of
from haptic_sim.worlds.overlaps import find_overlaps

STEPS = 300  # with random inputs
HELD = 4096  # [B] that a step may hold for itself: views and numbers of Python, no large arrays
WINDOWS, WINDOW = 5, 50  # how often, and in how many steps, memory is measured
KEPT = 2048  # [B] that may be left of WINDOW steps, for what Python itself keeps: less than an array a step
FORCE, TORQUE, LENGTH, SPEED = 2.0, 0.02, 0.01, 0.1  # [N], [N m], [m], [m/s]: sizes of random inputs
LOST = 1e-3  # part of all work by which the energy of a passive device may be negative, for rounding
BOX, THROWS = 0.5, 5  # [kg], and how many are thrown
GRAVITY, LENGTH_OF_FALL = 9.81, 0.1  # [m/s^2], [m]
OVERLAP = 1e-3  # [m]
ROUNDING = 1e-9  # [J] of a world at rest, to which nothing is supplied
PUSHES, PUSH = 10, 20  # wrenches at random on the tool of a scene, and how many steps each is held
GAINED = 0.05  # part of the supplied energy that discrete time may add to it
CONVERGED = 0.6  # part of an error of first order that is left at half the period, at most
ADDED = 0.02  # part of the supplied energy that contacts may add, by discrete time


class Finding(NamedTuple):
    """Whether a part has a property.

    Attributes:
        text: the property.
        problem: what was found; empty: it has it.
    """

    text: str
    problem: str


def properties(kind: str, trial: Trial) -> Iterator[Finding]:
    """Findings about the part of a kind (`controllers`, ...) of a trial."""
    rebuilt = trial
    if kind == "scenes":
        rebuilt = replace(trial, built=None)
        yield from _of_start(trial, rebuilt)
    try:
        yield from _of_trial(trial, rebuilt)
        yield from _of_kind(kind, trial)
    except (Exception, SystemExit) as error:
        if not (raised := describe_foreign(error, trial.experiment)):
            raise
        yield Finding("it raises no error", raised)


def _of_kind(kind: str, trial: Trial) -> Iterator[Finding]:
    """Findings about a part by itself."""
    if kind == "controllers":
        yield from _of_steps(lambda: _controller_steps(trial))
        yield Finding("its commands have the tick of the device state that was used", _wrong_tick(trial))
    elif kind == "operators" and not trial.experiment.operator.EVENTS:  # a person moves a pointer
        yield from _of_steps(lambda: _operator_steps(trial))
    elif kind == "local_models":
        yield from _of_steps(lambda: _local_model_steps(trial))
    elif kind == "devices":
        yield from _of_steps(lambda: _device_steps(trial))
        yield Finding("passive: it gives back no more energy than it was given", _active(trial))
    elif kind == "engines" and trial.experiment.environment.engine.SERVO:
        yield from _of_steps(lambda: _tool_side_steps(trial))
    elif kind == "scenes" and trial.experiment.environment.engine.SERVO and not trial.experiment.asynchronous:
        yield from _of_steps(lambda: _tool_side_steps(replace(trial, built=None)))
        yield Finding("passive: its energy does not rise beyond what was supplied", _gained(trial))
    elif kind == "fields":
        yield from _of_steps(lambda: _tool_side_steps(trial))
        yield Finding("passive: its energy does not rise beyond what was supplied", _gained(trial))
    elif kind == "textures":
        yield Finding(
            "its height is from -depth to 0, and its gradient and bounds are those of the height",
            next(filter(None, map(contradiction, trial.world.textures.values())), ""),
        )
        yield from _of_steps(lambda: _tool_side_steps(trial))
        yield Finding("passive: its energy does not rise beyond what was supplied", _gained(trial))
    elif kind in ("contact_methods", "friction_models"):
        if kind == "contact_methods":
            yield Finding("its impulses are finite", _invalid(trial))
        yield from _of_steps(lambda: _contact_steps(trial))
        yield Finding("passive: contacts add no energy beyond what is booked", _added(trial))


def _of_start(trial: Trial, rebuilt: Trial) -> Iterator[Finding]:
    """Compare the start of a scene with its start when it is built again."""
    one, other = trial.start, rebuilt.start
    differ = [name for name in ("q", "v") if getattr(one, name).tobytes() != getattr(other, name).tobytes()]
    if one.world is not None:
        differ += [name for name in ("model", "geometry", "laws") if getattr(one, name) != getattr(other, name)]
    drawn = f"built again, it differs in {', '.join(differ)}; nothing may be drawn without a seed, or read from a clock"
    yield Finding("the same start when it is built again", drawn if differ else "")
    if one.world is not None and not trial.experiment.scene.ENGINE:
        text = f"bodies overlap by at most {OVERLAP:g} m at the start, where contacts are rigid"
        yield Finding(text, _overlap(trial))


def _overlap(trial: Trial) -> str:
    """Text about the bodies that overlap where contacts are rigid; empty: none."""
    environment = trial.experiment.environment.with_method("constraint")
    world = world_of(trial.experiment.model_copy(update={"environment": environment}))
    return "; ".join(f"{a} and {b} overlap by {depth:.4g} m" for depth, a, b in find_overlaps(world, OVERLAP))


def _of_trial(trial: Trial, rebuilt: Trial) -> Iterator[Finding]:
    """A trial with the part: finite, and the same again."""
    try:
        digests = _digest(trial), _digest(rebuilt)
    except RuntimeError as error:
        yield Finding("a trial goes on to its end", str(error))
        return
    yield Finding("a trial goes on to its end", "")
    again = "" if digests[0] == digests[1] else "two trials of the same experiment differ"
    yield Finding("the same bits in a second trial", again)


def _digest(trial: Trial) -> bytes:
    """Digest of all messages of a trial offline."""
    found = hashlib.sha256()
    simulate(trial, lambda tick, messages: found.update(b"".join(messages.values())))
    return found.digest()


def _invalid(trial: Trial) -> str:
    """Number of steps of a trial in which a contact method gave numbers that are not finite; empty: none."""
    found: list[int] = []
    with contextlib.suppress(RuntimeError):  # which `_of_trial` reports
        simulate(trial, lambda *_: None, left_out=lambda _, steps: found.append(steps))
    return (
        f"in {found[0]} steps a contact had no impulse: its answer has a NaN or an infinite number" if found[0] else ""
    )


Step = Callable[[int], np.ndarray]
"""Calls a part in a tick, and returns what it has said, which is copied."""


def _of_steps(build: Callable[[], Step]) -> Iterator[Finding]:
    """Two parts that are built alike, under the same random inputs."""
    one, other = build(), build()
    outputs, repeated = (np.array([step(tick).copy() for tick in range(STEPS)]) for step in (one, other))
    wrong = np.flatnonzero(~np.isfinite(outputs).all(axis=1))
    finite = f"in tick {wrong[0]}: {outputs[wrong[0]].tolist()}" if len(wrong) else ""
    yield Finding("finite under random inputs", finite)
    differ = np.flatnonzero((outputs != repeated).any(axis=1) & ~np.isnan(outputs).any(axis=1))
    same = f"built again, it differs from tick {differ[0]} on; nothing may depend on a clock" if len(differ) else ""
    yield Finding("the same bits after a reset", same)
    held, kept = _memory(build())
    large = f"a step holds up to {held} B, and {WINDOW} steps keep {kept} B; work in arrays that are made before"
    text = f"a step holds at most {HELD} B of new memory, and keeps none"
    yield Finding(text, large if held > HELD or kept > KEPT else "")


def _memory(step: Step) -> tuple[int, int]:
    """Bytes that Python and NumPy hold at most in a step beyond those before, and those that WINDOW steps keep.

    Of several windows the least counts: other threads of the process allocate now and then, a step does each time.
    """
    step(0)
    gc.collect()
    tracemalloc.start()
    try:
        for tick in range(1, STEPS - WINDOWS * WINDOW):  # until what was held before, and is let go of now, is known
            step(tick)
        held, kept = [], []
        for first in range(STEPS - WINDOWS * WINDOW, STEPS, WINDOW):
            begun, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for tick in range(first, first + WINDOW):
                step(tick)
            left, most = tracemalloc.get_traced_memory()
            held.append(most - begun)
            kept.append(left - begun)
        return min(held), min(kept)
    finally:
        tracemalloc.stop()


class _Random:
    """Random motions and wrenches about where the hand is at the start, the same for each that is made."""

    def __init__(self, trial: Trial):
        rng = np.random.default_rng(20260)
        directions = np.array([1, 1, 0, 0, 0, 1] if trial.hand.planar else [1] * 6, float)
        self.poses = np.tile(np.array(trial.hand.pose), (STEPS, 1))
        self.poses[:, :3] += LENGTH * directions[:3] * rng.normal(size=(STEPS, 3))
        self.twists = SPEED * directions * rng.normal(size=(STEPS, 6))
        self.wrenches = np.repeat([FORCE, TORQUE], 3) * directions * rng.normal(size=(STEPS, 6))
        self.other = np.repeat([FORCE, TORQUE], 3) * directions * rng.normal(size=(STEPS, 6))


def _controller_steps(trial: Trial) -> Step:
    experiment, given = trial.experiment, _Random(trial)
    controller = experiment.controller.build(experiment.rate)
    device, on_tool, on_device = DeviceState(), ToolCommand(), DeviceCommand()
    tool, outputs = _tool_state(trial), np.zeros(18)

    def step(tick: int) -> np.ndarray:
        device.stamp(tick, tick_time(tick, experiment.rate))
        device.command_tick = tick - 1
        device.pose[:], device.twist[:] = given.poses[tick], given.twists[tick]
        device.operator_wrench[:], device.rendered_wrench[:] = given.wrenches[tick], on_device.wrench
        controller.coordinate(device, tool, on_tool)
        tool.stamp(tick, device.nanoseconds)
        tool.pose[:], tool.twist[:] = given.poses[-1 - tick], given.twists[-1 - tick]
        tool.wrench[:] = given.other[tick]
        controller.command(tool, on_device)
        outputs[:6], outputs[6:12], outputs[12:] = on_tool.wrench, on_device.wrench, on_device.acceleration
        return outputs

    return step


def _wrong_tick(trial: Trial) -> str:
    """Text about the first command of a controller whose `device_tick` is not that of the device state; empty: none."""
    experiment = trial.experiment
    controller = experiment.controller.build(experiment.rate)
    device, on_tool, on_device, tool = DeviceState(), ToolCommand(), DeviceCommand(), _tool_state(trial)
    for tick in range(STEPS):
        device.stamp(tick, tick_time(tick, experiment.rate))
        device.pose[:] = trial.hand.pose
        controller.coordinate(device, tool, on_tool)
        tool.stamp(tick, device.nanoseconds)
        controller.command(tool, on_device)
        if on_device.device_tick != tick:
            return (
                f"in tick {tick}: device_tick = {on_device.device_tick}; must be {tick}, `device.tick` of `coordinate`"
            )
    return ""


def _tool_state(trial: Trial) -> Any:
    """The state of the tool in the first tick of a trial."""
    found: list[bytes] = []
    simulate(trial.with_ticks(2), lambda tick, messages: found.append(messages.get("tool_state", b"")))
    state = trial.tool_sizes.tool_state()
    state.load(found[0])
    return state


def _operator_steps(trial: Trial) -> Step:
    experiment, given, outputs = trial.experiment, _Random(trial), np.zeros(6)
    operator = build_operator(experiment.operator, trial.table, experiment.seed)

    def step(tick: int) -> np.ndarray:
        operator.wrench(tick / experiment.rate, given.poses[tick], given.twists[tick], outputs)
        return outputs

    return step


def _motion_of(tool: Any, advance: Callable[[int], object]) -> Step:
    """Pose, twist and wrench of what is advanced by a tick; NaN once nothing says how it moves on."""
    outputs = np.zeros(19)

    def step(tick: int) -> np.ndarray:
        try:
            advance(tick)
        except UnstableError:
            outputs[:] = np.nan
            return outputs
        outputs[:7], outputs[7:13], outputs[13:] = tool.pose, tool.twist, tool.wrench
        return outputs

    return step


def _commanded(core: Any, state: Any, wrenches: np.ndarray, rate: float) -> Callable[[int], None]:
    """Advances a tool's side, or a local model, by a tick under its wrench of `wrenches` (ticks, 6)."""
    command = ToolCommand()

    def advance(tick: int) -> None:
        command.stamp(tick, tick_time(tick, rate))
        command.wrench[:] = wrenches[tick]
        core.step(command, state)

    return advance


def _local_model_steps(trial: Trial) -> Step:
    """A local model with the surroundings of the start, under random commands."""
    experiment = trial.experiment
    model, surroundings = trial.local_model(), build_surroundings(trial.world, experiment, experiment.rate)
    state, geometry = model.tool_state(), surroundings.local_geometry()
    surroundings.survey(state, 0, geometry)
    model.update(geometry, 0)
    return _motion_of(state, _commanded(model, state, _Random(trial).wrenches, experiment.rate))


def _tool_side_steps(trial: Trial) -> Step:
    """Steps of the part that answers the controller, under random commands."""
    side = trial.tool_side()
    state = side.tool_state()
    return _motion_of(state, _commanded(side, state, _Random(trial).wrenches, trial.experiment.rate))


def _gained(trial: Trial, pushes: int = PUSHES) -> str:
    """Energy that a world at random wrenches gained by itself, and why; empty: no more than discrete time may add.

    A discretisation error falls with the period, what a world supplies does not.
    """
    try:
        gained, supplied = _energies(trial, pushes)
        step = int(np.argmax(gained - GAINED * supplied))
        if gained[step] <= GAINED * supplied[step] + ROUNDING:
            return ""
        finer = trial.experiment.model_copy(update={"rate": 2.0 * trial.experiment.rate})
        remaining = _energies(replace(trial, experiment=finer, built=trial.start), pushes, 2)[0][2 * step + 1]
    except UnstableError as error:
        return str(error)
    found = f"step {step}: {gained[step]:.3g} J, where {supplied[step]:.3g} J were supplied"
    if remaining > CONVERGED * gained[step]:
        return f"{found}, and {remaining:.3g} J at half the period: the world supplies it itself"
    remedy = "choose a higher rate, a slower start, or joints away from their singularities"
    return f"{found}, a discretisation error, {remaining:.3g} J at half the period; {remedy}"


def _energies(trial: Trial, pushes: int, steps: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Energy that the world gained and that was supplied after each step [J]; a push is held for PUSH * steps.

    Raises:
        UnstableError: the world cannot go on.
    """
    side, wrenches = trial.tool_side(), np.repeat(_Random(trial).wrenches[:pushes], PUSH * steps, axis=0)
    state, energies = side.tool_state(), np.empty((len(wrenches), len(TERMS)))
    advance = _commanded(side, state, wrenches, trial.experiment.rate)
    for tick in range(len(wrenches)):
        advance(tick)
        energies[tick] = state.energy
    terms = dict(zip(TERMS, energies.T, strict=True))
    injected, potential = terms["injected"], terms["potential"]
    fallen = potential[0] - np.minimum.accumulate(potential)
    work = np.maximum(np.diff(injected, prepend=0.0), 0.0)
    return terms["numerical"], terms["kinetic"][0] + terms["elastic"][0] + np.cumsum(work) + fallen


def _thrown(trial: Trial, seed: int) -> World:
    """A box that is thrown into a corner at random, with the contacts of a trial."""
    rng, experiment = np.random.default_rng(seed), trial.experiment
    box = {
        "joint": "free",
        "mass": BOX,
        "position": [0.0, 0.0, *rng.uniform(0.09, 0.12, 1)],
        "rotation": rng.uniform(-1.5, 1.5, 3).tolist(),
        "velocity": [*rng.uniform(-1.0, 1.0, 3), *rng.uniform(-5.0, 5.0, 3)],
        "shapes": [{"type": "box", "size": [0.08, 0.1, 0.12]}],
    }
    walls = {
        name: {"joint": "fixed", "shapes": [{"type": "plane", "normal": normal, "offset": offset}]}
        for name, normal, offset in (("floor", [0, 0, 1], 0.0), ("wall", [-1, 0, 0], -0.1))
    }
    contact = dict(experiment.contact)
    if contact["penalty"] == "consistent":  # which keeps friction passive, whatever its law
        contact["penalty"] = "explicit"
    return World(
        {"tool": "box", "bodies": {**walls, "box": box}},
        contact=contact,
        environment={"method": experiment.environment.method},
    )


def _contact_steps(trial: Trial) -> Step:
    world, given = _thrown(trial, 0), _Random(trial)
    return _motion_of(world, lambda tick: world.step(given.wrenches[tick]))


def _added(trial: Trial) -> str:
    """Energy that contacts added to thrown boxes; empty: no more than the discretisation error."""
    given = _Random(trial)
    for seed in range(THROWS):
        world = _thrown(trial, seed)
        supplied, before = 0.0, 0.0
        for tick in range(5 * STEPS):
            try:
                world.step(given.wrenches[tick // 20 % STEPS])
            except UnstableError as error:
                return f"box {seed}, step {tick}: {error}"
            energy = world.energy
            if tick == 0:
                supplied = energy["kinetic"] + BOX * GRAVITY * LENGTH_OF_FALL
            supplied, before = supplied + max(0.0, energy["injected"] - before), energy["injected"]
            if energy["numerical"] > ADDED * supplied:
                return f"box {seed}, step {tick}: {energy['numerical']:.3g} J, where {supplied:.3g} J were supplied"
    return ""


def _device(trial: Trial) -> Any:
    """The device of a trial, without a guard, which would keep it passive."""
    experiment = trial.experiment
    guard = GuardParameters(type="none")
    context = DeviceContext(experiment.rate, trial.hand, experiment.seed, guard, experiment.tool)
    return experiment.device.build(context).device


def _device_steps(trial: Trial) -> Step:
    given, device, period = _Random(trial), _device(trial), 1.0 / trial.experiment.rate
    command, outputs, sensed = DeviceCommand(), np.zeros(25), np.zeros(6)
    command.mode = device.MODE

    def step(tick: int) -> np.ndarray:
        device.measure(tick, given.wrenches[tick], sensed)
        command.wrench[:] = given.other[tick]
        command.acceleration[:] = given.twists[tick]
        if tick % 4 == 3:
            device.idle(given.wrenches[tick], period)
        else:
            device.apply_command(command, given.wrenches[tick], period)
        outputs[:7], outputs[7:13], outputs[13:19], outputs[19:] = device.pose, device.twist, device.rendered, sensed
        return outputs

    return step


def _active(trial: Trial) -> str:
    """Energy that a device gave beyond what it got, from rest; empty: no more than rounding errors."""
    given, device, period = _Random(trial), _device(trial), 1.0 / trial.experiment.rate
    command, moved, before, sensed = DeviceCommand(), np.zeros(6), np.zeros(7), np.zeros(6)
    command.mode, net, gross = device.MODE, 0.0, 0.0
    for tick in range(STEPS):
        before[:] = device.pose
        operator = given.wrenches[tick // 10]
        device.measure(tick, operator, sensed)
        command.wrench[:], command.acceleration[:] = given.other[tick // 10], given.twists[tick // 10]
        device.apply_command(command, operator, period)
        moved[:3] = device.pose[:3] - before[:3]
        rotation_difference(device.pose[3:], before[3:], moved[3:])
        work = (operator + device.rendered) * moved
        net, gross = net + float(work.sum()), gross + float(np.abs(work).sum())
        if net < -LOST * gross:
            return f"after {tick + 1} ticks it gave {-net:.3g} J more than it got, of {gross:.3g} J that was exchanged"
    return ""
