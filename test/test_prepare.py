"""The launcher and the preparation of its environment, with stand-ins: no network, no compiler."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import ROOT

from haptic_bench.commands import start
from haptic_bench.set_up import failures, prepare

LAUNCHER = ROOT / "haptics"  # of the checkout, where `prepare` may be of an installed package


@pytest.fixture(autouse=True)
def _no_ros_is_sourced(monkeypatch):
    monkeypatch.delenv("ROS_DISTRO", raising=False)


def write(path, text=""):
    """A file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class FakePreparation(prepare.Preparation):
    """Makes folders of a few empty files, and remembers what it made."""

    def __init__(self, root):
        super().__init__(root)
        self.made = []

    def _check_machine(self):
        pass

    def _check(self, arguments):
        pass

    def _install_packages(self):
        (self.venv / "bin").mkdir(parents=True)
        self.python.symlink_to(sys.executable)
        write(self.venv / "lib" / "python3.11" / "site-packages" / "numpy" / "__init__.py")
        self.made.append("venv")

    def _build_messages(self):
        write(self.install / "lib" / "python3.11" / "site-packages" / "haptics" / "msg" / "__init__.py")
        self.made.append("install")

    @contextlib.contextmanager
    def _started(self, what, command, folder=None):
        yield lambda: self.made.append(what)


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
def whole(checkout):
    """A checkout with everything prepared."""
    preparation = FakePreparation(checkout)
    preparation.prepare(["run"])
    assert preparation.made == ALL
    preparation.made.clear()
    return preparation


ALL = ["venv", "install", "kernels"]


def test_prepared_checkout_is_left_alone_silently(whole, capfd):
    capfd.readouterr()
    whole.prepare(["run"])
    assert whole.made == []
    assert capfd.readouterr() == ("", "")


def test_progress_is_one_line_a_folder(checkout, capfd):
    FakePreparation(checkout).prepare(["run"])
    assert capfd.readouterr() == (
        "",
        "haptics: preparing the environment: installing the packages ... 0 s\n"
        "haptics: preparing the environment: building the messages ... 0 s\n"
        "haptics: preparing the environment: compiling the kernels ... 0 s\n",
    )


def test_kernels_are_compiled_for_the_first_command_that_calls_any(checkout):
    preparation = FakePreparation(checkout)
    preparation.prepare(["report", "DIR"])
    assert preparation.made == ["venv", "install"]
    preparation.prepare(["run", "corner_peg"])
    assert preparation.made == ALL


def test_kernels_are_compiled_where_the_command_finds_its_files(checkout, tmp_path_factory, monkeypatch):
    """A relative path of an experiment is one from where the user is."""
    user = tmp_path_factory.mktemp("user")
    monkeypatch.chdir(user)
    write(checkout / ".haptics" / "venv" / "bin" / "python", "#!/bin/sh\npwd\n").chmod(0o755)
    preparation = FakePreparation(checkout)
    preparation._install_packages = lambda: write(preparation.python, "#!/bin/sh\npwd\n").chmod(0o755)
    preparation._started = lambda *given: prepare.Preparation._started(preparation, *given)
    preparation.prepare(["run", "own.yaml"])
    assert (checkout / ".haptics" / "log" / "kernels.log").read_text() == f"{user}\n"


@pytest.mark.parametrize(
    ("path", "text", "remade"),
    [
        ("requirements.lock", "numpy==2.5.5\n", ALL),
        ("msg/ToolState.msg", "int32 tick\n", ["install"]),
        ("msg/New.msg", "", ["install"]),
        ("CMakeLists.txt", "", ["install"]),
        ("package.xml", "", ["install"]),
        (".haptics/venv/stamp", "", ["venv"]),
        (".haptics/kernels/stamp", "\0", ["kernels"]),
        ("haptic_sim/worlds/scenes.py", "", []),
        (".haptics/venv/lib/python3.11/site-packages/ipython/__init__.py", "", []),
    ],
)
def test_changed_file_remakes_what_is_made_from_it(whole, path, text, remade):
    write(whole.root / path, text)
    whole.prepare(["run"])
    assert whole.made == remade
    assert whole.due(["run"]) == []


@pytest.mark.parametrize(
    ("path", "remade"),
    [
        (".haptics", ALL),
        (".haptics/venv", ["venv"]),
        (".haptics/venv/bin/python", ["venv"]),
        (".haptics/install", ["install"]),
        (".haptics/install/stamp", ["install"]),
    ],
)
def test_deletion_is_noticed(whole, path, remade):
    target = whole.root / path
    shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
    whole.prepare(["run"])
    assert whole.made == remade


def test_interpreter_that_is_gone_or_another_is_noticed(whole, tmp_path):
    for target in (tmp_path / "gone", shutil.which("env")):
        whole.python.unlink()
        whole.python.symlink_to(target)
        assert whole.due() == [whole.venv, whole.install]


def test_changed_recipe_remakes_everything(whole, tmp_path):
    whole.recipes = (write(tmp_path / "prepare.py", "# another"),)
    assert whole.due(["run"]) == [whole.venv, whole.install, whole.kernels]


def test_moved_checkout_is_remade(whole, tmp_path_factory):
    moved = FakePreparation(shutil.copytree(whole.root, tmp_path_factory.mktemp("moved") / "checkout", symlinks=True))
    assert moved.due() == [moved.venv, moved.install]


def test_folder_that_fails_half_way_is_made_again_from_nothing(whole, monkeypatch):
    def fail():
        write(whole.venv / "half")
        raise prepare.PreparationError("installation failed")

    lock_file = (whole.root / "requirements.lock").read_text()
    write(whole.root / "requirements.lock", "numpy==2.5.5\n")
    with monkeypatch.context() as patch:
        patch.setattr(whole, "_install_packages", fail)
        with pytest.raises(prepare.PreparationError, match="installation failed"):
            whole.prepare()
    write(whole.root / "requirements.lock", lock_file)
    whole.prepare(["run"])
    assert whole.made == ["venv"]
    assert not (whole.venv / "half").exists()


# Starts a preparation whose installation runs the given shell command.
START = """
import sys
from pathlib import Path
from haptic_bench.commands import start
from haptic_bench.set_up import failures, prepare
failures.end_at_signals()
prepare.ROOT = Path(sys.argv[1])
prepare.Preparation._check_machine = lambda self: None
prepare.Preparation._install_packages = lambda self: self._run("installation", ["sh", "-c", sys.argv[2]])
sys.exit(start.start(["benchmark"]))
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
    log = checkout / ".haptics" / "log" / "installation.log"
    lines = err.splitlines()
    assert start.returncode == 1
    assert lines[1:-1] == [f"  {number}" for number in range(27, 41)] + ["  no matching distribution"]
    assert lines[-1] == f"haptics: installation failed with status 3: see {log}"
    assert log.read_text().startswith("1\n2\n")


def test_bytecode_is_kept_of_what_the_preparation_imports(checkout, monkeypatch):
    """So that it is there where later programs may not keep it."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    start = begin(checkout, "echo kept: ${PYTHONDONTWRITEBYTECODE:-yes}; exit 3")
    assert "kept: yes" in start.communicate(timeout=60)[1]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_preparation_ends_its_children(checkout, number, status):
    held = checkout / "held"  # a pipe that the grandchild holds open as long as it lives
    os.mkfifo(held)
    start = begin(checkout, f"exec > {held}; echo x; sleep 60 & wait")
    with open(held) as pipe:
        assert pipe.read(1) == "x"
        start.send_signal(number)
        pipe.read()
    _, err = start.communicate(timeout=60)
    said = {130: "haptics: interrupted", 143: "haptics: terminated", 129: "haptics: terminal closed"}[status]
    assert (start.returncode, err.splitlines()[1:]) == (status, [said])
    assert prepare.Preparation(checkout).due() == [checkout / ".haptics" / "venv", checkout / ".haptics" / "install"]


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
    assert second.stderr.readline() == "haptics: another start is preparing the environment: waiting for it\n"
    assert not (checkout / "second").exists()
    go.write_text("on\n")  # lets the command of the first start end
    second.communicate(timeout=60)
    assert second.returncode == 1
    assert (checkout / "second").exists()


def test_what_runs_beside_a_command_that_fails_is_ended(checkout):
    held = checkout / "held"  # a pipe that the command holds open as long as it lives
    os.mkfifo(held)
    preparation = prepare.Preparation(checkout)
    with (
        preparation._exclusive_lock(),
        pytest.raises(prepare.PreparationError, match="colcon"),
        preparation._started("kernels", ["sh", "-c", f"exec > {held}; echo x; sleep 60 & wait"]),
    ):
        pipe = os.open(held, os.O_RDONLY)
        assert os.read(pipe, 1) == b"x"
        raise prepare.PreparationError("colcon failed")
    while os.read(pipe, 1):  # ends when nobody holds it
        pass
    assert not failures.groups


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", " 7 s"),
        ("[1/4] Building\n[2/4] Building\n", " [############            ] 7 s"),
        ("[4/4] Linking\nwarning [1/9]\n", " [########################] 7 s"),
    ],
)
def test_progress_is_the_time_and_a_bar(tmp_path, text, shown):
    assert prepare.progress(write(tmp_path / "log", text), 7.2) == shown


def test_on_a_terminal_the_progress_is_drawn_in_place_and_erased(checkout, monkeypatch, capfd):
    def progress(log, seconds):
        write(checkout / "seen")
        return " [##] 7 s"

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(prepare, "progress", progress)
    monkeypatch.setattr(prepare, "SHOW_EVERY", 0.01)
    preparation = prepare.Preparation(checkout)
    with preparation._exclusive_lock(), preparation._making(preparation.install, "building"):
        preparation._run("x", ["sh", "-c", f"until test -e {checkout}/seen; do sleep 0.01; done"])
    shown = " [##] 7 s" + "\b" * 9
    begin, _, end = capfd.readouterr().err.rpartition(shown)
    assert begin.replace(shown, "") == "haptics: preparing the environment: building ..."
    assert end.startswith(" " * 9 + "\b" * 9 + " ") and end.endswith(" s\n")


def fake_tools(folder, tools):
    """A folder for PATH that holds nothing but these shell scripts."""
    for name, text in tools.items():
        write(folder / name, f"#!/bin/sh\n{text}\n").chmod(0o755)
    return str(folder)


def test_missing_tools_are_said_in_one_line(tmp_path, monkeypatch):
    preparation = prepare.Preparation(tmp_path)
    write(tmp_path / "python3.11" / "Python.h")
    monkeypatch.setattr(preparation, "_include", lambda: tmp_path / "python3.11")
    monkeypatch.setenv("PATH", fake_tools(tmp_path / "bin", {"gcc": "", "clang++": "", "cmake": ""}))
    preparation._check_machine()
    monkeypatch.setattr(preparation, "_include", lambda: tmp_path / "python3.12")
    monkeypatch.setenv("PATH", fake_tools(tmp_path / "fewer", {"cc": ""}))
    with pytest.raises(prepare.PreparationError) as error:
        preparation._check_machine()
    assert str(error.value) == (
        "this machine has no C++ compiler, no cmake, no Python.h of python3.12: "
        "install (Debian: apt install g++ cmake python3.12-dev) and try again"
    )


def test_include_folder_is_that_of_the_interpreter(tmp_path):
    assert prepare.Preparation(tmp_path)._include().name == f"python3.{sys.version_info[1]}"


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
    fake_tools(tmp_path / "bin", {"python3.12": "echo pyenv: command not found; exit 127"})
    found = ".".join(map(str, version))
    message = f"haptics: Python {found} found, 3.10 to 3.12 needed: install python3.11 and try again\n"
    assert pretend_version(tmp_path, version) == (1, message)


def test_suitable_python_is_looked_for(tmp_path):
    fake_tools(tmp_path / "bin", {"python3.12": f'exec {sys.executable} "$@"'})
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
    """Packages are installed as hard links into a cache that other environments share: its files stay as they are."""
    packages = f"{BUILT}/lib/python3.11/site-packages"
    cached = write(tmp_path / "cache", EXPORTED.format(include=f"{BUILT}/include/python3.11", packages=packages))
    here = {"include": "/usr/include/python3.11", "packages": "/home/a b/site-packages"}
    exported = write(tmp_path / "share" / "std_msgs" / "cmake" / "export.cmake")
    exported.unlink()
    exported.hardlink_to(cached)
    other = write(tmp_path / "share" / "rclpy" / "cmake" / "other.cmake", "set(x /opt/ros)\n")
    for _ in range(2):  # a second time changes nothing
        prepare.correct_cmake_files(tmp_path / "share", **here)
        assert exported.read_text() == EXPORTED.format(**here)
    assert other.read_text() == "set(x /opt/ros)\n"
    assert BUILT in cached.read_text()


def test_environment_keeps_foreign_python_out_and_user_settings_in(whole, monkeypatch):
    (prepare.site_packages(whole.venv) / "ros_rcl.libs").mkdir()
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


@pytest.mark.exhaustive
def test_a_package_with_another_hash_than_the_locked_one_is_not_installed(checkout):
    """uv is the first: pip installs it, and it installs all others."""
    uv = next(pin for pin in prepare.Preparation(ROOT).pins() if pin.startswith("uv=="))
    lines = ["numpy==2.4.6 \\", "    --hash=sha256:" + "0" * 64, f"{uv} \\", "    --hash=sha256:" + "1" * 64, ""]
    write(checkout / "requirements.lock", "\n".join(lines))
    preparation = prepare.Preparation(checkout)
    assert preparation.pins() == ["numpy==2.4.6", uv]
    with (
        preparation._exclusive_lock(),
        pytest.raises(prepare.PreparationError, match="installation of uv failed"),
        preparation._making(preparation.venv, "installing the packages"),
    ):
        preparation._install_packages()
    log = (preparation.home / "log" / "installation-of-uv.log").read_text()
    assert "1" * 64 in log and "HASHES" in log.upper()


def test_lock_files_pin_everything_with_hashes_and_name_no_index():
    locked = sorted(ROOT.glob("requirements*.lock"))
    assert len(locked) == 3
    for path in locked:
        text = path.read_text().replace("\\\n", "")  # one line a package
        lines = [line for line in text.splitlines() if line[0] != "#"]
        assert len(lines) > (100 if path.name == "requirements.lock" else 10)
        for line in lines:
            name, pin, version = line.partition(" ")[0].partition("==")
            assert name and pin and version and re.search(r"( +--hash=sha256:[0-9a-f]{64})+$", line), line
            assert "://" not in line and not line.startswith("-")
