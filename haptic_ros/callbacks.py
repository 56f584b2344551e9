"""Threads that run callbacks of nodes: parameters, services, timers, subscriptions, lifecycle.

What a callback raises is said in the log, and the next callback is run. A thread that ends before it is closed raises,
so that its process ends (`haptic_ros.process`).
"""

from __future__ import annotations

import threading
import traceback

from rclpy.callback_groups import CallbackGroup
from rclpy.executors import Executor, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Task

from haptic_ros.middleware.context import is_destroyed_handle

CLOSING = 1.0  # [s] for a callback that is running to return


class CallbackThread:
    """A thread that runs the callbacks of an executor until it is closed."""

    def __init__(self, executor: Executor, name: str):
        self._executor, self._closing = executor, threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def close(self) -> None:
        """End the thread; one whose callback does not return is left."""
        self._closing.set()
        self._executor.shutdown(timeout_sec=CLOSING)
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            self.thread.join(CLOSING)

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                callback, _, node = self._executor.wait_for_ready_callbacks()
                callback()
                if node is not None and not (self._closing.is_set() and is_destroyed_handle(callback.exception())):
                    _report(callback, node)
        except Exception as error:  # rclpy's shutdown takes a guard condition away on which this thread may wait
            if not self._closing.is_set():
                how = "was shut down" if isinstance(error, ShutdownException) else "failed"
                raise RuntimeError(f"the executor of the thread {self.thread.name!r} {how}") from error


def _report(callback: Task, node: Node) -> None:
    """Say what a callback has raised."""
    error = callback.exception()
    if error is not None:
        text = "".join(traceback.format_exception(error))
        node.get_logger().error(f"a callback failed without a response:\n{text}", throttle_duration_sec=1.0)


class OwnThread(CallbackGroup):
    """Callbacks of a node that a thread of their own runs, whatever becomes of the node's executor.

    To be given to what is created, as `callback_group`; then `start`.
    """

    def __init__(self, node: Node, name: str):
        super().__init__()
        self._thread = CallbackThread(_GroupExecutor(node, self), name)

    def start(self) -> None:
        """Run the callbacks from now on."""
        self._thread.thread.start()

    def close(self) -> None:
        """Run none any more; before anything of the group is destroyed."""
        self._thread.close()

    def can_execute(self, entity: object) -> bool:
        """Whether an executor may run an entity: that of the thread, and no other that asks."""
        return threading.current_thread() is self._thread.thread

    def beginning_execution(self, entity: object) -> bool:
        """Permit every execution: the thread runs one callback at a time."""
        return True

    def ending_execution(self, entity: object) -> None:
        """Do nothing after an execution."""


class _GroupExecutor(SingleThreadedExecutor):
    """Runs the callbacks of one group of a node, which another executor has."""

    def __init__(self, node: Node, group: CallbackGroup):
        super().__init__(context=node.context)
        self._node, self._group = node, group

    def get_nodes(self) -> list[Node]:
        """The node of the group."""
        return [self._node]

    def can_execute(self, entity: object) -> bool:
        """Whether an entity is of the group, and may be run."""
        return entity.callback_group is self._group and super().can_execute(entity)  # type: ignore[attr-defined]
