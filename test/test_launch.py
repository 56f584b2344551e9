"""The launch file as `ros2 launch` runs it; the launch tests in launch/, each in a process, as launch_testing wants."""

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

import pytest
import yaml
from conftest import DEADLINE, ROOT, processes_of, wait_until

from haptic_bench.commands import command_line

FILES = sorted((Path(__file__).resolve().parent / "launch").glob("test_*.launch.py"))
BENCH = ROOT / "launch" / "bench.launch.py"
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
        [sys.executable, "-m", "launch_testing.launch_test", str(file)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


class Launch:
    """A launch of the bench in a process group of its own, as in a terminal."""

    def __init__(self, *arguments: str, cwd: Path):
        self.out = cwd / "out"
        self._log = cwd / "launch.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(BENCH), *arguments, f"out:={self.out}"],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # may be ignored here
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
    """Launch the bench with arguments; what still runs at the end is killed, and is a failure."""
    need("launch_ros")
    started: list[Launch] = []

    def start(*arguments: str) -> Launch:
        started.append(Launch(*arguments, cwd=tmp_path))
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
        ("expriment:=corner_peg", f"expriment: unknown argument; known are: {KNOWN}"),
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
