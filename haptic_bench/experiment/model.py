"""The data model of an experiment: its sections, which are the parameters of the cores."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from pydantic import model_validator

from haptic_control.guard import GuardParameters
from haptic_control.parameters import AnyControllerParameters, NoControllerParameters
from haptic_control.relay.ends import Guard
from haptic_control.relay.parameters import RelayParameters
from haptic_drivers.operators import AnyOperatorParameters
from haptic_drivers.parameters import DEVICES, AnyDeviceParameters, DeviceParameters
from haptic_ros.trial import StandardTopicParameters
from haptic_sim.constraints.scenes import ConstraintParameters
from haptic_sim.contact.response import UNLIMITED, ContactParameters, DeviceLimits
from haptic_sim.messages import MOTION, topic_of
from haptic_sim.parameters import Parameters, quantity
from haptic_sim.parts import Part
from haptic_sim.random_numbers import stream
from haptic_sim.scenes import AnySceneParameters
from haptic_sim.tool.local_model import AnyLocalModelParameters, NoLocalModelParameters
from haptic_sim.tool.parameters import EnvironmentParameters
from haptic_sim.worlds.parameters import HoldParameters
from haptic_sim.worlds.scenes import AnyToolParameters, NoToolParameters

_OF_MUJOCO: dict[str, dict[str, Any]] = {
    "device": {"type": "inertial"},
    "environment": {"engine": "mujoco", "rate": 60.0},
    "local_model": {"type": "full"},
}


class HealthParameters(Parameters):
    """Limits within which a trial is valid: its verdict (haptic_bench/analysis/verdict.py), and missed ticks.

    A missed tick has no answer in time, or is not recorded.
    """

    active: Literal["forbidden", "expected"] = quantity(
        "forbidden",
        description="Whether the display is meant to give energy to the hand; forbidden: a trial whose display is "
        "active has failed",
    )
    energy: float = quantity(
        0.01,
        unit="J",
        description="A display that gives more to the hand, beyond what it had received and the world had stored, is "
        "active; so is one that gives more than 1 mJ and 1 % of the energy exchanged with the hand",
        ge=0.0,
    )
    speed: float = quantity(
        50.0, unit="m/s", description="A trial whose hand or tool is faster has diverged and failed", gt=0.0
    )
    force: float = quantity(
        1000.0,
        unit="N",
        description="A trial whose rendered force, averaged over 10 ms, is larger has diverged and failed",
        gt=0.0,
    )
    missed_share: float = quantity(
        0.2, description="A realtime trial that misses more than this part of its ticks fails", ge=0.0, le=1.0
    )
    undecided_share: float = quantity(
        0.02,
        description="The claims of a realtime trial that misses more than this part of its ticks are undecided",
        ge=0.0,
        le=1.0,
    )


class FurtherHandParameters(HoldParameters):
    """A further hand: its operator, device and controller, and what it holds of the world."""

    operator: AnyOperatorParameters = quantity(description="The simulated operator of the hand")
    device: AnyDeviceParameters = quantity(description="The haptic device of the hand")
    controller: AnyControllerParameters = quantity(description="Controller between that device and its tool")


class Experiment(Parameters):
    """A bench experiment. The sections are the parameters of the cores."""

    name: str = quantity(
        description="Name of the experiment, which is that of its file", pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$"
    )
    title: str = quantity("", description="Title of the experiment in lists and reports, one line")
    source: str = quantity("", description="Publication that the experiment is from")
    description: str = quantity("", description="Summary of the experiment")
    duration: float = quantity(unit="s", description="Duration of the trial", gt=0.0)
    rate: float = quantity(unit="Hz", description="Servo rate", gt=0.0, le=20000.0)
    seed: int = quantity(
        0,
        description="Seed of all random numbers: noise, pose_noise, twist_noise and jitter of the device, tremor of "
        "the operator, jitter of the scene; where all of them are 0, nothing is random",
        ge=0,
    )
    operator: AnyOperatorParameters = quantity(description="The simulated operator")
    device: AnyDeviceParameters = quantity(description="The haptic device")
    controller: AnyControllerParameters = quantity(
        NoControllerParameters(),
        description="Controller between device and tool; left out: admittance for a device that is moved, else "
        "virtual_coupling",
    )
    hands: tuple[FurtherHandParameters, ...] = quantity(
        (),
        description="Further hands in the same world; operator, device, controller and tool of the experiment are of "
        "its first hand",
    )
    tool: AnyToolParameters = quantity(
        NoToolParameters(), description="The virtual tool, where the scene does not contain it"
    )
    scene: AnySceneParameters = quantity(description="The virtual world")
    contact: ContactParameters = quantity(ContactParameters(), description="Properties of the contacts")
    environment: EnvironmentParameters = quantity(EnvironmentParameters(), description="Simulation of the world")
    local_model: AnyLocalModelParameters = quantity(
        NoLocalModelParameters(), description="The local model of interaction"
    )
    constraint: ConstraintParameters = quantity(
        ConstraintParameters(), description="Method that keeps the exact constraints of the tool"
    )
    relay: RelayParameters = quantity(
        RelayParameters(),
        description="The communication link between the device's side and the world's, where there is one",
    )
    guard: GuardParameters = quantity(
        GuardParameters(), description="The guard of the device's port, which keeps the display passive"
    )
    standard_topics: StandardTopicParameters = quantity(
        StandardTopicParameters(), description="Topics of standard messages beside the servo topics"
    )
    health: HealthParameters = quantity(
        HealthParameters(), description="Limits of the missed ticks of a realtime trial"
    )
    packages: dict[str, str] = quantity(
        {},
        description="Packages of others whose parts the experiment uses, and their versions; filled in when it is "
        "resolved",
    )
    analysis: str = quantity(
        "trial",
        description="Analysis that computes metrics, claims and figures",
        pattern=r"^[A-Za-z_][\w.]*(:[\w.]+)?$",
    )

    @model_validator(mode="before")
    @classmethod
    def _a_device_has_its_usual_controller(cls, data: Any) -> Any:
        """The controller that a device has usually, where none is given; one that is moved cannot go without."""
        match data:
            case {"device": {"type": name}} if (kind := DEVICES.find_or_none(name)) is not None:
                usual, replaced = kind.usual_controller(), (None, "none") if kind.COMMANDS == MOTION else (None,)
            case _:
                return data
        match data.get("controller", {}):
            case dict(controller) if usual and controller.get("type") in replaced:
                return {**data, "controller": {**controller, "type": usual}}
        return data

    @model_validator(mode="before")
    @classmethod
    def _a_world_of_mujoco_is_felt_through_a_device_and_a_local_model(cls, data: Any) -> Any:
        """Device, engine, rate and local model of a world that MuJoCo simulates, where none are given."""
        scene = data.get("scene") if isinstance(data, dict) else None
        if (scene.get("type") if isinstance(scene, dict) else getattr(scene, "type", None)) != "mujoco":
            return data
        given = {name: data.get(name, {}) for name in _OF_MUJOCO}
        return data | {
            name: {**_OF_MUJOCO[name], **section} if isinstance(section, dict) else section
            for name, section in given.items()
        }

    def __repr__(self) -> str:
        """One line that says which it is; the keys are its fields."""
        if "name" not in vars(self):  # its construction failed: debuggers show it
            return "Experiment(not built)"
        return f"Experiment({self.name}{f': {self.title}' if self.title else ''})"

    @property
    def random(self) -> tuple[str, ...]:
        """Names of the keys whose values make the trial random by its seed; empty if nothing is random."""
        parts: list[tuple[str, Any]] = [("", self), *((f"hands[{i}].", hand) for i, hand in enumerate(self.hands))]
        found = tuple(
            f"{place}{section}.{key}"
            for place, part in parts
            for section, names in (("device", part.device.RANDOM), ("operator", ("tremor",)), ("scene", ("jitter",)))
            for key in names
            if np.any(getattr(getattr(part, section, None), key, None) or 0.0)
        )
        if not self.relayed:
            return found
        return found + tuple(f"relay.{key}" for key in ("jitter", "loss") if getattr(self.relay, key))

    def of_hand(self, name: str) -> Experiment:
        """The experiment as a further hand has it, as its first and only one; its random numbers are its own."""
        hand = next(hand for hand in self.hands if hand.name == name)
        return self.model_copy(
            update={
                "operator": hand.operator,
                "device": hand.device,
                "controller": hand.controller,
                "tool": NoToolParameters(),
                "hands": (),
                "seed": stream(self.seed, f"hand.{name}") % 2**31,
            }
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts but the analysis, and those of further hands."""
        of_world = self.contact.friction.model, self.environment.method, self.local_model, self.environment.engine
        return (*self.of_the_hand, self.scene, *of_world)

    @property
    def of_the_hand(self) -> tuple[Part, ...]:
        """The parts of the first hand."""
        return self.operator, self.device, self.controller

    @property
    def hand_names(self) -> tuple[str, ...]:
        """Names of the further hands."""
        return tuple(hand.name for hand in self.hands)

    @property
    def last_tick(self) -> int:
        """N: ticks 0 to N are executed."""
        return round(self.duration * self.rate)

    @property
    def namespace(self) -> str:
        """The name as a ROS name."""
        return re.sub(r"\W", "_", self.name, flags=re.ASCII)

    @property
    def asynchronous(self) -> bool:
        """Whether a local model answers the controller."""
        return not self.local_model.ABSENT

    @property
    def relayed(self) -> bool:
        """Whether there is a relay between driver and controller."""
        return self.relay.delay is not None

    @property
    def bridged(self) -> bool:
        """Whether clients of CRTK command the device, and no world is simulated."""
        return self.controller.BRIDGES

    @property
    def external(self) -> tuple[str, ...]:
        """Names of the nodes of the graph that the user starts, in the namespace of the trial."""
        hands: dict[str, Experiment | FurtherHandParameters] = {"": self, **{hand.name: hand for hand in self.hands}}
        found = tuple(
            topic_of(name, kind)
            for name, hand in hands.items()
            for kind in ("device", "controller")
            if getattr(hand, kind).EXTERNAL
        )
        return (*found, "environment") if self.environment.engine.EXTERNAL else found

    @property
    def relay_guard(self) -> Guard:
        """The guard of the relay's ports."""
        return self.guard.type or "none"

    @property
    def standalone(self) -> bool:
        """Whether the environment runs without a device, under the operator's wrench."""
        return self.device.ABSENT

    @property
    def hardware(self) -> tuple[str, ...]:
        """The keys of the devices that are hardware; empty if all are simulated."""
        return self._devices(lambda device: device.HARDWARE)

    @property
    def realtime_devices(self) -> tuple[str, ...]:
        """The keys of the devices that have a clock of their own, and so run in realtime only."""
        return self._devices(lambda device: device.HARDWARE and not device.EXTERNAL)

    def _devices(self, chosen: Callable[[DeviceParameters], bool]) -> tuple[str, ...]:
        keys = {"device.name": self.device, **{f"hands[{i}].device.name": h.device for i, h in enumerate(self.hands)}}
        return tuple(f"{key} = {one.label}" for key, one in keys.items() if chosen(one))

    @property
    def hardware_hands(self) -> tuple[str, ...]:
        """Names of the hands that hold hardware; that of the first is empty."""
        devices = {"": self.device, **{hand.name: hand.device for hand in self.hands}}
        return tuple(name for name, device in devices.items() if device.HARDWARE)

    @property
    def limits(self) -> DeviceLimits:
        """Limits of a device that renders forces, which the tool's side takes into account."""
        return self.device.limits or UNLIMITED
