"""A simulated arm as a node of its own: for other programs it is an arm with the topics of an adapter.

python -m haptic_robot.nodes.arm crtk --wall 0.61 --stiffness 4000
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from haptic_robot.adapters import ADAPTERS, JointObserverParameters
from haptic_robot.models import ARMS
from haptic_robot.nodes.topics import Topics
from haptic_robot.simulated import SimulatedArm, SimulatedArmParameters
from haptic_ros.callbacks import CallbackThread
from haptic_ros.middleware.context import initialise
from haptic_ros.realtime import Deadlines, prioritise
from haptic_sim.parameters import ParameterError


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="arm", description="a simulated arm with the topics of an adapter")
    parser.add_argument("adapter", choices=tuple(ADAPTERS.entries()))
    parser.add_argument("--rate", type=float, default=1000.0, help="of its controller [Hz]; default: 1000")
    parser.add_argument("--feedback", type=float, default=250.0, help="rate of its feedback [Hz]; default: 250")
    parser.add_argument("--model", default="six_axes", help="six_axes, seven_axes, or the file of an arm")
    parser.add_argument("--tool", default="", help="frame of the tool of a file; default: its last link")
    parser.add_argument("--home", type=float, nargs="+", default=(), help="joints of a file at the start [rad, m]")
    parser.add_argument("--control", choices=("impedance", "admittance"), default="impedance")
    parser.add_argument("--wall", type=float, default=0.0, help="where a wall across x of its base begins [m]")
    parser.add_argument("--stiffness", type=float, default=0.0, help="of the wall [N/m]; 0, the default: none")
    return parser.parse_args(arguments)


def main() -> int:
    """Entry point of the process: until SIGINT or SIGTERM."""
    initialise(sys.argv)
    options = options_of(rclpy.utilities.remove_ros_args(sys.argv)[1:])
    wall = {"position": (options.wall, 0.0, 0.0), "stiffness": options.stiffness, "damping": 20.0}
    file = {"path": options.model, "tool": options.tool, "home": options.home}
    model = {"model": options.model} if options.model in ARMS else {"file": file}
    given = {**model, "control": options.control, "wall": wall}
    try:
        adapter = ADAPTERS.find(options.adapter)(observer=JointObserverParameters.model_validate(model))
        arm = SimulatedArm(SimulatedArmParameters.model_validate(given), adapter, options.rate)
    except ParameterError as error:
        print(*(f"arm: {line}" for line in error.problems), sep="\n", file=sys.stderr)
        return 2
    node, topics = Node("arm"), adapter.build()
    opened = Topics(node, topics, topics.feedback, topics.commands)
    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ended.append(number))
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    callbacks = CallbackThread(executor, "executor")
    callbacks.thread.start()
    prioritise(loop=1)  # as an arm's controller, which does not share a core with who commands it
    deadlines, step, refused = Deadlines(options.rate), 0, 0
    now = time.monotonic()
    every = max(1, round(options.rate / options.feedback))
    while not ended:
        for message in opened.take():
            arm.take(*message)
        last, now = now, time.monotonic()
        arm.step(now - last)
        messages = arm.report()
        if step % every == 0:
            for one in messages:
                opened.send(one)
        if arm.refused > refused:
            node.get_logger().warning(f"refused: {arm.problem}", throttle_duration_sec=1.0)
            refused = arm.refused
        step += 1
        while (left := deadlines.until(step)) > 0 and not ended:
            signal.sigtimedwait((), left * 1e-9)
        deadlines.settle(step)
    callbacks.close()
    opened.close()
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
