"""The launcher and the preparation of its environment, with stand-ins: no network, no compiler."""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys

import pytest
from conftest import ROOT

from haptic_bench.commands import start
from haptic_bench.set_up import prepare

LAUNCHER = ROOT / "haptics"  # of the checkout, where `prepare` may be of an installed package


@pytest.fixture(autouse=True)
def _no_ros_is_sourced(monkeypatch):
    monkeypatch.delenv("ROS_DISTRO", raising=False)


def write(path, text="", executable=False):
    """A file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class FakePreparation(prepare.Preparation):
    """Makes an environment of a few empty files, and remembers which stages it made."""

    def __init__(self, root):
        super().__init__(root)
        self.made = []

    def _make_environment(self, lock):
        prepare.remove(self.venv)
        (self.venv / "bin").mkdir(parents=True)
        self.python.symlink_to(sys.executable)
        for name in ("libstd_msgs.so", "python3.11/site-packages/numpy/__init__.py"):
            write(self.venv / "lib" / name)
        write(self.venv / "share" / "rclpy" / "package.xml")
        self.made.append("environment")

    def _make_interfaces(self, lock):
        prepare.remove(self.install)
        for name in ("lib/libhaptics.so", "lib/python3.11/site-packages/haptics/msg/__init__.py"):
            write(self.install / name)
        self.made.append("interfaces")

    @contextlib.contextmanager
    def _compiling(self, arguments, lock):
        yield lambda lock: self.made.append("kernels")


@pytest.fixture
def checkout(tmp_path):
    """The files of a checkout that a preparation depends on."""
    pins = [
        "# two packages",
        "numpy==2.4.6",
        "numpy==2.2.6 ; python_full_version < '3.11'",
        "scipy==1.17.1",
        "",
    ]
    write(tmp_path / "requirements.lock", "\n".join(pins))
    write(tmp_path / "CMakeLists.txt", "project(haptics)\n")
    write(tmp_path / "package.xml", "<package/>\n")
    write(tmp_path / "msg" / "ToolState.msg", "int64 tick\n")
    return tmp_path


@pytest.fixture
def whole(checkout, monkeypatch):
    """A checkout with everything prepared."""
    monkeypatch.setattr(prepare, "check_machine", lambda stages: None)
    preparation = FakePreparation(checkout)
    preparation.prepare()
    assert preparation.made == list(prepare.STAGES)
    preparation.made.clear()
    return preparation


def test_prepared_checkout_is_left_alone_silently(whole, capfd):
    capfd.readouterr()
    whole.prepare()
    assert whole.made == []
    assert capfd.readouterr() == ("", "")


def test_progress_is_one_line_a_stage(checkout, monkeypatch, capfd):
    monkeypatch.setattr(prepare, "check_machine", lambda stages: None)
    FakePreparation(checkout).prepare()
    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        "haptics: preparing the environment (1/3): installing 2 packages ... 0 s\n"
        "haptics: preparing the environment (2/3): building the interfaces ... 0 s\n"
        "haptics: preparing the environment (3/3): compiling the kernels ... 0 s\n"
    )


ALL, INTERFACES, KERNELS = list(prepare.STAGES), ["interfaces"], ["kernels"]


@pytest.mark.parametrize(
    ("path", "text", "remade"),
    [
        ("requirements.lock", "numpy==2.5.5\n", ALL),
        ("msg/ToolState.msg", "int32 tick\n", INTERFACES),
        ("msg/New.msg", "", INTERFACES),
        ("CMakeLists.txt", "", INTERFACES),
        ("package.xml", "", INTERFACES),
        (".haptics/environment.stamp", '{"key": "', ALL),
        (".haptics/environment.stamp", "[]", ALL),
        (".haptics/interfaces.stamp", "", INTERFACES),
        (".haptics/kernels.stamp", "{}", KERNELS),
        ("haptic_sim/worlds/scenes.py", "", []),
    ],
)
def test_changed_file_remakes_what_depends_on_it(whole, path, text, remade):
    write(whole.root / path, text)
    whole.prepare()
    assert whole.made == remade
    assert whole.due() == []


@pytest.mark.parametrize(
    ("path", "remade"),
    [
        (".haptics/venv", ALL),
        (".haptics/venv/bin/python", ALL),
        (".haptics/venv/lib/libstd_msgs.so", ALL),
        (".haptics/venv/lib/python3.11/site-packages/numpy", ALL),
        (".haptics/environment.stamp", ALL),
        (".haptics/install", INTERFACES),
        (".haptics/install/lib/libhaptics.so", INTERFACES),
        (".haptics/install/lib/python3.11/site-packages/haptics/msg/__init__.py", INTERFACES),
        (".haptics/kernels.stamp", KERNELS),
    ],
)
def test_deletion_is_noticed(whole, path, remade):
    target = whole.root / path
    shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
    whole.prepare()
    assert whole.made == remade


def test_interpreter_that_is_gone_or_another_is_noticed(whole, tmp_path):
    for target in (tmp_path / "gone", shutil.which("env")):
        whole.python.unlink()
        whole.python.symlink_to(target)
        assert whole.due() == ALL


def test_additional_packages_and_byte_code_do_no_harm(whole):
    site = whole.site_packages(whole.venv)
    write(site / "ipython" / "__init__.py")
    write(site / "__pycache__" / "six.pyc")
    write(whole.install / "lib" / "__pycache__" / "x.pyc")
    assert whole.due() == []


def test_moved_checkout_is_remade(whole, tmp_path_factory):
    moved = tmp_path_factory.mktemp("moved") / "checkout"
    shutil.copytree(whole.root, moved, symlinks=True)
    assert FakePreparation(moved).due() == ALL


def test_stage_that_fails_half_way_is_made_again(whole, monkeypatch):
    def fail(lock):
        raise prepare.PreparationError("pip install failed")

    write(whole.root / "requirements.lock", "numpy==2.5.5\n")
    with monkeypatch.context() as patch:
        patch.setattr(whole, "_make_environment", fail)
        with pytest.raises(prepare.PreparationError, match="pip install failed"):
            whole.prepare()
    assert not whole.stamp("environment").exists()
    whole.prepare()
    assert whole.made == ALL


def test_repair_remakes_an_environment_that_looks_whole(whole, capfd):
    whole.prepare(broken="No module named 'scipy.linalg'")
    assert whole.made == ALL
    assert "haptics: remaking the environment: No module named 'scipy.linalg'\n" in capfd.readouterr().err


def installed(preparation, name="numpy"):
    """A package of two files as an installer leaves it; its folder."""
    site = preparation.site_packages(preparation.venv)
    write(site / name / "__init__.py", "x = 1\n")
    write(site / name / "_core.so", "binary")
    record = f"{name}/__init__.py,sha256=x,6\n{name}/_core.so,sha256=x,6\n{name}-1.dist-info/RECORD,,\n"
    write(site / f"{name}-1.dist-info" / "RECORD", record)
    return site / name


def test_damage_is_a_file_of_a_package_that_is_gone_or_cut_short(whole):
    folder = installed(whole)
    write(folder / "__pycache__" / "x.pyc")
    assert whole.damage() == ""
    write(folder / "_core.so", "bin")
    assert whole.damage() == f"{folder / '_core.so'} is cut short"
    (folder / "_core.so").unlink()
    assert whole.damage() == f"{folder / '_core.so'} is gone"


def test_a_failed_import_remakes_a_damaged_environment_alone_and_once(whole, monkeypatch, capfd):
    started = []
    monkeypatch.setattr(start, "for_this_shell", lambda: whole)
    monkeypatch.setattr(start, "start", lambda *arguments: started.append(arguments) or 5)
    monkeypatch.setattr(sys, "argv", ["haptics", "list"])
    monkeypatch.setenv(start.REPAIRED, "")
    folder = installed(whole)
    error = ImportError("libfoo.so: cannot open shared object file")
    start.mend(error)  # not in this environment
    monkeypatch.setattr(sys, "prefix", str(whole.venv))
    start.mend(error)  # whole: the library is of someone else
    assert not started
    (folder / "_core.so").unlink()
    with pytest.raises(SystemExit) as stop:
        start.mend(error)
    damage = f"{folder / '_core.so'} is gone"
    assert (stop.value.code, started) == (5, [(["list"], damage)])
    with pytest.raises(SystemExit) as stop:
        start.mend(error)
    assert (stop.value.code, len(started)) == (1, 1)
    said = f"haptics: the environment was remade and is broken still: {damage} ({error})\n"
    assert capfd.readouterr().err == said


# Starts a preparation whose environment stage runs the given shell command.
START = """
import sys
from pathlib import Path
from haptic_bench.commands import start
from haptic_bench.set_up import prepare
prepare.ROOT = Path(sys.argv[1])
prepare.check_machine = lambda stages: None
def make(self, lock):
    (self.venv / "bin").mkdir(parents=True, exist_ok=True)
    self._run("pip install", ["sh", "-c", sys.argv[2]], None, lock)
prepare.Preparation._make_environment = make
sys.exit(start.start(['benchmark']))
"""


def begin(checkout, command):
    """A start of the program whose installation is `command`."""
    return subprocess.Popen(
        [sys.executable, "-c", START, checkout, command],
        env={**os.environ, "PYTHONPATH": str(prepare.ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_failed_command_shows_its_last_lines_and_its_log(checkout):
    start = begin(checkout, "seq 40; echo no matching distribution; exit 3")
    _, err = start.communicate(timeout=60)
    log = checkout / ".haptics" / "log" / "pip-install.log"
    lines = err.splitlines()
    assert start.returncode == 1
    assert lines[1:-1] == [f"  {number}" for number in range(27, 41)] + ["  no matching distribution"]
    assert lines[-1] == f"haptics: pip install failed with status 3: see {log}"
    assert log.read_text().startswith("1\n2\n")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_preparation_ends_its_children(checkout, number, status):
    held = checkout / "held"  # a pipe that the grandchild holds open as long as it lives
    os.mkfifo(held)
    start = begin(checkout, f"exec > {held}; echo x; sleep 600 & wait")
    with open(held) as pipe:
        assert pipe.read(1) == "x"
        start.send_signal(number)
        pipe.read()
    _, err = start.communicate(timeout=60)
    said = {130: "haptics: interrupted", 143: "haptics: terminated", 129: "haptics: terminal closed"}[status]
    assert (start.returncode, err.splitlines()[1:]) == (status, [said])
    assert not (checkout / ".haptics" / "environment.stamp").exists()


def test_second_start_waits_for_the_first_even_if_that_was_killed(checkout):
    ready, go = checkout / "ready", checkout / "go"
    os.mkfifo(ready)
    os.mkfifo(go)
    first = begin(checkout, f"echo x > {ready}; read line < {go}; touch {checkout}/first")
    assert ready.read_text() == "x\n"  # waits for it
    first.kill()
    first.communicate(timeout=60)
    second = begin(checkout, f"test -e {checkout}/first && touch {checkout}/second; exit 7")
    assert second.stderr is not None
    assert "another start is preparing the environment (process " in second.stderr.readline()
    assert not (checkout / "second").exists()
    go.write_text("on\n")  # lets the command of the first start end
    second.communicate(timeout=60)
    assert second.returncode == 1
    assert (checkout / "second").exists()


def test_a_recipe_is_what_a_function_does():
    def text(source):
        made = {}
        exec(source, made)
        return prepare.what_it_does(made["f"].__code__, made["f"].__doc__)

    first = text('def f(x):\n    """One."""\n    return [y + 1 for y in x]')
    assert first == text('\ndef f(x):\n    """Two."""\n    # why\n    return [y + 1 for y in x]')
    assert first != text('def f(x):\n    """One."""\n    return [y + 2 for y in x]')


def test_what_is_left_running_beside_a_stage_that_fails_is_ended(checkout, monkeypatch):
    held = checkout / "held"  # a pipe that the command holds open as long as it lives
    os.mkfifo(held)
    whole = FakePreparation(checkout)
    whole.home.mkdir()
    whole.logs.mkdir()
    command = ["sh", "-c", f"exec > {held}; echo x; sleep 600 & wait"]
    with (
        open(whole.home / "lock", "w") as lock,
        pytest.raises(prepare.PreparationError, match="colcon"),
        whole._started("kernels", command, None, lock),
        open(held) as pipe,
    ):
        assert pipe.read(1) == "x"
        raise prepare.PreparationError("colcon failed")
    assert subprocess.run(["pgrep", "-f", str(held)]).returncode == 1


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("", " 0"),
        ("haptic_sim.a\nhaptic_sim.b\n", " 2"),
        ("[1/4] Building\n[2/4] Building\n", " [############            ]"),
        ("[4/4] Linking\nwarning [1/9]\n", " [########################]"),
    ],
)
def test_progress_is_a_bar_or_a_count(log, shown):
    assert prepare.progress(log) == shown


def fake_tools(folder, **tools):
    """A folder for PATH that holds nothing but these shell scripts."""
    folder.mkdir()
    for name, text in tools.items():
        write(folder / name.replace("_", "."), f"#!/bin/sh\n{text}\n", executable=True)
    return str(folder)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (
            {"cc": "", "cmake": "echo cmake version 3.25.1"},
            "this machine has no C++ compiler: install (Debian: apt install g++) and try again",
        ),
        (
            {"cc": "", "c++": ""},
            "this machine has no cmake: install (Debian: apt install cmake) and try again",
        ),
        (
            {},
            "this machine has no C compiler, no C++ compiler, no cmake: "
            "install (Debian: apt install gcc g++ cmake) and try again",
        ),
        (
            {"cc": "", "c++": "", "cmake": "echo cmake version 3.18.4"},
            "cmake 3.18 found, 3.20 or newer needed: install it and try again",
        ),
    ],
)
def test_missing_tools_are_said_in_one_line(tmp_path, monkeypatch, tools, message):
    monkeypatch.setenv("PATH", fake_tools(tmp_path / "bin", **tools))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(prepare.PreparationError) as error:
        prepare.check_machine(["interfaces"])
    assert str(error.value) == message


def test_tools_that_are_there_are_found(tmp_path, monkeypatch):
    tools = {"cc": "", "g++": "", "cmake": "echo cmake version 3.20.0"}
    monkeypatch.setenv("PATH", fake_tools(tmp_path / "bin", **tools))
    prepare.check_machine(["interfaces"])


def test_missing_parts_of_python_are_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ensurepip" else name)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(prepare.PreparationError) as error:
        prepare.check_machine(["environment"])
    python = f"python3.{sys.version_info[1]}"
    assert str(error.value) == (
        f"this machine has no venv and ensurepip modules of {python}, no Python.h of {python}: "
        f"install (Debian: apt install {python}-venv {python}-dev) and try again"
    )


def test_unwritable_checkout_is_said_in_one_line(checkout, monkeypatch, capfd):
    write(checkout / ".haptics")  # a file where the folder should be: refused even to the superuser
    monkeypatch.setattr(prepare, "ROOT", checkout)
    assert start.start(["benchmark"]) == 1
    message = f"haptics: cannot prepare the environment: File exists: {checkout / '.haptics'}\n"
    assert capfd.readouterr().err == message


def pretend_version(tmp_path, version):
    """The launcher, as a Python of another version would run it; what it does with `exec` is printed."""
    code = (
        f"import os, sys, runpy; sys.version_info = {version}; sys.argv = sys.argv[1:];"
        "os.execv = lambda path, command: sys.exit('exec ' + ' '.join([path, *command]));"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(LAUNCHER), "list"],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize("version", [(3, 8, 10), (2, 7, 18), (3, 13, 0)])
def test_unsuitable_python_is_said_in_one_line(tmp_path, version):
    fake_tools(tmp_path / "bin", python3_12="echo pyenv: command not found; exit 127")
    found = ".".join(map(str, version))
    message = f"haptics: Python {found} found, 3.10 to 3.12 needed: install python3.11 and try again\n"
    assert pretend_version(tmp_path, version) == (1, message)


def test_suitable_python_is_looked_for(tmp_path):
    fake_tools(tmp_path / "bin", python3_12=f'exec {sys.executable} "$@"')
    command = f"exec {sys.executable} {sys.executable} {LAUNCHER} list\n"
    assert pretend_version(tmp_path, (3, 8, 10)) == (1, command)


def test_launcher_parses_under_old_pythons():
    text = LAUNCHER.read_text()
    assert text.startswith('#!/bin/sh\n""":"\nexec python3 -I -S "$0" "$@"\n":"""\n')
    assert not any(mark in text for mark in ('f"', "f'", ":=", "->", "print "))
    assert os.access(LAUNCHER, os.X_OK)


# From std_msgs, with the folders it names left to fill in.
EXPORTED = """\
set_target_properties(std_msgs::std_msgs__rosidl_generator_py PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "{include};{packages}/numpy/_core/include"
  INTERFACE_LINK_LIBRARIES "std_msgs::std_msgs__rosidl_generator_c"
)
"""
BUILT = "/opt/python/cp311-cp311"


def test_cmake_files_name_folders_of_this_machine(tmp_path):
    packages = f"{BUILT}/lib/python3.11/site-packages"
    built = EXPORTED.format(include=f"{BUILT}/include/python3.11", packages=packages)
    here = {"include": "/usr/include/python3.11", "packages": "/home/a b/site-packages"}
    exported = write(tmp_path / "std_msgs" / "cmake" / "export.cmake", built)
    other = write(tmp_path / "rclpy" / "cmake" / "other.cmake", "set(x /opt/ros)\n")
    for _ in range(2):  # a second time changes nothing
        prepare.correct_cmake_files(tmp_path, **here)
        assert exported.read_text() == EXPORTED.format(**here)
    assert other.read_text() == "set(x /opt/ros)\n"


def test_cmake_files_of_the_installers_cache_stay_as_they_are(tmp_path):
    """Packages are installed as hard links into a cache that other environments share."""
    built = EXPORTED.format(include=f"{BUILT}/include/python3.11", packages=f"{BUILT}/lib/python3.11/site-packages")
    cached = write(tmp_path / "cache.cmake", built)
    (tmp_path / "share" / "std_msgs" / "cmake").mkdir(parents=True)
    installed = tmp_path / "share" / "std_msgs" / "cmake" / "export.cmake"
    installed.hardlink_to(cached)
    prepare.correct_cmake_files(tmp_path / "share", "/usr/include/python3.11", "/home/site-packages")
    assert "/opt/python" not in installed.read_text()
    assert cached.read_text() == built


def test_pip_installs_where_uv_cannot(checkout, monkeypatch):
    write(checkout / "requirements.lock", "numpy==2.4.6\nuv==0.13.9\n")
    ran = []

    def run(self, what, command, variables, lock):
        ran.append((what, [str(part) for part in command]))
        if what == "uv pip install":
            raise prepare.PreparationError("no such index")

    monkeypatch.setattr(prepare.Preparation, "_run", run)
    prepare.Preparation(checkout)._make_environment(None)
    assert [what for what, _ in ran] == ["venv", "installation of uv", "uv pip install", "pip install"]
    assert ran[1][1][-1] == "uv==0.13.9"
    assert ran[-1][1][-2:] == ["-r", str(checkout / "requirements.lock")]


def test_environment_keeps_foreign_python_out_and_user_settings_in(whole, monkeypatch):
    (whole.site_packages(whole.venv) / "ros_rcl.libs").mkdir()
    user = {
        "PATH": "/usr/bin",
        "LD_LIBRARY_PATH": "/opt/device/lib",
        "PYTHONPATH": "/opt/ros/lib",
        "PYTHONHOME": "/opt/python",
        "AMENT_PREFIX_PATH": "/opt/ros",
        "VIRTUAL_ENV": "/home/user/venv",
        "PIP_INDEX_URL": "https://index.example/simple",
        "PIP_USER": "1",
        "OMP_NUM_THREADS": "4",
        "RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp",
    }
    monkeypatch.setattr(os, "environ", user)
    variables = whole.environment()
    home, site = whole.home, "lib/python3.11/site-packages"
    libraries = [f"{home}/install/lib", f"{home}/venv/lib", f"{home}/venv/{site}/ros_rcl.libs"]
    assert variables == {
        "PATH": f"{home}/venv/bin:/usr/bin",
        "LD_LIBRARY_PATH": ":".join([*libraries, "/opt/device/lib"]),
        "PYTHONPATH": f"{whole.root}:{home}/install/{site}",
        "PYTHONSAFEPATH": "1",
        "AMENT_PREFIX_PATH": f"{home}/install:{home}/venv",
        "CMAKE_PREFIX_PATH": f"{home}/install:{home}/venv",
        "VIRTUAL_ENV": f"{home}/venv",
        "_ROS_WHEELS_BOOTSTRAP_COMPLETE": "1",
        "PIP_INDEX_URL": "https://index.example/simple",
        "OMP_NUM_THREADS": "4",
        "OPENBLAS_NUM_THREADS": "1",
        "RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp",
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_HOME": str(home),
        "NUMBA_CACHE_DIR": f"{home}/cache/numba",
        "MPLCONFIGDIR": f"{home}/cache/matplotlib",
    }
    monkeypatch.setattr(os, "environ", variables)
    assert whole.environment() == variables


def test_stamp_is_unique_to_an_environment(whole):
    before = json.loads(whole.stamp("environment").read_text())
    whole.prepare(broken="for the test")
    after = json.loads(whole.stamp("environment").read_text())
    assert before["key"] == after["key"]
    assert before["made"] < after["made"]


def test_lock_file_pins_everything_and_names_no_index():
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line[0] != "#"]
    assert len(lines) > 100
    for line in lines:
        name, pin, version = line.partition(" ")[0].partition("==")
        assert name and pin and version, line
    assert not any("://" in line or line.startswith("-") for line in lines)
