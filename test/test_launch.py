"""The launch files as `ros2 launch` runs them; the tests in launch/, each in a process, as launch_testing wants."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import starting
import yaml
from conftest import DEADLINE, ROOT, processes_of, program_variables, wait_until
from test_relay_hosts import ADDRESSES, hosts  # noqa: F401

from haptic_bench.commands import command_line
from haptic_bench.running import namespaces

FILES = sorted((Path(__file__).resolve().parent / "launch").glob("test_*.launch.py"))
BENCH, SYSTEM, CRTK, HARDWARE, TWO_HOSTS = (
    ROOT / "launch" / f"{name}.launch.py" for name in ("bench", "system", "crtk", "hardware", "two_hosts")
)
# What `ros2 launch FILE ARGUMENTS` does.
START = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
file, *arguments = sys.argv[1:]
source = PythonLaunchDescriptionSource(file)
pairs = [tuple(argument.split(":=", 1)) for argument in arguments]
service = LaunchService(argv=arguments)
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(source, launch_arguments=pairs)]))
sys.exit(service.run())
"""


def need(module: str) -> None:
    """Skip where launch, or what it starts, is not there."""
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed (comes with ROS 2's own packages)")
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    if not any(Path(prefix, "lib", "haptics", "driver").is_file() for prefix in prefixes):
        pytest.skip("the nodes are not installed (colcon build does that)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_launch(file: Path) -> None:
    need("launch_testing")
    run = subprocess.run(
        [sys.executable, "-m", "launch_testing.launch_test", str(file)],
        env=program_variables(),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


class Launch:
    """A launch, of the bench or of another file, in a process group of its own, as in a terminal."""

    def __init__(self, *arguments: str, cwd: Path, file: Path = BENCH, host: tuple[str, str] | None = None):
        self.folder, self.out = cwd, cwd / "out"
        self._log = cwd / "launch.log"
        places = [f"out:={self.out}"] if file == BENCH else []

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored here
            if host is not None:
                starting.move_to(*host)

        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(file), *arguments, *places],
                cwd=cwd,
                env=program_variables(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,
            )

    @property
    def said(self) -> str:
        """All that it printed."""
        return self._log.read_text(errors="replace")

    def interrupt(self, alone: bool = False) -> None:
        """As Ctrl-C does in a terminal, to launch and to all nodes; or as a supervisor does, to launch alone."""
        (os.kill if alone else os.killpg)(self.process.pid, signal.SIGINT)

    def wait(self) -> int:
        """Wait for the end; the exit status."""
        return self.process.wait(timeout=DEADLINE)

    def summary(self) -> dict[str, object]:
        """What the trial left."""
        return json.loads((self.out / "summary.json").read_text())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Launch]]:
    """Launch the bench, or another file, with arguments; what still runs at the end is killed, and is a failure."""
    need("launch_ros")
    started: list[Launch] = []

    def start(*arguments: str, **how: Any) -> Launch:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Launch(*arguments, cwd=folder, **how))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
    left = processes_of(str(tmp_path))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left behind"


def test_arguments_reach_the_trial(bench: Callable[..., Launch]) -> None:
    settings = "contact.restitution=0.5; rate=256"
    launch = bench("mode:=realtime", "composed:=true", "record:=false", "duration:=0.5", f"set:={settings}")
    assert launch.wait() == 0, launch.said
    resolved = yaml.safe_load((launch.out / "experiment.yaml").read_text())
    assert (resolved["contact"]["restitution"], resolved["rate"], resolved["duration"]) == (0.5, 256, 0.5)
    assert not (launch.out / "bag").exists()


KNOWN = "experiment, mode, composed, record, out, namespace, duration, set"


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("expriment:=corner_peg", f"expriment: unknown argument; did you mean experiment? (known: {KNOWN})"),
        ("experiment:=corner", "experiment corner: unknown; did you mean corner_peg? (known: "),
        ("mode:=offline", "Valid options are: ['lockstep', 'realtime']"),
        ("duration:=soon", "duration = soon: must be a number"),
        ("duration:=1_0", "duration = 1_0: must be a number"),
        ("duration:=[1", "duration = [1: must be a number"),
        ("set:=contact.stifness=3", "contact.stifness: unknown key; did you mean stiffness?"),
        ("set:=contact.stiffness=[1e3,2e3]", "set: a list of values sweeps, one trial a value"),
        ("namespace:=no-name", "namespace:=no-name: must be names of letters, digits and _"),
        ("set:=contact.stiffness=-3", "contact.stiffness = -3 N/m: must be > 0 N/m"),
    ],
)
def test_bad_input_is_named_before_anything_starts(bench: Callable[..., Launch], argument: str, said: str) -> None:
    launch = bench(argument)
    assert launch.wait() == 1
    assert said in launch.said
    assert "process started" not in launch.said and "Traceback" not in launch.said
    assert not launch.out.exists()


def test_a_foreign_publisher_before_the_start_is_the_reason(bench: Callable[..., Launch]) -> None:
    """What a node said of its end goes into the summary, as with the command line."""
    need("launch_ros")
    import graph_checks
    from haptics import msg
    from test_missed import flooding

    with graph_checks.observer() as observer, flooding(observer, "/taken", device_command=msg.DeviceCommand):
        launch = bench("namespace:=taken", "duration:=0.5")
        assert launch.wait() == 1, launch.said
    said = "not started: device_command has a foreign publisher"
    assert said in launch.said
    assert launch.summary()["status"] == "failed"
    assert said in str(launch.summary()["reason"])


@pytest.mark.parametrize("mark", ["the trial is in", "bag"])
def test_a_signal_to_launch_alone_ends_the_trial(bench: Callable[..., Launch], mark: str) -> None:
    """Launch would leave the nodes alone until it terminates them, sigterm_timeout later: here much later."""
    launch = bench("mode:=lockstep", "duration:=3000", "sigterm_timeout:=3600", "namespace:=lab/arm")
    recorded = launch.out / "bag" / "bag_0.mcap"
    wait_until(
        lambda: recorded.is_file() and recorded.stat().st_size > 100_000 if mark == "bag" else mark in launch.said,
        "the moment to interrupt",
    )
    launch.interrupt(alone=True)
    assert launch.wait() == 0, launch.said
    summary = launch.summary()
    assert summary["status"] == "interrupted"
    assert summary["namespace"] == "/lab/arm"
    assert (summary["ticks"] > 0) is (mark == "bag")


@pytest.mark.parametrize("mark", ["the trial is in", "process started", "bag"])
def test_ctrl_c_again_and_again_leaves_a_closed_trial(bench: Callable[..., Launch], mark: str) -> None:
    launch = bench("mode:=lockstep", "duration:=3000")
    recorded = launch.out / "bag" / "bag_0.mcap"
    recording = mark == "bag"
    wait_until(
        lambda: recorded.is_file() and recorded.stat().st_size > 100_000 if recording else mark in launch.said,
        "the moment to interrupt",
    )
    ended = ("trial closed: ", "report: ")  # later signals find a program that does no more than end
    while not any(one in launch.said for one in ended) and launch.process.poll() is None:
        launch.interrupt()
        time.sleep(0.05)
    if recording:
        launch.interrupt()
    assert launch.wait() == 0, launch.said
    summary = launch.summary()
    assert summary["status"] == "interrupted"
    assert (summary["ticks"] > 0) is recording
    assert "Traceback" not in launch.said
    if recording:
        assert "ros2 run haptics bench report" in launch.said
    if "complete" in summary:
        assert "samples and page were left" in launch.said
        assert command_line.main(["report", str(launch.out)]) == 0
    assert launch.summary()["ticks"] == (launch.out / "samples.csv").read_text().count("\n") - 1
    assert (launch.out / "report.html").read_text().rstrip().endswith("</html>")


SLOW = "set:=rate=256;device.watchdog=0.1"  # for a machine that stalls
LISTEN = """
import sys
import rclpy
from haptics.msg import DeviceState
from rclpy.qos import QoSProfile, ReliabilityPolicy
rclpy.init()
node = rclpy.create_node("listener")
best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
node.create_subscription(DeviceState, sys.argv[1], lambda state: state.command_tick < 0 or sys.exit(), best_effort)
rclpy.spin(node)
"""


def test_a_system_starts_its_nodes_again_until_it_is_interrupted(bench: Callable[..., Launch]) -> None:
    need("launch_ros")
    import graph_checks

    launch = bench("world:=corner_peg", "device:=pantograph", "namespace:=lab", SLOW, file=SYSTEM)
    with graph_checks.observer() as observer:
        wait_for_commands(observer, "/lab", launch)
        before = find_process(launch, "controller")
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: find_process(launch, "controller") not in (None, before), "its successor")
        wait_for_commands(observer, "/lab", launch)
    end(launch)


@pytest.mark.parametrize(
    ("file", "arguments", "said"),
    [
        (
            SYSTEM,
            "world:=corner",
            "world corner: must be an experiment, or a file .urdf, .xml, .xacro, .sdf, .world or .yaml; "
            "did you mean corner_peg?",
        ),
        (SYSTEM, "devcie:=inertial", "devcie: unknown argument; did you mean device? (known: world, device, "),
        (SYSTEM, "device:=hand", "device hand: must be a simulated device (inertial, "),
        (SYSTEM, "side:=haptics", "side:=haptics: needs a local model; add set:=local_model.type=full"),
        (SYSTEM, "world:=none composed:=true", "controller.type = crtk: is for a system"),
        (
            SYSTEM,
            "namespace:=taken",
            "namespace /taken: is taken by a trial that runs; end it, or choose another namespace:=",
        ),
        (CRTK, "world:=corner_peg", "world: unknown argument (known: device, restart, out, namespace, set)"),
        (HARDWARE, "device:=inertial side:=haptics", "side: unknown argument (known: device, controller, world, "),
        (HARDWARE, "device:=inertial,pantograph", "device:=inertial,pantograph: several need a namespace each"),
        (HARDWARE, "device:=a=inertial,a=pantograph", "device:=a=inertial,a=pantograph: several need a namespace each"),
    ],
)
def test_bad_input_of_a_system_is_named_before_anything_starts(
    bench: Callable[..., Launch], file: Path, arguments: str, said: str
) -> None:
    with namespaces.claim("taken", exactly=True):
        launch = bench(*arguments.split(), file=file)
        assert launch.wait() == 1
    assert said in launch.said
    assert "process started" not in launch.said and "Traceback" not in launch.said


def test_two_devices_have_a_namespace_and_a_directory_each(bench: Callable[..., Launch]) -> None:
    need("launch_ros")
    import graph_checks

    arguments = ("device:=left=inertial,right=pantograph", "controller:=four_channel", "out:=both")
    launch = bench(*arguments, SLOW, file=HARDWARE)
    with graph_checks.observer() as observer:
        for namespace in ("/left", "/right"):
            wait_for_commands(observer, namespace, launch)
    end(launch)
    for name in ("left", "right"):
        directory = launch.folder / "both" / name
        assert (directory / "parameters.yaml").is_file()
        assert f"/{name}/measured_cp" in (directory / "system.rviz").read_text()
        assert f"rviz2 -d {directory / 'system.rviz'}" in launch.said


def test_both_sides_on_one_machine_are_one_system(bench: Callable[..., Launch]) -> None:
    """In one namespace, without a word about it."""
    need("launch_ros")
    import graph_checks

    slow = f"{SLOW};environment.rate=128"
    sides = [bench(f"side:={side}", slow, file=TWO_HOSTS) for side in ("dynamics", "haptics")]
    with graph_checks.observer() as observer:
        wait_for_commands(observer, "/two_hosts", *sides)
    for side in sides:
        end(side)


def test_clients_of_crtk_find_a_device(bench: Callable[..., Launch]) -> None:
    need("launch_ros")
    import graph_checks
    from geometry_msgs.msg import PoseStamped, WrenchStamped
    from rclpy.qos import QoSProfile

    launch = bench("namespace:=arm", SLOW, file=CRTK)
    reliable, poses = QoSProfile(depth=10), []
    with graph_checks.observer() as observer:
        observer.create_subscription(PoseStamped, "/arm/measured_cp", poses.append, reliable)
        publisher = observer.create_publisher(WrenchStamped, "/arm/servo_cf", reliable)
        observer.create_timer(0.01, lambda: publisher.publish(WrenchStamped()))
        wait_for_commands(observer, "/arm", launch)
        wait_until(lambda: poses, "a pose")
    end(launch)
    assert poses[0].header.frame_id == "arm/device_base"
    assert ("crtk_msgs is not installed" in launch.said) is (find_spec("crtk_msgs") is None)


def test_two_network_namespaces_are_one_system(
    bench: Callable[..., Launch],
    hosts: dict[str, str],  # noqa: F811
) -> None:
    """The side of the dynamics first, then that of the device."""
    need("launch_ros")
    namespace = f"hosts_{os.getpid()}"  # other tests may have a system at the same time
    arguments = (f"namespace:={namespace}", f"{SLOW};environment.rate=128")
    sides = [
        bench(f"side:={side}", *arguments, file=TWO_HOSTS, host=(hosts[host], ADDRESSES[peer]))
        for host, side, peer in (("world", "dynamics", "device"), ("device", "haptics", "world"))
    ]
    listener = subprocess.Popen(
        [sys.executable, "-c", LISTEN, f"/{namespace}/device_state"],
        env=program_variables(),
        preexec_fn=lambda: starting.move_to(hosts["device"], ADDRESSES["world"]),
    )
    try:
        wait_while_running(lambda: listener.poll() is not None, "commands", *sides)
        assert listener.returncode == 0
    finally:
        listener.kill()
    for side in sides:
        end(side)


def wait_while_running(found: Callable[[], object], what: str, *launches: Launch) -> None:
    """Wait for something of launches; one that ends before fails the test at once, with what it said."""
    wait_until(lambda: found() or any(one.process.poll() is not None for one in launches), what)
    for one in launches:
        assert one.process.poll() is None, one.said


def wait_for_commands(observer: Any, namespace: str, *launches: Launch) -> None:
    """Until a device of launches follows commands."""
    from haptics.msg import DeviceState
    from rclpy.qos import QoSProfile, ReliabilityPolicy

    followed: list[int] = []
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    observer.create_subscription(
        DeviceState,
        f"{namespace}/device_state",
        lambda state: followed.append(state.tick) if state.command_tick >= 0 else None,
        best_effort,
    )
    wait_while_running(lambda: followed, f"commands in {namespace}", *launches)


def find_process(launch: Launch, node: str) -> int | None:
    """The process of a node of a launch; None if there is none."""
    found = set(processes_of(str(launch.folder))) & set(processes_of(f"__node:={node} "))
    return found.pop() if found else None


def end(launch: Launch) -> None:
    """Interrupt a launch; it and its nodes end without complaint."""
    launch.interrupt()
    assert launch.wait() == 0, launch.said
    assert "Traceback" not in launch.said, launch.said
