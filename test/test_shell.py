"""`haptics shell`: what it starts has rclpy, messages and packages; the subscriber of the documentation hears."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DEADLINE, ROOT, Haptics, wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from haptics.msg import DeviceState  # noqa: E402
from rclpy.qos import qos_profile_sensor_data  # noqa: E402

from haptic_bench.commands.start import USERS_PATH  # noqa: E402


def test_the_subscriber_of_the_documentation_hears(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "library.md").read_text()
    (tmp_path / "listen.py").write_text(page.split("```python\n")[-1].partition("```")[0])
    command = [sys.executable, "-m", "haptic_bench", "shell", sys.executable, "listen.py"]
    context = rclpy.Context()
    context.init()
    node = rclpy.create_node("talker", context=context)
    publisher = node.create_publisher(DeviceState, "/corner_peg/device_state", qos_profile_sensor_data)
    said: list[str] = []
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as listener:
        try:
            output = listener.stdout
            assert output is not None
            reader = threading.Thread(target=lambda: said.append(output.readline()), daemon=True)
            reader.start()

            def heard() -> bool:
                state = DeviceState(tick=7)
                state.pose.position.x, state.twist.linear.x = 0.25, -0.5
                publisher.publish(state)
                return bool(said) or listener.poll() is not None

            wait_until(heard, "the subscriber")
            assert said == ["7 0.25 -0.5\n"]
        finally:
            listener.kill()
            reader.join(DEADLINE)
            node.destroy_node()
            context.shutdown()


def test_a_program_ends_as_it_ends(haptics: Callable[..., Haptics]) -> None:
    run = haptics(
        "shell", sys.executable, "-c", "import sys, haptic_bench; print(sys.argv[1:]); sys.exit(3)", "--set", "x"
    )
    assert run.wait() == 3
    assert run.out == "['--set', 'x']\n"


def test_a_program_that_is_not_there_is_named(haptics: Callable[..., Haptics]) -> None:
    run = haptics("shell", "no-such-program")
    assert run.wait() == 2
    assert run.err == "haptics: no-such-program: No such file or directory\n"


def test_packages_of_the_user_come_last(tmp_path: Path) -> None:
    """PYTHONPATH of the user, which `./haptics` keeps under another name, adds packages and hides none of ours."""
    (tmp_path / "lab_tools.py").write_text("FOUND = True\n")
    (tmp_path / "haptic_sim.py").write_text("raise SystemExit('hidden')\n")
    program = "import haptic_sim, lab_tools; print(lab_tools.FOUND, bool(haptic_sim.__path__))"
    command = [sys.executable, "-m", "haptic_bench", "shell", sys.executable, "-c", program]
    run = subprocess.run(
        command, env=os.environ | {USERS_PATH: str(tmp_path)}, capture_output=True, text=True, timeout=DEADLINE
    )
    assert (run.returncode, run.stdout) == (0, "True True\n"), run.stderr
