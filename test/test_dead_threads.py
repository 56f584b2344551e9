"""A driver in a process of its own, on hardware: whichever of its threads ends, its force ends, and it says why.

Its emergency stop is answered whatever its other callbacks do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import yaml
from conftest import Haptics, Python, wait_until
from device_stands import BoardStand, HaplyStand, LibraryStand, Stand
from driver_checks import library
from fake_haply_2diy import HOME, board
from test_hardware_trial import EXPERIMENT, log_of

pytest.importorskip("rclpy", reason="needs ROS 2")
messages = pytest.importorskip("haptics.msg", reason="needs the built messages")

import graph_checks as graph  # noqa: E402
import rclpy  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rcl_interfaces.msg import Parameter  # noqa: E402
from rcl_interfaces.srv import SetParameters  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import Bool  # noqa: E402

from haptic_bench import experiment  # noqa: E402
from haptic_bench.running import runner  # noqa: E402
from haptic_bench.running.graph import node_specs, write_parameters  # noqa: E402
from haptic_drivers.devices import link  # noqa: E402
from haptic_drivers.devices.haply_2diy import Haply2diy  # noqa: E402
from haptic_drivers.devices.life import Request  # noqa: E402
from haptic_ros.callbacks import CallbackThread  # noqa: E402
from haptic_ros.live_parameters import LiveParameters  # noqa: E402
from haptic_sim.messages import FAULT, DeviceCommand, DeviceState, Reason  # noqa: E402
from stand_ins import Fault  # noqa: E402

SPACE = "/dead"
SERVO = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE, EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
KEPT, VOLATILE = DurabilityPolicy.TRANSIENT_LOCAL, DurabilityPolicy.VOLATILE
LATCHED = QoSProfile(depth=1, reliability=RELIABLE, durability=KEPT)
PATIENT_DEVICE = 1e4  # [s] of silence, after which no device ends the force of a driver that shall end it itself

# Threads of a driver's process that Python knows: of each, and of each device. OpenHaptics has one of its own.
OF_NODE = {"MainThread", "executor", "servo", "diagnosis", "requests", "device watchdog"}
OF_DEVICE = {
    "haply_2diy": {"haply 2diy"},
    "inverse3": {"Haply Inverse service"},
    "sigma7": {"Force Dimension"},
    "touch": set[str](),
}


def raise_in_threads(folder: Path) -> None:
    """In a process: raise in the thread whose name is in the file `victim`, as soon as both are there.

    The names of all threads of that moment are written into the file `threads`.
    """
    victim = folder / "victim"

    def work() -> None:
        killer, found = threading.current_thread(), []
        while not found:
            time.sleep(0.01)
            name = victim.read_text() if victim.exists() else ""
            found = [one for one in threading.enumerate() if one.name == name and one.is_alive()]
        victim.unlink()  # which is of one process
        names = [one.name for one in threading.enumerate() if one is not killer]
        (folder / "threads").write_text("\n".join(names))
        (thread,) = found
        runs = getattr(getattr(thread, "_target", None), "__self__", None)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        if isinstance(runs, CallbackThread):
            runs._executor.wake()  # it waits in the middleware, where nothing is raised

    threading.Thread(target=work, daemon=True).start()


def hang_in_parameters() -> None:
    """In a process: no change of parameters is ever answered."""
    LiveParameters.change = lambda *_: threading.Event().wait()  # type: ignore[assignment]


class Driven:
    """A driver whose device is a stand-in, and a controller that pulls."""

    def __init__(self, node: rclpy.node.Node, process: Python, stand: Stand):
        self.node, self.process, self.stand, self.state = node, process, stand, DeviceState()
        self._command = DeviceCommand()
        self._commands = node.create_publisher(messages.DeviceCommand, f"{SPACE}/device_command", SERVO)
        node.create_subscription(messages.DeviceState, f"{SPACE}/device_state", self._pull, SERVO, raw=True)
        self._events = node.create_publisher(messages.TrialEvent, f"{SPACE}/trial_events", LATCHED)
        self._events.publish(messages.TrialEvent(tick=-1, node="controller", name="ready"))
        reliable = QoSProfile(depth=10, reliability=RELIABLE)
        self._requests = node.create_publisher(messages.DeviceRequest, f"{SPACE}/device_request", reliable)

    def wait_for_force(self) -> None:
        """Until there is one, or none is to come; a machine that stalls loses a device, which is enabled again."""

        def comes() -> bool:
            if self.state.state == FAULT:
                self.ask(Request.ENABLE)
            return self.pushes() or self.is_stopped() or not self.process.process.is_alive()

        wait_until(comes, "force")

    def ask(self, request: Request) -> None:
        """Ask the driver for something."""
        self._requests.publish(messages.DeviceRequest(request=request))

    def _pull(self, data: bytes) -> None:
        self.state.load(data)
        self._command.stamp(self.state.tick, 0)
        self._command.wrench[0] = 1.0
        self._commands.publish(self._command.to_bytes())

    def pushes(self) -> bool:
        """Whether the motors have a force."""
        return bool(self.stand.force().any())

    def is_stopped(self) -> bool:
        return self.state.reason == Reason.STOPPED and not self.pushes()


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Stand]]:
    """The stand-in of a device by the name of its data; it is made when it is asked for."""
    with contextlib.ExitStack() as stack:

        @cache
        def stand(name: str) -> Stand:
            if name == "haply_2diy":
                return BoardStand(stack.enter_context(board()))
            if name == "inverse3":
                service = HaplyStand()
                stack.callback(service.close)
                return service
            kind = "dhd" if name == "sigma7" else "hd"
            folder = tmp_path_factory.getbasetemp()
            return LibraryStand(kind, library(kind, folder), folder / f"dead_threads.{kind}")

        yield stand


def call_all(*each: Callable[[], object]) -> None:
    """In a process: what is to be done there."""
    for one in each:
        one()


@contextmanager
def driven(
    folder: Path, before: Callable[[], object], stand: Stand, silence: float = PATIENT_DEVICE
) -> Iterator[Driven]:
    """A driver that renders a force; `before` is called in its process, `silence` see Stand.end_after."""
    stand.end_after(silence)
    file = folder / "plane.yaml"
    (folder / "o").mkdir()
    keys = {"type": "hardware", "name": stand.name, "soft_start": 0.0, "connection": stand.connection}
    keys |= {"watchdog": 1.0, "reading_watchdog": 0.2, "presence": "none"}  # a stalled machine is not tested here
    file.write_text(yaml.safe_dump(EXPERIMENT | {"device": keys}), encoding="utf-8")
    (trial,) = experiment.load(str(file), ())
    experiment.write_resolved(trial, folder / "o")
    specs = node_specs(trial, folder / "o", mode="realtime", record=False, endless=True)
    (spec,) = [spec for spec in specs if spec.name == "driver"]
    spec.nodes["driver"]["nodes"] = ["driver", "controller"]
    write_parameters([spec], folder / "parameters.yaml")
    names = ["-r", f"__ns:={SPACE}", "-r", "__node:=driver", "--params-file", str(folder / "parameters.yaml")]
    program = Python("-m", spec.module, "--ros-args", *names, cwd=folder, before=partial(call_all, stand.load, before))
    try:
        with graph.observer("controller", SPACE) as node:
            yield Driven(node, program, stand)
    finally:
        if program.process.is_alive():
            program.process.kill()
        program.wait()


def kill(folder: Path, stand: Stand, name: str) -> None:
    """The force and the process end with a thread, which is named; all threads are known."""
    with driven(folder, partial(raise_in_threads, folder), stand) as one:
        one.wait_for_force()
        assert one.pushes(), one.process.err
        (folder / "victim").write_text(name)
        assert one.process.wait() == 1
    assert not stand.force().any()
    check_said(one.process, name)
    assert set((folder / "threads").read_text().splitlines()) == OF_NODE | OF_DEVICE[stand.name]


def check_said(program: Python, name: str) -> None:
    """The program has said which of its threads has failed, and how."""
    thread = "main" if name == "MainThread" else name
    assert f"the thread '{thread}' has failed" in program.err
    assert "SystemExit" in program.err


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("servo", "device watchdog") else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in sorted(OF_NODE | OF_DEVICE["haply_2diy"])
    ],
)
def test_whichever_thread_ends_the_force_ends_and_the_process_says_why(
    tmp_path: Path, stands: Callable[[str], Stand], name: str
) -> None:
    kill(tmp_path, stands("haply_2diy"), name)


def test_the_force_ends_with_the_thread_of_an_inverse3(tmp_path: Path, stands: Callable[[str], Stand]) -> None:
    kill(tmp_path, stands("inverse3"), "Haply Inverse service")


@pytest.mark.exhaustive
@pytest.mark.parametrize("device", ["inverse3", "sigma7", "touch"])
@pytest.mark.parametrize("name", sorted(OF_NODE))
def test_whichever_thread_of_another_device_ends_its_force_ends(
    tmp_path: Path, stands: Callable[[str], Stand], device: str, name: str
) -> None:
    kill(tmp_path, stands(device), name)


@pytest.mark.exhaustive
def test_the_loop_of_force_dimension_outlives_an_exception_in_its_thread(
    tmp_path: Path, stands: Callable[[str], Stand]
) -> None:
    """It is compiled, and heeds the end of its commands: nothing raises in it before it is left, with zero force."""
    stand = stands("sigma7")
    with driven(tmp_path, partial(raise_in_threads, tmp_path), stand) as one:
        one.wait_for_force()
        assert one.pushes(), one.process.err
        (tmp_path / "victim").write_text("Force Dimension")
        wait_until((tmp_path / "threads").exists, "the exception")
        tick = one.state.tick
        wait_until(lambda: one.state.tick > tick + 20 or not one.process.process.is_alive(), "ticks")
        assert one.pushes() and one.state.reading_age < 0.2
        one.process.interrupt()
        assert one.process.wait() == 1
    assert not stand.force().any()
    check_said(one.process, "Force Dimension")
    assert set((tmp_path / "threads").read_text().splitlines()) == OF_NODE | OF_DEVICE["sigma7"]


def wait_in_opening(folder: Path) -> None:
    """In a process: raise_in_threads, and what opens the board waits while the file `wait` is there.

    It writes the file `opening` before: elsewhere, as in a destructor, an exception that is raised from outside may be
    ignored.
    """
    raise_in_threads(folder)
    opens = Haply2diy.open

    def wait(self: Any) -> None:
        (folder / "opening").touch()
        while (folder / "wait").exists():
            time.sleep(0.01)
        opens(self)

    Haply2diy.open = wait  # type: ignore[method-assign]


def test_a_driver_whose_start_fails_has_no_force_and_says_why(tmp_path: Path, stands: Callable[[str], Stand]) -> None:
    (tmp_path / "wait").touch()
    stand = stands("haply_2diy")
    with driven(tmp_path, partial(wait_in_opening, tmp_path), stand) as one:
        wait_until((tmp_path / "opening").exists, "the opening of the device")
        (tmp_path / "victim").write_text("start")
        assert one.process.wait() == 1
    assert not stand.force().any()
    check_said(one.process, "start")
    assert set((tmp_path / "threads").read_text().splitlines()) - OF_NODE == {"start"}


def test_a_driver_whose_device_cannot_be_opened_again_by_a_thread_that_fails_says_why(
    tmp_path: Path, stands: Callable[[str], Stand]
) -> None:
    stand = stands("haply_2diy")
    with driven(tmp_path, partial(wait_in_opening, tmp_path), stand) as one:
        one.wait_for_force()
        (tmp_path / "wait").touch()
        (tmp_path / "opening").unlink()
        stand.fault(0, Fault.GONE)
        wait_until(lambda: one.state.state == FAULT, "the fault")
        stand.back(0)
        one.ask(Request.ENABLE)
        wait_until((tmp_path / "opening").exists, "the opening of the device")
        (tmp_path / "victim").write_text("device opening")
        assert one.process.wait() == 1
    assert not stand.force().any()
    check_said(one.process, "device opening")
    known = OF_NODE | OF_DEVICE["haply_2diy"] | {"device opening"}
    assert set((tmp_path / "threads").read_text().splitlines()) <= known


def raise_in_drivers(folder: Path) -> None:
    """In a process that starts nodes: raise_in_threads in each driver that it starts."""
    become = runner._run_program

    def raising(module: str, *rest: Any) -> None:
        if module.endswith(".driver"):
            raise_in_threads(folder)
        become(module, *rest)

    runner._run_program = raising  # type: ignore[assignment]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    ["servo", "executor", "requests", "haply 2diy"],
)
def test_a_driver_one_of_whose_threads_has_ended_is_started_again_and_has_force_again(
    haptics: Callable[..., Haptics], tmp_path: Path, name: str
) -> None:
    with board() as device:
        keys = {"type": "hardware", "name": "haply_2diy", "soft_start": 0.0, "connection": {"port": device.port}}
        keys |= {"watchdog": 1.0, "reading_watchdog": 0.2, "wall": [0.0, 0.0]}
        file = tmp_path / "plane.yaml"
        file.write_text(yaml.safe_dump(EXPERIMENT | {"device": keys}), encoding="utf-8")
        program = haptics("start", str(file), "--out", str(tmp_path / "o"), before=partial(raise_in_drivers, tmp_path))

        def pulls() -> bool:
            """The hand moves to and fro, which the coupling to the tool resists."""
            assert program.process.is_alive(), program.err
            device.angles[1] = HOME[1] - 4.0 * (time.monotonic() % 0.5)
            return any(device.torques)

        wait_until(pulls, "force")
        (tmp_path / "victim").write_text(name)
        wait_until(lambda: (tmp_path / "threads").exists() and not pulls(), "the end of the force")
        wait_until(pulls, "force again")
        program.interrupt()
        assert program.wait() == 0
        assert not any(device.torques)
    said = f"the thread '{name}' has failed; this node ends with zero force"
    assert f"driver has ended (exit status 1): {said}; the device stays passive" in program.err
    assert program.err.count("is started again") == 1
    assert said in log_of(tmp_path / "o")


def ended_process(folder: Path, module: str = "driver") -> runner.Process:
    """A process of a node, which has ended."""
    process = runner.Process(
        runner.NodeSpec(module, {"driver": {}}), (), folder / "log", threading.Event(), lambda text: False
    )
    process.start_reading()
    assert process.wait(time.monotonic() + 30.0)
    process.finish()
    return process


def test_what_a_failed_thread_leads_to_does_not_hide_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = (
        "[FATAL] [1.0] [driver]: the thread 'x' has failed:",
        "[ERROR] [1.1] [driver]: a fault",
        "[INFO] [1.2] [driver]: .",
    )

    def fail(module: str, arguments: Any, writing: int, output: int) -> NoReturn:
        os.write(writing, "\n".join(said).encode())
        os._exit(1)

    monkeypatch.setattr(runner, "_run_program", fail)
    process = ended_process(tmp_path)
    assert process.describe(short=True) == "driver has ended (exit status 1): the thread 'x' has failed"


def test_a_node_whose_starter_is_killed_just_after_the_fork_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It took whoever it is then a child of for its starter, and outlived it."""
    program = "import os\nfrom haptic_ros.middleware.process import die_with_parent\n"
    program += "def main():\n    die_with_parent()\n    os._exit(7)\n"
    (tmp_path / "orphaned_node.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    process = ended_process(tmp_path, "orphaned_node")
    assert process.status == 1


def test_lines_that_still_come_do_not_disturb_who_says_why_a_node_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reader may be late; a line that it added meanwhile was an error of the program."""

    def end(module: str, arguments: Any, writing: int, output: int) -> NoReturn:
        os.write(writing, b"first\nsecond\n")
        os._exit(3)

    monkeypatch.setattr(runner, "_run_program", end)
    process = ended_process(tmp_path)
    seen: list[str] = []

    def search(line: str) -> None:
        seen.append(line)
        process.last_lines.append("late")

    monkeypatch.setattr(runner, "_UNSTABLE", SimpleNamespace(search=search))
    assert runner._reason(process).startswith("driver ended early (exit status 3); its last lines:\n    first")
    assert seen == ["first", "second"]


def test_a_process_has_its_status_when_its_end_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a large one that is killed, the kernel closes the files a while before that."""

    def fade(module: str, arguments: Any, writing: int, output: int) -> NoReturn:
        os.closerange(3, 1024)
        os.closerange(0, 3)
        time.sleep(0.2)
        os._exit(3)

    monkeypatch.setattr(runner, "_run_program", fade)
    changed = threading.Event()
    process = runner.Process(
        runner.NodeSpec("driver", {"driver": {}}), (), tmp_path / "log", changed, lambda text: False
    )
    process.start_reading()
    assert changed.wait(30.0)
    assert process.status == 3
    process.finish()


EXIT = {"x86_64": 60, "aarch64": 93}.get(platform.machine(), 0)  # number of the call that ends one thread


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is no other core")
@pytest.mark.skipif(EXIT == 0, reason="the number of the call is not known")
def test_a_thread_that_outlives_the_main_one_of_a_killed_process_is_moved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the middleware's do, beneath a servo thread that takes their core; here the process is not killed at all."""
    own, *others = sorted(os.sched_getaffinity(0))

    def linger(module: str, arguments: Any, writing: int, output: int) -> NoReturn:
        pinned = threading.Event()

        def stay() -> None:
            os.sched_setaffinity(0, {own})
            (tmp_path / "thread").write_text(str(threading.get_native_id()))
            pinned.set()
            time.sleep(60.0)

        threading.Thread(target=stay).start()
        pinned.wait()
        ctypes.CDLL(None).syscall(EXIT, 0)
        raise AssertionError("the thread goes on")

    monkeypatch.setattr(runner, "_run_program", linger)
    process = runner.Process(
        runner.NodeSpec("driver", {"driver": {}}), (), tmp_path / "log", threading.Event(), lambda text: False
    )
    process.poll()  # of one that lives nothing is moved
    wait_until((tmp_path / "thread").exists, "the thread")
    wait_until(lambda: (tmp_path / "thread").read_text(), "its number")
    thread = int((tmp_path / "thread").read_text())
    assert os.sched_getaffinity(thread) == {own}

    def is_moved() -> bool:
        process.poll()
        return os.sched_getaffinity(thread) == set(others)

    try:
        wait_until(is_moved, "another core")
        assert process.status is None
    finally:
        process.send(signal.SIGKILL)
    assert process.wait(time.monotonic() + 30.0)


def hold_python(folder: Path) -> None:
    """In a process: a call that keeps Python's lock does not return, as soon as the file `hold` is there.

    rclpy keeps the lock while it publishes, so a middleware that hangs is such a call.
    """

    def hold() -> None:
        while not (folder / "hold").exists():
            time.sleep(0.01)
        ctypes.PyDLL(None).sleep(60)

    threading.Thread(target=hold, daemon=True).start()


# What a Touch does when its library runs no more its vendor does not document.
ENDS = ("killed", "stopped", "held")
IN_ORDINARY_TESTS = {("haply_2diy", "killed"), ("haply_2diy", "held"), ("inverse3", "held"), ("touch", "held")}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(*case, marks=() if case in IN_ORDINARY_TESTS else pytest.mark.exhaustive)
        for case in [("touch", "held"), *product(("haply_2diy", "inverse3", "sigma7"), ENDS)]
    ],
)
def test_there_is_no_force_when_no_python_of_a_driver_runs(
    tmp_path: Path, stands: Callable[[str], Stand], name: str, how: str
) -> None:
    """A process guards the board, which has no watchdog; the others' service, firmware or compiled loop ends it."""
    stand = stands(name)
    with driven(tmp_path, partial(hold_python, tmp_path), stand, silence=0.5) as one:
        one.wait_for_force()
        assert one.pushes(), one.process.err
        if how == "held":
            (tmp_path / "hold").touch()
        else:
            os.kill(one.process.process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        wait_until(lambda: not stand.force().any(), "the end of the force")
        told, _ = stand.messages()
        time.sleep(0.1)
        assert not stand.force().any()
        if how == "held" and isinstance(stand, LibraryStand):  # the loop is compiled: it goes on, with zero force
            wait_until(lambda: stand.messages()[0] > told, "messages to the device")


def hang_in_library(folder: Path) -> None:
    """In a process: a call of the device's library does not return any more, as soon as the file `hang` is there."""
    read = Haply2diy.read
    may = threading.Event()

    def hang(self: Any, reading: Any) -> bool:
        return may.wait() if (folder / "hang").exists() else read(self, reading)

    Haply2diy.read, link.HUNG = hang, 0.2  # type: ignore[method-assign]


@pytest.mark.exhaustive
def test_a_library_that_hangs_ends_the_process_and_it_says_why(tmp_path: Path, stands: Callable[[str], Stand]) -> None:
    with driven(tmp_path, partial(hang_in_library, tmp_path), stands("haply_2diy")) as one:
        one.wait_for_force()
        (tmp_path / "hang").touch()
        assert one.process.wait() == 1
    assert "a call of its library has not returned for 0.2 s" in one.process.err


def set_parameter(node: rclpy.node.Node, name: str, value: float | str) -> Any:
    """Change a parameter of the driver, without waiting for the answer."""
    client = node.create_client(SetParameters, f"{SPACE}/driver/set_parameters")
    wait_until(client.service_is_ready, "the service")
    given = rclpy.Parameter(name, value=value).get_parameter_value()
    return client.call_async(SetParameters.Request(parameters=[Parameter(name=name, value=given)]))


def test_a_misspelt_parameter_is_refused_by_name_and_the_driver_goes_on(
    tmp_path: Path, stands: Callable[[str], Stand]
) -> None:
    with driven(tmp_path, int, stands("haply_2diy")) as one:
        one.wait_for_force()
        asked = set_parameter(one.node, "device.masss", 1.0)
        wait_until(asked.done, "an answer")
        (result,) = asked.result().results
        assert not result.successful
        assert result.reason == "device.masss: unknown parameter; did you mean device.mass?"
        stopped = one.node.create_client(ChangeState, f"{SPACE}/driver/change_state")
        request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_DEACTIVATE))
        answered = stopped.call_async(request)
        wait_until(answered.done, "the deactivation")
        assert answered.result().success
        wait_until(lambda: not one.pushes(), "zero force")


@pytest.mark.parametrize(
    ("reliability", "durability"),
    [
        (RELIABLE, VOLATILE),
        pytest.param(EFFORT, VOLATILE, marks=pytest.mark.exhaustive),
        pytest.param(RELIABLE, KEPT, marks=pytest.mark.exhaustive),
    ],
)
def test_the_emergency_stop_is_answered_beside_a_parameter_callback_that_hangs(
    tmp_path: Path,
    stands: Callable[[str], Stand],
    reliability: ReliabilityPolicy,
    durability: DurabilityPolicy,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """From a publisher of each quality of service, and none is told that it does not reach us."""
    with driven(tmp_path, hang_in_parameters, stands("haply_2diy")) as one:
        one.wait_for_force()
        asked = set_parameter(one.node, "trial.mark", "")
        qos = QoSProfile(depth=1, reliability=reliability, durability=durability)
        stop = one.node.create_publisher(Bool, f"{SPACE}/emergency_stop", qos)
        wait_until(lambda: stop.get_subscription_count() == 1 + (reliability == RELIABLE), "the subscriptions")
        assert not one.is_stopped()
        stop.publish(Bool(data=True))
        wait_until(one.is_stopped, "the stop")
        assert not asked.done()
    assert "incompatible" not in one.process.err + capfd.readouterr().err


def test_a_stop_that_is_kept_stops_a_driver_that_comes_later(tmp_path: Path, stands: Callable[[str], Stand]) -> None:
    with graph.observer("presser") as presser:
        stop = presser.create_publisher(Bool, f"{SPACE}/emergency_stop", LATCHED)
        stop.publish(Bool(data=True))
        with driven(tmp_path, int, stands("haply_2diy")) as one:
            wait_until(one.is_stopped, "the stop")
