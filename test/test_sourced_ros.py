"""The launcher where a ROS 2 is sourced, with stand-ins for ROS 2, for pip and for the packages."""

import ast
import os
import shutil
import sys

import pytest
from conftest import PACKAGES as PACKAGES_OF_TESTS
from conftest import ROOT

from haptic_bench.commands import start
from haptic_bench.set_up import prepare, sourced_ros
from haptic_bench.set_up.sourced_ros import PACKAGES, SourcedPreparation

SITE = "lib/python3.12/site-packages"
INDEX = "share/ament_index/resource_index/packages"
MESSAGE = "int64 tick\n"
PINS = """\
# comment
pin==4.1.0
mcap==1.6.0
numpy==2.2.6 ; python_full_version < '3.11'
numpy==2.5.5 ; python_full_version >= '3.11'
pyyaml==6.0.3
ros-jazzy-rclpy==7.1.6
scipy==1.18.1
zstandard==0.25.0
"""


def write(path, text=""):
    """A file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """A ROS 2 Jazzy for Python 3.12 that is sourced."""
    prefix = tmp_path / "opt" / "ros" / "jazzy"
    write(prefix / SITE / "rclpy" / "__init__.py")
    write(prefix / SITE / "rclpy" / "_rclpy_pybind11.cpython-312-x86_64-linux-gnu.so")
    write(prefix / INDEX / "rclpy")
    write(prefix / "setup.bash")
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix))
    monkeypatch.setenv("PYTHONPATH", str(prefix / SITE))
    return prefix


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """The files of a checkout that a preparation depends on."""
    root = tmp_path / "checkout"
    write(root / "requirements.lock", PINS)
    write(root / "CMakeLists.txt")
    write(root / "package.xml")
    write(root / "msg" / "ToolState.msg", MESSAGE)
    monkeypatch.setattr(prepare, "ROOT", root)
    return root


class FakeSourced(SourcedPreparation):
    """Makes folders of a few empty files, and remembers what it made."""

    def __init__(self, root, prefix, minor):
        super().__init__(root, prefix, minor)
        self.made = []

    def _check_machine(self):
        pass

    def _install_packages(self):
        (self.venv / "bin").mkdir(parents=True)
        self.python.symlink_to(sys.executable)
        write(self.venv / SITE / "numba" / "__init__.py")
        self.made.append("venv")

    def _build_messages(self):
        (self.install / SITE / "haptics").mkdir(parents=True)
        self.made.append("install")


def prepared(checkout):
    """A fake preparation for what is sourced now, after it has done its work."""
    found = sourced_ros.find(checkout)
    preparation = FakeSourced(checkout, found.origin, found.minor)
    preparation.prepare()
    return preparation


ALL = ["venv", "install"]


def test_sourced_ros_is_found(checkout, prefix):
    preparation = start.for_this_shell()
    assert (preparation.origin, preparation.minor) == (str(prefix), 12)
    assert preparation.home == checkout / ".haptics" / "ros"


def test_rclpy_tells_the_python_where_the_folder_does_not(checkout, prefix):
    shutil.move(prefix / SITE, prefix / "lib" / "python3" / "dist-packages")
    assert sourced_ros.find(checkout).minor == 12


@pytest.mark.parametrize("change", ["no distribution", "no prefix", "no rclpy", "our own prefix"])
def test_without_a_sourced_ros_the_wheels_are_used(checkout, prefix, monkeypatch, change):
    if change == "no distribution":
        monkeypatch.delenv("ROS_DISTRO")
    elif change == "no prefix":
        monkeypatch.setenv("AMENT_PREFIX_PATH", f"{prefix}/gone:")
    elif change == "no rclpy":
        shutil.rmtree(prefix / SITE / "rclpy")
    else:  # as in a program that the launcher has started
        shutil.copytree(prefix, checkout / ".haptics" / "venv")
        monkeypatch.setenv("AMENT_PREFIX_PATH", str(checkout / ".haptics" / "venv"))
    assert type(start.for_this_shell()) is prepare.Preparation


def test_another_distribution_is_refused_in_one_line(checkout, prefix, monkeypatch, capfd):
    monkeypatch.setenv("ROS_DISTRO", "humble")
    assert start.start(["benchmark"]) == 1
    assert capfd.readouterr().err == (
        "haptics: ROS 2 humble is sourced, jazzy is needed: source /opt/ros/jazzy/setup.bash, "
        "or start a shell without ROS 2 to use the wheels\n"
    )
    assert not (checkout / ".haptics").exists()


def test_python_of_the_ros_installation_is_used(checkout, prefix):
    own = write(prefix / "bin" / "python3.12")
    own.chmod(0o755)
    assert sourced_ros.find(checkout).interpreter() == str(own)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo /usr/no/python3.12",
            r"^this machine has no .*Python\.h of python3\.12: install .*python3\.12-dev\) and",
        ),
        ("echo libexpat is missing >&2; exit 127", r"/bin/python3\.12 does not run: libexpat is missing$"),
    ],
)
def test_the_python_of_ros_is_checked(checkout, prefix, script, said):
    write(prefix / "bin" / "python3.12", f"#!/bin/sh\n{script}\n").chmod(0o755)
    with pytest.raises(prepare.PreparationError, match=said):
        sourced_ros.find(checkout).prepare()


def test_missing_python_is_said_in_one_line(checkout, prefix, monkeypatch, capfd):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert start.start(["benchmark"]) == 1
    assert capfd.readouterr().err == (
        f"haptics: the ROS 2 in {prefix} is for Python 3.12, which is not here: install python3.12, "
        "or start a shell without ROS 2 to use the wheels\n"
    )


def test_prepared_checkout_is_left_alone_silently(checkout, prefix, capfd):
    assert prepared(checkout).made == ALL
    assert f"environment: installing the packages that {prefix} lacks ..." in capfd.readouterr().err
    assert prepared(checkout).made == []
    assert capfd.readouterr() == ("", "")


def test_wheels_and_ros_do_not_disturb_each_other(checkout, prefix, monkeypatch):
    prepared(checkout)
    monkeypatch.delenv("ROS_DISTRO")
    wheels = start.for_this_shell()
    assert wheels.home == checkout / ".haptics"
    assert wheels.home / "ros" not in {wheels.venv, wheels.install, wheels.kernels, wheels.home / "cache"}
    assert wheels.due() == [wheels.venv, wheels.install]


def test_another_prefix_remakes_the_environment(checkout, prefix, tmp_path, monkeypatch):
    prepared(checkout)
    other = tmp_path / "other"
    shutil.copytree(prefix, other)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(other))
    assert prepared(checkout).made == ALL


def test_environment_keeps_what_is_sourced_and_puts_ours_first(checkout, prefix, monkeypatch):
    user = {
        "PATH": f"{prefix}/bin:/usr/bin",
        "ROS_DISTRO": "jazzy",
        "AMENT_PREFIX_PATH": str(prefix),
        "LD_LIBRARY_PATH": f"{prefix}/lib",
        "PYTHONPATH": str(prefix / SITE),
        "PYTHONHOME": "/opt/python",
        "PIP_USER": "1",
        "OMP_NUM_THREADS": "4",
        "ROS_DOMAIN_ID": "7",
    }
    monkeypatch.setattr(os, "environ", user)
    preparation = prepared(checkout)
    home = checkout / ".haptics" / "ros"
    variables = preparation.environment()
    assert variables == {
        "PATH": f"{home}/venv/bin:{prefix}/bin:/usr/bin",
        "ROS_DISTRO": "jazzy",
        "AMENT_PREFIX_PATH": f"{home}/install:{prefix}",
        "CMAKE_PREFIX_PATH": f"{home}/install",
        "LD_LIBRARY_PATH": f"{home}/install/lib:{prefix}/lib",
        "PYTHONPATH": f"{checkout}:{home}/install/{SITE}:{home}/venv/{SITE}:{prefix}/{SITE}",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "VIRTUAL_ENV": f"{home}/venv",
        "OMP_NUM_THREADS": "4",
        "OPENBLAS_NUM_THREADS": "1",
        "ROS_DOMAIN_ID": "7",
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_HOME": str(home),
        "NUMBA_CACHE_DIR": f"{home}/cache/numba",
        "MPLCONFIGDIR": f"{home}/cache/matplotlib",
    }
    monkeypatch.setattr(os, "environ", variables)
    assert start.for_this_shell().environment() == variables
    assert start.for_this_shell().due() == []


@pytest.fixture
def installing(checkout, prefix, monkeypatch):
    """A preparation whose environment is the Python of the tests, with these packages in the sourced prefix."""
    preparation = sourced_ros.find(checkout)
    preparation.python = sys.executable
    root = os.pathsep.join([str(PACKAGES_OF_TESTS), str(prefix / SITE)])
    monkeypatch.setattr(preparation, "environment", lambda: os.environ | {"PYTHONPATH": root})
    for name in sourced_ros.SYSTEM:
        module = PACKAGES[name].module
        write(prefix / SITE / module / "__init__.py", f"__version__ = '{PACKAGES[name].lowest}.9'")
        write(prefix / SITE / f"{name}-1.dist-info" / "METADATA", f"Name: {name}\nVersion: {PACKAGES[name].lowest}.9\n")
    return preparation


def install(preparation, monkeypatch):
    """What it asks pip for; the check of ROS 2 is run."""
    commands = {}
    run = prepare.Preparation._run
    monkeypatch.setattr(
        prepare.Preparation,
        "_run",
        lambda self, what, command: (
            run(self, what, command) if what == "check of ROS 2" else commands.update({what: list(map(str, command))})
        ),
    )
    with preparation._exclusive_lock():
        preparation._install_packages()
    return commands["installation"]


def test_pip_keeps_what_the_system_has(installing, prefix, monkeypatch):
    write(prefix / SITE / "mcap-1.5.dist-info" / "METADATA", "Name: mcap\nVersion: 1.5\n")
    write(prefix / SITE / "coal" / "__init__.py", "import atexit; atexit.register(print, 'bye')")
    command = install(installing, monkeypatch)
    assert {"pydantic>=2.6", "scipy>=1.11", "numba>=0.60,<0.69", "colcon-ros"} <= set(command)
    assert not any(argument.startswith(("numpy", "rclpy", "pin>", "coal", "ros-")) for argument in command)
    constraints = (installing.home / "constraints.txt").read_text().split()
    assert "numpy==1.26.9" in constraints
    names = {line.partition("==")[0] for line in constraints}
    assert not names & {"mcap", "pin", "scipy", "ros-jazzy-rclpy"}


@pytest.mark.parametrize(
    ("module", "text", "shown"),
    [
        (
            "pinocchio",
            "raise ImportError('libcoal.so: no such file')",
            "pinocchio cannot be imported (libcoal.so: no such file): apt install ros-jazzy-pinocchio",
        ),
        ("coal", "import os; os.write(2, b'built for NumPy 1'); os.abort()", "built for NumPy 1"),
        ("", "", "pin 5.1 found"),
    ],
)
def test_packages_of_the_system_that_will_not_do_are_shown(installing, prefix, monkeypatch, capfd, module, text, shown):
    if module:
        write(prefix / SITE / module / "__init__.py", text)
    else:
        write(prefix / SITE / "pin-1.dist-info" / "METADATA", "Name: pin\nVersion: 5.1\n")
    with pytest.raises(prepare.PreparationError) as error:
        install(installing, monkeypatch)
    log = installing.home / "log" / "check-of-ROS-2.log"
    assert str(error.value).startswith("check of ROS 2 failed with status ")
    assert str(error.value).endswith(f": see {log}; or start a shell without ROS 2 to use the wheels")
    assert f"  {shown}" in capfd.readouterr().err


def test_packages_of_the_tests_are_those_of_setup():
    keywords = [node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.keyword)]
    (extras,) = (ast.literal_eval(node.value) for node in keywords if node.arg == "extras_require")
    assert sorted(sourced_ros.TESTS) == sorted(extras["test"])
