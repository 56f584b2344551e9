"""The ROS parameters of a node, which may be changed while it runs."""

from __future__ import annotations

import difflib
import traceback
from collections import deque
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter

from haptic_ros.ros_parameters import declare, read
from haptic_sim.parameters import ParameterError


class LiveParameters:
    """The parameters of a node: declared once, checked at each change.

    Args:
        node: of rclpy.
        kind: the class of the parameters.

    Attributes:
        changes: what was changed and is not in use yet: all parameters, and those that are new, by name.
    """

    def __init__(self, node: Any, kind: Any):
        self._node, self._kind, self._declared, self._taken = node, kind, False, False
        self.changes: deque[tuple[Any, dict[str, Any]]] = deque()

    def open(self) -> Any:
        """Declare the parameters, if that was not done yet, take changes from now on, and check them.

        Changes are taken before the parameters are read: what is changed while the core is built, which may take
        minutes, acts afterwards. What was changed before is read, and no change of its own any more.

        Raises:
            ParameterError: some are wrong.
        """
        if not self._declared:
            declare(self._node, self._kind)
            self._declared = True
        self.changes.clear()
        self._node.add_on_set_parameters_callback(self.change)
        self._taken = True
        return read(self._node, self._kind)

    def close(self) -> None:
        """Take none any more."""
        if self._taken:
            self._taken = False
            self._node.remove_on_set_parameters_callback(self.change)

    def change(self, changes: list[Parameter]) -> SetParametersResult:
        """Check changed parameters; they are used when the servo thread takes them."""
        try:
            config = read(self._node, self._kind, changes)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:  # what asks gets an answer, whatever it is
            self._node.get_logger().error(f"parameters cannot be changed:\n{traceback.format_exc()}")
            return SetParametersResult(successful=False, reason=f"{type(error).__name__}: {error}")
        self.changes.append((config, {change.name: change.value for change in changes}))
        return SetParametersResult(successful=True)

    def refuse_unknown(self, changes: list[Parameter]) -> SetParametersResult:
        """Name the parameters that are not known, with those that may be meant."""
        unknown = [one.name for one in changes if not self._node.has_parameter(one.name)]
        known = self._node.list_parameters([], 0).names
        near = [difflib.get_close_matches(name, known, n=1) for name in unknown]
        hints = [f"; did you mean {names[0]}?" if names else "" for names in near]
        reasons = [f"{name}: unknown parameter{hint}" for name, hint in zip(unknown, hints, strict=True)]
        return SetParametersResult(successful=False, reason="; ".join(reasons))
