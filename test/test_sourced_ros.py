"""The launcher where a ROS 2 is sourced, with stand-ins for ROS 2, for pip and for the packages."""

import ast
import contextlib
import json
import os
import shutil
import sys

import pytest
from conftest import ROOT

from haptic_bench.commands import start
from haptic_bench.set_up import prepare, sourced_ros
from haptic_bench.set_up.sourced_ros import PACKAGES, Found, Ros, SourcedPreparation

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


@pytest.fixture
def overlay(tmp_path, prefix, monkeypatch):
    """A workspace in which this package was built, sourced after ROS 2."""
    overlay = tmp_path / "workspace" / "install" / "haptics"
    write(overlay / INDEX / "haptics")
    write(overlay / "share" / "haptics" / "msg" / "ToolState.msg", MESSAGE)
    write(overlay / "share" / "haptics" / "msg" / "ToolState.idl")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{overlay}{os.pathsep}{prefix}")
    return overlay


class FakeSourced(SourcedPreparation):
    """Makes an environment of a few empty files, and remembers which stages it made."""

    def __init__(self, root, ros):
        super().__init__(root, ros)
        self.made = []

    def check_machine(self, stages):
        pass

    def _make_environment(self, lock):
        prepare.remove(self.venv)
        (self.venv / "bin").mkdir(parents=True)
        self.python.symlink_to(sys.executable)
        write(self.venv / SITE / "numba" / "__init__.py")
        numpy = write(self.root / "usr" / "numpy" / "__init__.py")
        self.system.write_text(json.dumps([str(numpy)]))
        self.made.append("environment")

    def _make_interfaces(self, lock):
        prepare.remove(self.install)
        if not self.ros.overlay:
            write(self.install / "lib" / "libhaptics.so")
            (self.install / SITE / "haptics").mkdir(parents=True)
        self.made.append("interfaces")

    @contextlib.contextmanager
    def _compiling(self, arguments, lock):
        yield lambda lock: self.made.append("kernels")


def prepared(checkout):
    """A fake preparation for what is sourced now, after it has done its work."""
    preparation = FakeSourced(checkout, sourced_ros.find(checkout))
    preparation.prepare()
    return preparation


ALL = list(prepare.STAGES)


def test_sourced_ros_is_found(checkout, prefix):
    preparation = start.for_this_shell()
    assert preparation.ros == Ros(prefix, 12, None)
    assert preparation.home == checkout / ".haptics" / "ros"


def test_rclpy_tells_the_python_where_the_folder_does_not(checkout, prefix):
    shutil.move(prefix / SITE, prefix / "lib" / "python3" / "dist-packages")
    assert sourced_ros.find(checkout) == Ros(prefix, 12, None)


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


def test_python_of_the_ros_installation_is_used(prefix, monkeypatch):
    ros = Ros(prefix, 12, None)
    monkeypatch.setenv("PATH", str(prefix))
    monkeypatch.setattr(os, "access", lambda path, _: path.is_file())  # /usr/bin may have any
    own = write(prefix / "bin" / "python3.12")
    assert sourced_ros.interpreter(ros) == str(own)


def test_missing_or_unsupported_python_is_said_in_one_line(checkout, prefix, monkeypatch, capfd):
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    assert start.start(["benchmark"]) == 1
    assert capfd.readouterr().err == (
        f"haptics: the ROS 2 in {prefix} is for Python 3.12, which is not here: install python3.12, "
        "or start a shell without ROS 2 to use the wheels\n"
    )
    with pytest.raises(prepare.PreparationError) as error:
        sourced_ros.interpreter(Ros(prefix, 14, None))
    assert str(error.value) == (
        f"the ROS 2 in {prefix} is for Python 3.14, 3.10 to 3.12 needed: start a shell without ROS 2 to use the wheels"
    )


def test_parts_of_the_python_of_ros_are_checked(checkout, prefix):
    python = write(prefix / "bin" / "python3.12", '#!/bin/sh\necho "no Python.h: $4 $5" >&2\nexit 1\n')
    python.chmod(0o755)
    preparation = SourcedPreparation(checkout, sourced_ros.find(checkout))
    with pytest.raises(prepare.PreparationError, match=r"^no Python\.h: environment interfaces$"):
        preparation.check_machine(["environment", "interfaces"])


def test_prepared_checkout_is_left_alone_silently(checkout, prefix, capfd):
    assert prepared(checkout).made == ALL
    assert f"(1/3): installing what ROS 2 in {prefix} lacks ..." in capfd.readouterr().err
    assert prepared(checkout).made == []
    assert capfd.readouterr() == ("", "")


def test_wheels_and_ros_do_not_disturb_each_other(checkout, prefix, monkeypatch):
    prepared(checkout)
    monkeypatch.delenv("ROS_DISTRO")
    wheels = start.for_this_shell()
    assert wheels.home == checkout / ".haptics"
    assert wheels.home / "ros" not in {wheels.venv, wheels.install, wheels.cache, wheels.logs}
    assert wheels.due() == ALL


def test_another_prefix_remakes_the_environment(checkout, prefix, tmp_path, monkeypatch):
    prepared(checkout)
    other = tmp_path / "other"
    shutil.copytree(prefix, other)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(other))
    assert prepared(checkout).made == ALL


def test_upgraded_system_package_remakes_the_environment(checkout, prefix):
    prepared(checkout)
    os.utime(checkout / "usr" / "numpy" / "__init__.py", (1, 1))
    assert prepared(checkout).made == ALL


def test_built_workspace_is_used(checkout, overlay, capfd):
    preparation = prepared(checkout)
    assert preparation.ros.overlay == overlay
    assert f"taking the interfaces of {overlay} ..." in capfd.readouterr().err
    assert preparation.environment()["AMENT_PREFIX_PATH"] == os.environ["AMENT_PREFIX_PATH"]
    assert prepared(checkout).made == []


def test_workspace_of_other_messages_is_refused_in_one_line(checkout, overlay, prefix):
    write(prefix / "bin" / "python3.12").chmod(0o755)
    prepared(checkout)
    write(overlay / "share" / "haptics" / "msg" / "ToolState.msg", "int32 tick\n")
    preparation = SourcedPreparation(checkout, sourced_ros.find(checkout))
    assert preparation.due() == ["interfaces"]
    with pytest.raises(prepare.PreparationError) as error:
        preparation.check_machine(["interfaces"])
    assert str(error.value) == (
        f"{overlay} was built from other messages than those in {checkout / 'msg'}: build that workspace again "
        "(colcon build --packages-select haptics), or start a shell without it"
    )


def test_leaving_the_workspace_builds_the_interfaces(checkout, overlay, prefix, monkeypatch):
    prepared(checkout)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix))
    assert prepared(checkout).made == ["interfaces"]


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
    """A preparation whose commands are recorded instead of run."""
    preparation = SourcedPreparation(checkout, sourced_ros.find(checkout))
    preparation.logs.mkdir(parents=True)
    preparation.commands = {}
    monkeypatch.setattr(
        preparation, "_run", lambda what, command, *_: preparation.commands.update({what: list(map(str, command))})
    )
    return preparation


def test_pip_keeps_what_the_system_has(installing):
    present = {"numpy": "1.26.4", "pyyaml": "6.0.1", "scipy": "1.11.4", "pydantic": "1.10.14", "zstandard": "0.22.0"}
    installing._install({"numpy": Found("1.26.4")}, present, None)
    command = installing.commands["pip install"]
    assert {"pydantic>=2.6", "scipy>=1.11", "numba>=0.60", "colcon-ros"} <= set(command)
    assert not any(argument.startswith(("numpy", "rclpy", "pin>", "coal", "ros-")) for argument in command)
    constraints = (installing.home / "constraints.txt").read_text().split()
    kept = ["numpy==1.26.4", "pyyaml==6.0.1", "scipy==1.11.4", "zstandard==0.22.0"]
    assert sorted(constraints) == sorted(["mcap==1.6.0", "pin==4.1.0", *kept])


def test_packages_that_cannot_go_with_the_systems_numpy_are_explained(installing, monkeypatch):
    def fail(*_):
        write(installing.logs / "pip-install.log", "ERROR: ResolutionImpossible: for help visit ...\n")
        raise prepare.PreparationError("pip install failed with status 1: see LOG")

    monkeypatch.setattr(installing, "_run", fail)
    with pytest.raises(prepare.PreparationError) as error:
        installing._install({"numpy": Found("1.26.4", "/usr/numpy.py")}, {}, None)
    assert str(error.value) == (
        "pip install failed with status 1: see LOG; not all can be had for NumPy 1.26.4 (/usr/numpy.py): "
        "start a shell without ROS 2 to use the wheels"
    )


def test_probe_tells_what_imports_show(installing, monkeypatch, prefix):
    site = prefix / SITE
    for module, text in {
        "numpy": "print('hello'); __version__ = '1.26.4'",
        "pinocchio": "import eigenpy_of_the_test",
        "numba": "raise AttributeError('_ARRAY_API not found')",
        "scipy": "import os; os._exit(7)",
    }.items():
        write(site / module / "__init__.py", text)
    installing.python = sys.executable
    found, present = installing._probe(["numpy", "pin", "numba", "mcap", "scipy", "tqdm"])
    mcap = found.pop("mcap")  # may be installed here
    assert mcap.version or mcap == Found()
    assert "pytest" in present
    assert found == {
        "numpy": Found("1.26.4", str(site / "numpy" / "__init__.py")),
        "pin": Found(error="No module named 'eigenpy_of_the_test'"),
        "numba": Found(error="AttributeError: _ARRAY_API not found"),
        "scipy": Found(error="its import ends the process"),
    }


def test_probe_tells_of_a_numpy_that_makes_an_import_crash(installing, prefix):
    # what NumPy 2 prints when a module is loaded that was built for NumPy 1
    warning = "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.2.6 as it may crash."
    write(prefix / SITE / "numpy" / "__init__.py", "__version__ = '2.2.6'")
    write(prefix / SITE / "pinocchio" / "__init__.py", f"import os; os.write(2, {warning.encode()!r}); os.abort()")
    installing.python = sys.executable
    found, _ = installing._probe(["numpy", "pin", "coal"])
    assert set(found) == {"numpy", "pin"}
    assert found["pin"] == Found(error="compiled using NumPy 1.x cannot be run in\nNumPy 2.2.6")
    with pytest.raises(prepare.PreparationError, match=r"^pinocchio does not go with NumPy 2\.2\.6 \("):
        sourced_ros.complain(found, sourced_ros.SYSTEM)


NUMPY = Found("2.3.1", "/home/numpy.py")
WHEELS = "or start a shell without ROS 2 to use the wheels"


@pytest.mark.parametrize(
    ("name", "found", "line"),
    [
        ("pin", Found(), "pinocchio is not there, pin >=3.4,<5 needed: apt install ros-jazzy-pinocchio"),
        (
            "pin",
            Found("3.3.1", "/opt/pinocchio.py"),
            f"pin 3.3.1 found (/opt/pinocchio.py), >=3.4,<5 needed: apt install ros-jazzy-pinocchio, {WHEELS}",
        ),
        (
            "pin",
            Found("5.0.0", "/opt/pinocchio.py"),
            f"pin 5.0.0 found (/opt/pinocchio.py), >=3.4,<5 needed: apt install ros-jazzy-pinocchio, {WHEELS}",
        ),
        (
            "coal",
            Found(error="libcoal.so: no such\nfile"),
            f"coal cannot be imported (libcoal.so: no such file): apt install ros-jazzy-coal, {WHEELS}",
        ),
        (
            "coal",
            Found(error="numpy.core.multiarray failed to import"),
            "coal does not go with NumPy 2.3.1 (/home/numpy.py), it was built for another (numpy.core.multiarray "
            f"failed to import): remove that NumPy so that the system's is used, {WHEELS}",
        ),
        (
            "numba",
            Found(error="Numba needs NumPy 2.2 or less. Got NumPy 2.3."),
            "numba does not go with NumPy 2.3.1 (/home/numpy.py), it was built for another (Numba needs NumPy 2.2 or "
            f"less. Got NumPy 2.3.): remove that NumPy so that the system's is used, {WHEELS}",
        ),
        (
            "scipy",
            Found("1.8.0", "/usr/scipy.py"),
            f"scipy 1.8.0 found (/usr/scipy.py), >=1.11 needed: remove it from /usr/scipy.py and try again, {WHEELS}",
        ),
    ],
)
def test_clashes_are_explained_in_a_line_each(name, found, line):
    with pytest.raises(prepare.PreparationError) as error:
        sourced_ros.complain({"numpy": NUMPY, name: found}, ["numpy", name])
    assert str(error.value) == line


def test_several_clashes_are_several_lines():
    with pytest.raises(prepare.PreparationError) as error:
        sourced_ros.complain({"numpy": Found("1.21.5", "/usr/numpy.py"), "pin": Found()}, PACKAGES)
    assert [line.partition(":")[0] for line in str(error.value).split("\nhaptics: ")] == [
        "numpy 1.21.5 found (/usr/numpy.py), >=1.26 needed",
        "pinocchio is not there, pin >=3.4,<5 needed",
    ]


@pytest.mark.parametrize("version", ["3.4.0", "3.4", "4.1.0", "4.99.1rc1", "3.10"])
def test_versions_within_the_bounds(version):
    sourced_ros.complain({"numpy": Found("2.0.0rc1"), "pin": Found(version)}, ["numpy", "pin"])


def test_bounds_are_those_of_setup():
    setup = ast.parse((ROOT / "setup.py").read_text())
    lists = {
        node.arg: ast.literal_eval(node.value)
        for node in ast.walk(setup)
        if isinstance(node, ast.keyword) and node.arg in ("install_requires", "extras_require")
    }
    ours = [f"{name}{bounds}" for name, bounds in PACKAGES.items() if name != "rclpy"]
    assert sorted(ours) == sorted(lists["install_requires"])
    assert sorted(sourced_ros.TESTS) == sorted(lists["extras_require"]["test"])
