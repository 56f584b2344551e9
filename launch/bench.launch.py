"""A trial of a bench experiment: `ros2 launch haptics bench.launch.py experiment:=corner_peg`.

The same list of nodes as `haptics run` starts, under ROS 2's own launch. The driver conducts: when it ends, so does
the trial; any other node that ends before it ends the trial with an error. When all are down the trial is concluded:
samples, summary and report are written beside the bag.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import launch.logging
from launch.actions import DeclareLaunchArgument, EmitEvent, OpaqueFunction, RegisterEventHandler, Shutdown
from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart, OnShutdown
from launch.events.process import ProcessExited, ProcessIO, ProcessStarted
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from haptic_bench.set_up import requirements

if lacking := requirements.unmet():
    raise RuntimeError("; ".join(lacking))

from haptic_bench import experiment
from haptic_bench.recording.summary import is_complete
from haptic_bench.running import namespaces
from haptic_bench.running.arguments import check_names, refusing
from haptic_bench.running.graph import node_specs, write_parameters
from haptic_bench.running.runner import Interruption, Outcome, Progress, error_message
from haptic_bench.trials.trial import conclude, new_directory
from haptic_sim.parameters import ParameterError
from launch import Event, EventHandler, LaunchContext, LaunchDescription, LaunchDescriptionEntity

BOOLEAN = ["true", "false"]
PATIENCE = "15"  # [s] from SIGINT to SIGTERM: longer than a node takes, which ends itself 10 s after it is told to
ARGUMENTS = [
    DeclareLaunchArgument(
        "experiment",
        default_value="corner_peg",
        description=f"Name of an experiment ({', '.join(experiment.catalogue())}), or a YAML file",
    ),
    DeclareLaunchArgument(
        "mode",
        default_value="realtime",
        choices=["lockstep", "realtime"],
        description="lockstep: each tick waits for its answer; realtime: on the wall clock, latest message",
    ),
    DeclareLaunchArgument(
        "composed",
        default_value="false",
        choices=BOOLEAN,
        description="Driver, controller and what answers it in one process",
    ),
    DeclareLaunchArgument(
        "record",
        default_value="true",
        choices=BOOLEAN,
        description="Record a bag and report; false leaves the recorder out",
    ),
    DeclareLaunchArgument(
        "out", default_value="", description="New or empty directory of the trial; empty: one under ./trials/"
    ),
    DeclareLaunchArgument(
        "namespace",
        default_value="",
        description="Of nodes and topics; empty: the experiment's name, with a number behind it if it is taken",
    ),
    DeclareLaunchArgument("duration", default_value="", description="Length of the trial [s]; empty: the experiment's"),
    DeclareLaunchArgument(
        "set",
        default_value="",
        description="KEY=VALUE changes a key of the experiment, as in contact.stiffness=2000; several separated by ';'",
    ),
]


def generate_launch_description() -> LaunchDescription:
    """Description for `ros2 launch`."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Validate everything, make the trial's directory, start its nodes."""
    with contextlib.ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        chosen = context.launch_configurations["namespace"]
        with refusing(logger()):
            check_names(context.argv, [argument.name for argument in ARGUMENTS], [Path(__file__).name])
            values = {argument.name: context.launch_configurations[argument.name] for argument in ARGUMENTS}
            trial = load(values)
            name = namespaces.checked(chosen) if chosen else trial.experiment.namespace
            inside = trial.experiment.hand_names
            namespace = stack.enter_context(namespaces.claim(name, exactly=bool(chosen), inside=inside))
            directory = new_directory(values["out"] or None, trial.experiment.namespace).resolve()
        logger().info(f"the trial is in {directory}")
        for note in trial.notes:
            logger().warning(note)
        protect = "launch-prefix" not in context.launch_configurations
        conductor = Conductor(trial, values, directory, namespace, protect, interrupts)
        entities = conductor.start()
        conductor.claimed = stack.pop_all()  # the conductor ends it
    return entities


def load(values: dict[str, str]) -> experiment.Trial:
    """The trial that the arguments describe."""
    settings = [setting.strip() for setting in values["set"].split(";") if setting.strip()]
    trial, *others = experiment.load(values["experiment"], settings, values["duration"] or None)
    if others:
        raise ParameterError(["set: a list of values sweeps, one trial a value: that is for `haptics run`"])
    return trial


def logger() -> Any:
    """The logger of this file; made late, as launch sets its logging up when it starts."""
    return launch.logging.get_logger("haptics")


class Interrupts(Interruption):
    """While this is open, Ctrl-C does not raise KeyboardInterrupt; launch sees it in its event loop all the same.

    The exception would come up anywhere: in the start of a process, whose end launch then awaits for ever, or while the
    report is written.
    """

    def __init__(self) -> None:
        super().__init__(lambda text: logger().info(text))

    def __enter__(self) -> Interrupts:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous[signal.SIGINT] = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._previous.clear()


class Conductor:
    """Starts the nodes of a trial, brings all down when one ends, and concludes when all are down."""

    def __init__(
        self,
        trial: experiment.Trial,
        values: dict[str, str],
        directory: Path,
        namespace: str,
        protect: bool,
        interrupts: Interrupts,
    ):
        trial = trial.in_mode(values["mode"])
        self.trial = trial
        self.namespace = namespace
        self.mode = values["mode"]
        self.record = values["record"] == "true"
        self.directory = directory
        written = experiment.write_resolved(trial, directory)
        composed = values["composed"] == "true"
        specs = node_specs(
            written,
            directory,
            mode=self.mode,
            composed=composed,
            record=self.record,
            progress=True,
            namespace=values["namespace"].removeprefix("/"),
        )
        parameters = directory / "parameters.yaml"
        write_parameters(specs, parameters, namespace)
        # Launch leaves its processes behind when it is terminated or killed; with this, they end. Not behind a prefix
        # such as a debugger, which is then the parent.
        environment = {"HAPTICS_PARENT": str(os.getpid())} if protect else {}
        self.nodes = [
            Node(
                package=spec.package,
                executable=spec.executable,
                exec_name=spec.name,
                namespace=spec.namespace(namespace),
                arguments=list(spec.arguments),
                ros_arguments=spec.remappings(),
                parameters=[str(parameters)],
                # The driver's standard output is its count of ticks.
                output={"stdout": "log", "stderr": "screen"} if spec is specs[0] else "screen",
                emulate_tty=False,
                additional_env=environment,
                sigterm_timeout=LaunchConfiguration("sigterm_timeout", default=PATIENCE),
            )
            for spec in specs
        ]
        self.running = len(self.nodes)
        self.pids: dict[Any, int] = {}  # of the processes that run
        self.interrupts = interrupts
        self.claimed = contextlib.ExitStack()  # what is held until the end
        self.down = Event()
        self.reason = ""
        self.failed: Any = None  # the node whose end is the reason
        self.errors: dict[Any, str] = {}  # the last that each node said, if any
        self.called = time.monotonic()
        self.progress = Progress(None, lambda text: None)  # it says so on its standard error too, which is shown

    def start(self) -> list[LaunchDescriptionEntity]:
        """The nodes, and what watches them."""
        down = EventHandler(matcher=lambda event: event is self.down, entities=OpaqueFunction(function=self.conclude))
        return [
            RegisterEventHandler(OnShutdown(on_shutdown=self.interrupt)),
            RegisterEventHandler(OnProcessIO(target_action=self.nodes[0], on_stdout=self.count)),
            *(RegisterEventHandler(OnProcessIO(target_action=node, on_stderr=self.receive)) for node in self.nodes),
            *(RegisterEventHandler(OnProcessStart(target_action=node, on_start=self.begun)) for node in self.nodes),
            *(RegisterEventHandler(OnProcessExit(target_action=node, on_exit=self.ended)) for node in self.nodes),
            RegisterEventHandler(down),
            *self.nodes,
        ]

    def begun(self, event: ProcessStarted, context: LaunchContext) -> None:
        """A process has started."""
        self.pids[event.action] = event.pid
        if context.is_shutdown:
            self.interrupt()

    def interrupt(self, *_: object) -> None:
        """Tell all nodes to end. When SIGINT came to launch itself, it takes for granted that they had it too."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def count(self, event: ProcessIO) -> None:
        """Follow the driver's count of ticks."""
        for line in event.text.decode(errors="replace").splitlines():
            self.progress(line)

    def receive(self, event: ProcessIO) -> None:
        """Keep the last error that a node said."""
        for line in event.text.decode(errors="replace").splitlines():
            if said := error_message(line):
                self.errors[event.action] = said

    def ended(self, event: ProcessExited, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        """A process has ended: so shall the others. The first that ends unasked is the reason."""
        self.running -= 1
        self.pids.pop(event.action, None)
        actions: list[LaunchDescriptionEntity] = []
        if not context.is_shutdown:
            # In a terminal Ctrl-C reaches the nodes too, and launch may hear of their end first.
            if not self.interrupts and (event.action is not self.nodes[0] or event.returncode != 0):
                self.reason = f"{event.process_name} ended early (exit code {event.returncode})"
                self.failed = event.action
            actions.append(Shutdown(reason=self.reason or "the trial is over"))
        if self.running == 0:
            actions.append(EmitEvent(event=self.down))  # after what others do at the end of a process
        return actions

    def conclude(self, context: LaunchContext) -> None:
        """Write samples, summary and report; a trial that failed fails the launch."""
        with self.claimed, self.interrupts:
            self.write()
        if self.reason:
            raise RuntimeError(self.reason)

    def write(self) -> None:
        """Say how the trial ended, in the summary and on the screen."""
        progress = self.progress
        started = progress.tick is not None
        if said := self.errors.get(self.failed):  # only now has all been heard that it said
            self.reason += f": {said}"
        whole = started and progress.tick > self.trial.experiment.last_tick
        if self.reason and started:
            self.reason = f"about tick {progress.tick}: {self.reason}"
        outcome = Outcome(
            "failed" if self.reason else "done" if whole else "interrupted",
            self.reason,
            progress.first - self.called if started else None,
            progress.last - progress.first,
            self.namespace,
        )
        if self.record:
            command = "ros2 run haptics bench report"
            summary = conclude(self.trial, self.mode, self.directory, outcome, self.interrupts, command=command)
            report = Path(summary.get("results", self.directory)) / "report.html"
            rest = f"report: {report}" if is_complete(summary) else "samples and page were left"
            logger().info(f"{summary['status']}, {summary['ticks']} ticks; {rest}")
            for notice in summary.get("notices", ()):
                logger().warning(notice)
            if summary["status"] == "failed":
                self.reason = self.reason or summary["reason"]
