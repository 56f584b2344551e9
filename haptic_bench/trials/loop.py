"""A closed loop for programs: operator, device, controller and world, advanced tick by tick in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from pydantic import PrivateAttr

from haptic_bench.experiment import Trial, assemble
from haptic_bench.experiment.settings import plain
from haptic_bench.running.offline import HandLoop, build_loop
from haptic_bench.trials.recorded import load_one
from haptic_control.parameters import ControllerParameters
from haptic_drivers.operators import OperatorContext, OperatorParameters
from haptic_drivers.parameters import DeviceParameters
from haptic_sim.messages import FORCE, MOTION, DeviceCommand, DeviceState, ToolCommand, ToolState
from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import Model, World

OF_WORLD = ("seed", "tool", "scene", "contact", "environment", "constraint")
"""Sections of an experiment that a `Model` has, beside its rate."""

Push = Callable[[float, np.ndarray, np.ndarray], ArrayLike]
"""The operator's wrench (6,) [N, N m] at a time [s], of the hand's pose (7,) and twist (6,)."""


class Coupling(Protocol):
    """A controller of a program's own; see `haptic_control.parameters.Controller`.

    With an attribute COMMANDS = MOTION it commands motions, which its device has to take; else forces.
    """

    def coordinate(self, device: DeviceState, tool: ToolState, command: ToolCommand) -> None:
        """Fill the tool's command of the device's tick from both states: tick, time, wrench [N, N m]."""

    def command(self, tool: ToolState, command: DeviceCommand) -> None:
        """Fill the device's command of the tick that the tool has answered."""


class Loop:
    """The closed loop of operator, device, controller and world, with the bits of an experiment of the same parts.

    An experiment's, by its name, its file or its content:

        loop = Loop("corner_peg", {"controller.type": "direct"})
        while loop.time < 0.5:
            loop.step()
            print(loop.time, loop.device.pose, loop.tool.pose, loop.command.wrench)

    Or one of parts, each as parameters, as their content, or by the type alone where the defaults do:

        loop = Loop(
            world=Model(scene),
            device=InertialParameters(mass=0.2, inertia=1e-4),
            controller={"type": "virtual_coupling", "stiffness": [500.0, 500.0, 1.0]},
            operator=lambda time, pose, twist: [math.sin(time), 0.0, 0.0, 0.0, 0.0, 0.0],
            rate=2000.0,
        )

    What the properties return are the messages of the loop, which the next step fills again: copy what has to last.

    Args:
        experiment: name of one of the catalogue, path of a YAML file, or its content.
        settings: values by dotted key, as in {"contact.stiffness": 2000.0}.
        world: a `Model`, a `World`, whose model is taken, or the content of the section `scene`.
        device: the haptic device; left out: there is none, and the operator's wrench acts on the tool.
        controller: between device and tool; or an object of the program's own, a `Coupling`, for this loop alone.
        operator: who holds the device; or a function of time, pose and twist of the hand; left out: nobody.
        rate: of the servo [Hz]; that of the model if left out.
        sections: further sections of an experiment, as `guard` or `local_model`.

    Raises:
        ParameterError: bad input, one line for each problem.
    """

    def __init__(
        self,
        experiment: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        world: Model | World | Mapping[str, Any] | None = None,
        device: DeviceParameters | Mapping[str, Any] | str | None = None,
        controller: ControllerParameters | Coupling | Mapping[str, Any] | str | None = None,
        operator: OperatorParameters | Push | Mapping[str, Any] | str | None = None,
        rate: float | None = None,
        **sections: Any,
    ):
        parts = {"device": device, "controller": controller, "operator": operator, "rate": rate, **sections}
        given = [name for name, part in {"world": world, **parts}.items() if part is not None]
        if experiment is not None:
            if given:
                raise ParameterError([f"{', '.join(given)}: given by the experiment; change them in settings"])
            self.trial: Trial = load_one(experiment, settings or {})
        elif settings is not None:
            raise ParameterError(["settings: are of an experiment; give the values with the parts"])
        elif world is None:
            raise ParameterError(["world: missing: a loop is of an experiment, or of a world with a device on it"])
        else:
            self.trial = assemble(_sections(world, parts))
        self._loop = build_loop(self.trial, _discard)

    def __repr__(self) -> str:
        """One line that says what runs, and how far it is."""
        if not hasattr(self, "_loop"):  # its construction failed: debuggers show it
            return "Loop(not built)"
        experiment = self.trial.experiment
        parts = f"{experiment.device.type}, {experiment.controller.type}, {experiment.operator.type}"
        return f"Loop({experiment.name}: {parts}, {experiment.rate:g} Hz, {self.ticks} ticks done)"

    def step(self) -> None:
        """Advance by a tick.

        Raises:
            UnstableError, DeviceError: the loop cannot go on.
        """
        self._loop.step()

    @property
    def ticks(self) -> int:
        """Number of ticks done."""
        return self._loop.ticks

    @property
    def time(self) -> float:
        """Time that has passed [s]."""
        return self._loop.ticks / self.trial.experiment.rate

    @property
    def tool(self) -> ToolState:
        """The virtual tool after the last tick: pose, twist, and the wrench of the world on it."""
        return self._loop.tool_state

    @property
    def device(self) -> DeviceState:
        """The device at the beginning of the last tick: pose and twist of the hand; of the first hand.

        Raises:
            ParameterError: the experiment has no device.
        """
        return self._first_hand.device_state

    @property
    def command(self) -> DeviceCommand:
        """Command of the device at the end of the last tick: the wrench on the hand; of the first hand.

        Raises:
            ParameterError: the experiment has no device.
        """
        return self._first_hand.device_command

    @property
    def _first_hand(self) -> HandLoop:
        if not self._loop.hands:
            raise ParameterError(["device.type = none: the operator's wrench acts on the tool; there is no device"])
        return self._loop.hands[0]


def _sections(world: Model | World | Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of an experiment of a world and parts."""
    if isinstance(world, Mapping):
        world = Model(world, rate=parts["rate"] or 1000.0)
    model = world.model
    found: dict[str, Any] = {name: getattr(model.sections, name) for name in OF_WORLD}
    found |= {"rate": model.rate, "device": {"type": "none"}, "operator": {"type": "constant", "wrench": [0.0] * 6}}
    given: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
    for name in ("device", "controller", "operator"):
        if isinstance(given.get(name), str):
            given[name] = {"type": given[name]}
    own, push = given.get("controller"), given.get("operator")
    if own is not None and hasattr(own, "coordinate"):
        kind = _OwnMotionController if getattr(own, "COMMANDS", FORCE) == MOTION else _OwnController
        given["controller"] = kind()._of(own)
    if push is not None and callable(push):
        given["operator"] = _OwnOperator()._of(push)
    return found | {name: plain(part) if isinstance(part, Mapping) else part for name, part in given.items()}


class _OwnController(ControllerParameters):
    """The controller of a program."""

    type: Literal["program"] = "program"
    _core: Any = PrivateAttr(None)

    def _of(self, core: Coupling) -> _OwnController:
        self._core = core
        return self

    def build(self, rate: float) -> Any:
        """The controller."""
        return self._core


class _OwnMotionController(_OwnController):
    """The controller of a program that commands motions."""

    COMMANDS: ClassVar[int] = MOTION


class _OwnOperator(OperatorParameters):
    """The operator of a program."""

    type: Literal["program"] = "program"
    _push: Any = PrivateAttr(None)

    def _of(self, push: Push) -> _OwnOperator:
        self._push = push
        return self

    def build(self, context: OperatorContext) -> _Pushing:
        """The operator."""
        return _Pushing(self._push)


class _Pushing:
    """An operator that is a function."""

    def __init__(self, push: Push):
        self._push = push

    def wrench(self, time: float, pose: np.ndarray, twist: np.ndarray, out: np.ndarray) -> None:
        """Fill `out` (6,) [N, N m].

        Raises:
            ParameterError: the function's is not six finite numbers.
        """
        given = np.asarray(self._push(time, pose.copy(), twist.copy()), float)
        if given.shape != (6,) or not np.isfinite(given).all():
            reason = "must be six finite numbers: force [N], torque [N m]"
            raise ParameterError([f"operator({time:g} s) = {given.tolist()}: {reason}"])
        out[:] = given


def _discard(tick: int, messages: Mapping[str, bytes]) -> None:
    """Messages that nobody takes."""
