"""Fields of force switched by a topic, which anybody may publish.

A message of `field_strengths_in`, a std_msgs/String such as {"guide": 0}, sets the ROS parameter `environment.fields`
for the fields that it names: so it is checked, recorded as the event `changed`, and repeated in a replay. Of messages
that come faster than every PAUSE the latest counts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Literal

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from haptic_ros.callbacks import OwnThread
from haptic_ros.servo import ServoNode
from haptic_sim.fields.acting import switch_problems
from haptic_sim.inputs import InputError, read_json, shown
from haptic_sim.messages import MessageError
from haptic_sim.tool.tool_side import fields_of

TOPIC = "field_strengths_in"
PARAMETER = "environment.fields"
PAUSE = 0.02  # [s] at least from one change to the next: each takes Python's lock for about a millisecond
LARGEST = 10_000  # [bytes] of a message
_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
_HEAD = 8  # [bytes] before the text in a message: encoding, length


def read_strengths(data: bytes, names: tuple[str, ...]) -> dict[str, float]:
    """The strengths of fields by name in a serialised std_msgs/String.

    Args:
        names: of the fields that there are.

    Raises:
        MessageError: it holds no JSON object of known fields and numbers from 0 to 1.
    """
    if len(data) > LARGEST:
        raise MessageError(f"{TOPIC}: has {len(data)} bytes: must have at most {LARGEST}")
    order: Literal["little", "big"] = "little" if data[1:2] == b"\1" else "big"
    end = _HEAD + int.from_bytes(data[4:_HEAD], order) - 1  # it counts the zero at the end
    text = data[_HEAD : max(end, _HEAD)].decode("utf-8", "backslashreplace")
    try:
        given = read_json(text)
    except InputError as error:
        raise MessageError(f"{TOPIC} = {shown(text)}: {error}; {_wanted(names)}") from error
    if not isinstance(given, dict) or not given:
        raise MessageError(f"{TOPIC} = {shown(text)}: {_wanted(names)}")
    for name, strength in given.items():
        if isinstance(strength, bool) or not isinstance(strength, int | float):
            raise MessageError(f"{TOPIC}.{shown(name)} = {shown(strength)}: must be a number from 0 to 1")
        for problem in switch_problems({shown(name): strength}, names, TOPIC):
            raise MessageError(problem)
    return {name: float(strength) for name, strength in given.items()}


def _wanted(names: tuple[str, ...]) -> str:
    example = json.dumps({names[0]: 0})
    return f"must be strengths from 0 to 1 by field, as {example} (known: {', '.join(names)})"


class FieldSwitch(ServoNode):
    """A node whose world has fields, which the topic switches."""

    _closing: threading.Event | None = None
    _own: OwnThread
    _subscription: Any

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, build the core, open the topics."""
        result = super().on_configure(state)
        if result == TransitionCallbackReturn.SUCCESS and fields_of(self.config.scene):
            self._closing = threading.Event()
            self._own = OwnThread(self, "fields")
            # As bytes: what is no text would raise in the executor, and not in the callback.
            self._subscription = self.create_subscription(
                String, TOPIC, self._take_strengths, _QOS, callback_group=self._own, raw=True
            )
            self._own.start()
        return result

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the topics."""
        self._close_switch()
        return super().on_cleanup(state)

    def destroy_node(self) -> None:
        """Close all that is of this node."""
        self._close_switch()
        super().destroy_node()

    def _close_switch(self) -> None:
        if self._closing is not None:
            self._closing.set()
            self._own.close()
            self.destroy_subscription(self._subscription)
            self._closing = None

    def _take_strengths(self, data: bytes) -> None:
        """Take a message, in a thread of its own, which then waits until the next one may come."""
        closing, executor = self._closing, self.executor
        if closing is None or executor is None:
            return
        try:
            given = read_strengths(data, tuple(fields_of(self.config.scene)))
        except MessageError as error:
            self.refuse(error)
            closing.wait(PAUSE)
            return
        task = executor.create_task(self._set_strengths, given)  # in the thread of the services of parameters
        while not closing.wait(PAUSE) and not (task.done() and not self.live.changes):
            pass

    def _set_strengths(self, given: Mapping[str, float]) -> None:
        """Set the parameter, unless these strengths are there already."""
        present = read_json(self.get_parameter(PARAMETER).value)
        if (wanted := present | given) != present:
            parameter = Parameter(PARAMETER, value=json.dumps(wanted))
            if not (result := self.set_parameters([parameter])[0]).successful:
                self.refuse(MessageError(f"{TOPIC}: {result.reason}"))
