"""Makes the environment that `./haptics` needs and a clean checkout lacks.

Standard library only, because it runs before any package is installed.

All files are below `.haptics/` of the checkout and are made in three stages:

- environment: `venv/`, with the packages pinned in requirements.lock (ROS 2 among them, from wheels);
- interfaces: `source/`, `build/`, `install/`: the messages of this package, built by colcon with that environment;
- kernels: the Numba kernels of the first command, compiled meanwhile on the other cores (see warm.py); other kernels
  are compiled when they are first called.

A finished stage has a stamp, written last: a key (the inputs of the stage) and a listing (its files). A stage whose
stamp is missing or unreadable, has another key, or lists a missing file, is made again from the beginning. The
comparison takes a few milliseconds and is done at every start.

Where a ROS 2 is sourced, its packages replace the wheels: see sourced_ros.py.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from haptic_bench.set_up import failures

ROOT = Path(__file__).resolve().parents[2]
CMAKE_NEEDED = (3, 20)  # cmake_minimum_required of the interface generators
LOG_LINES = 15  # of a failed stage, shown to the user
SHOW_EVERY = 0.3  # [s]
BAR = 24  # characters
STAGES = ("environment", "interfaces", "kernels")
# Variables that would mix a foreign Python, or make pip install elsewhere than into our environment.
FOREIGN = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "__PYVENV_LAUNCHER__",
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_CONSTRAINT",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_PYTHON",
)


class PreparationError(Exception):
    """Why the environment cannot be made, in words for the user."""


class Refused(Exception):
    """The command line is wrong, which has been said."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


def say(text):
    """Tells the user one thing, apart from the program's output."""
    print(f"haptics: {text}", file=sys.stderr, flush=True)


class Preparation:
    """What one checkout needs: where it is, whether it is whole, how it is made."""

    recipes: tuple[Path, ...] = ()  # further files that say how it is made

    def __init__(self, root, home=".haptics"):
        self.root = Path(root)
        self.home = self.root / home
        self.venv = self.home / "venv"
        self.install = self.home / "install"
        self.logs = self.home / "log"
        self.cache = self.home / "cache"
        self.python = self.venv / "bin" / "python"

    # -- is it whole? ----------------------------------------------------------------------------------------

    def due(self):
        """The stages to make, in order; everything is due when the environment is."""
        if not self.is_whole("environment"):
            return list(STAGES)
        return [stage for stage in STAGES if not self.is_whole(stage)]

    def is_whole(self, stage):
        """Whether the stage was made from what is there now, and what it made is still there."""
        try:
            stamp = json.loads(self.stamp(stage).read_text())
            return stamp["key"] == self.key(stage) and set(stamp["listing"]) <= set(self.listing(stage))
        except (OSError, ValueError, TypeError, LookupError):
            return False

    def stamp(self, stage):
        """The file that says that a stage is done."""
        return self.home / f"{stage}.stamp"

    def key(self, stage):
        """Digest of what a stage is made from; for the later ones also the very environment, by its stamp."""
        sources = {
            "environment": [self.root / "requirements.lock", *self.recipes],
            "interfaces": [
                self.stamp("environment"),
                *self.recipes,
                self.root / "CMakeLists.txt",
                self.root / "package.xml",
                *sorted((self.root / "msg").glob("*.msg")),
            ],
            "kernels": [self.stamp("environment")],
        }[stage]
        made_by = {
            "environment": ("_make_environment", "correct_cmake_files"),
            "interfaces": ("_make_interfaces",),
        }.get(stage, ())
        digest = hashlib.sha256(str(self.root).encode())  # an environment is full of absolute paths
        for source in sources:
            content = source.read_bytes()
            digest.update(f"\n{source.name} {len(content)}\n".encode() + content)
        for name in made_by:
            function = getattr(Preparation, name, None) or globals()[name]
            digest.update(what_it_does(function.__code__, function.__doc__).encode())
        return digest.hexdigest()

    def listing(self, stage):
        """Names of what a stage has made: enough to notice damage, few enough to look at on each start."""
        if stage == "environment":
            # The interpreter behind the link changes when Python is upgraded, and goes when it is removed.
            names = [f"python {os.path.realpath(self.python)} {os.access(self.python, os.X_OK)}"]
            packages = self.site_packages(self.venv)
            for folder in filter(Path.is_dir, (self.venv / "bin", self.venv / "lib", self.venv / "share", packages)):
                names += [f"{folder.relative_to(self.venv)}/{name}" for name in os.listdir(folder)]
        elif stage == "interfaces":
            tree = os.walk(self.install / "lib")
            names = [os.path.join(folder, file) for folder, _, files in tree for file in files]
        else:
            names = []
        return sorted(name for name in names if "__pycache__" not in name)

    @staticmethod
    def site_packages(prefix):
        """Folder of the Python packages below a prefix; one that does not exist if there is none."""
        return next(prefix.glob("lib/python3.*/site-packages"), prefix / "lib" / "python3" / "site-packages")

    def damage(self):
        """The first file of an installed package that is gone or cut short; empty if there is none."""
        import csv

        for record in sorted(self.site_packages(self.venv).glob("*.dist-info/RECORD")):
            with open(record, newline="", encoding="utf-8") as file:
                for name, _, size, *_ in csv.reader(file):
                    path = record.parent.parent / name
                    if "__pycache__" in name or path.suffix == ".cmake":  # made by Python; corrected by us
                        continue
                    try:
                        found = path.stat().st_size
                    except OSError:
                        return f"{path} is gone"
                    if size and found < int(size):
                        return f"{path} is cut short"
        return ""

    # -- how programs run in it ------------------------------------------------------------------------------

    def environment(self):
        """Environment variables of a program of the checkout, for os.execve or subprocess.

        Our Python comes from the checkout, messages from the interfaces, all else from the environment. What
        the user has set about middleware, discovery, threads, logs and caches stays. Applying it twice is
        harmless.
        """
        variables = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        packages = self.site_packages(self.venv)
        put_first(variables, "PATH", self.venv / "bin")
        # The ROS wheels would make their libraries known by starting Python a second time
        # (ros_wheels_bootstrapper): we do it here, and say that it is done.
        bundled = sorted(packages.glob("ros_*.libs"))
        put_first(variables, "LD_LIBRARY_PATH", self.install / "lib", self.venv / "lib", *bundled)
        # colcon complains about a prefix that is yet to be made
        prefixes = os.pathsep.join(str(prefix) for prefix in (self.install, self.venv) if prefix.is_dir())
        variables |= {
            "_ROS_WHEELS_BOOTSTRAP_COMPLETE": "1",
            "AMENT_PREFIX_PATH": prefixes,
            "CMAKE_PREFIX_PATH": prefixes,
            "PYTHONPATH": f"{self.root}{os.pathsep}{self.site_packages(self.install)}",
            "PYTHONSAFEPATH": "1",  # keeps modules in the working directory out (from Python 3.11 on)
            "VIRTUAL_ENV": str(self.venv),
        }
        return self.defaults() | {"RMW_IMPLEMENTATION": "rmw_fastrtps_cpp"} | variables

    def defaults(self):
        """Environment variables that the user may set otherwise."""
        return {
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_HOME": str(self.home),  # its log/ takes the nodes' logs
            "OMP_NUM_THREADS": "1",  # our matrices are small: threads only disturb the servo loop
            "OPENBLAS_NUM_THREADS": "1",
            "NUMBA_CACHE_DIR": str(self.cache / "numba"),
            "MPLCONFIGDIR": str(self.cache / "matplotlib"),
        }

    # -- how it is made --------------------------------------------------------------------------------------

    def prepare(self, broken="", arguments=None):
        """Makes what is due; silent and quick when nothing is.

        Args:
            broken: why the environment must be remade although it looks whole, if it must.
            arguments: of the command that it is made for, which is checked as soon as that is possible.

        Raises:
            PreparationError: it cannot be made.
            Refused: the command is wrong.
        """
        suspect = self._made()
        if not broken and not self.due():
            return
        with self._alone() as lock:
            if broken and self._made() == suspect:  # else another start has just remade it
                say(f"remaking the environment: {broken}")
                self.stamp("environment").unlink(missing_ok=True)
            stages = self.due()
            self.check_machine(stages)
            if not stages:  # another start has made them
                return
            titles = {one: f"preparing the environment ({i}/{len(stages)})" for i, one in enumerate(stages, 1)}
            if "environment" in stages:
                self._make("environment", titles, self._make_environment, lock)
            if arguments is not None:
                self._check(arguments)
            with self._compiling(arguments or [], lock) as make_kernels:  # beside the interfaces
                if "interfaces" in stages:
                    self._make("interfaces", titles, self._make_interfaces, lock)
                if "kernels" in stages:
                    self._make("kernels", titles, make_kernels, lock)

    def _check(self, arguments):
        """Raises Refused if the command is not valid, which the environment alone can tell, before more is made."""
        import subprocess

        code = "import sys; from haptic_bench.commands.command_line import check; sys.exit(check(sys.argv[1:]))"
        command = [self.python, "-c", code, *arguments]
        status = subprocess.call(command, env=self.environment(), start_new_session=True)  # a Ctrl-C is ours
        if status == failures.BAD_INPUT:
            raise Refused(status)

    def check_machine(self, stages):
        """Raises PreparationError if the machine lacks what the stages need."""
        check_machine(stages)

    def _made(self):
        """Content of the environment's stamp, which no other environment has; None without one."""
        try:
            return self.stamp("environment").read_bytes()
        except OSError:
            return None

    @contextlib.contextmanager
    def _alone(self):
        """Keeps other starts out while this one prepares.

        The commands of the stages inherit the lock, so one that outlives a killed start still holds it.
        """
        import fcntl

        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "COLCON_IGNORE").touch()  # nothing in here is a package of the user's workspace
        with open(self.home / "lock", "a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                process = lock.read() or "unknown"
                say(f"another start is preparing the environment (process {process}): waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock

    def _make(self, stage, titles, make, lock):
        """Makes one stage and stamps it; one line of progress."""
        began = time.monotonic()
        print(f"haptics: {titles[stage]}: {self.what(stage)} ...", end="", file=sys.stderr, flush=True)
        try:
            self.stamp(stage).unlink(missing_ok=True)
            self.logs.mkdir(exist_ok=True)
            make(lock)
            draft = self.stamp(stage).with_suffix(".draft")
            stamp = {"key": self.key(stage), "made": time.time(), "listing": self.listing(stage)}
            draft.write_text(json.dumps(stamp, indent=0))
            draft.replace(self.stamp(stage))
        except BaseException:
            print(file=sys.stderr)
            raise
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def what(self, stage):
        """What a stage does, for its line of progress."""
        if stage == "environment":  # a package may have a line for each version of Python
            return f"installing {len({line.partition('==')[0] for line in self.pins()})} packages"
        return {"interfaces": "building the interfaces", "kernels": "compiling the kernels"}[stage]

    def pins(self):
        """The lines of the lock file that name a package."""
        return [line for line in (self.root / "requirements.lock").read_text().splitlines() if "==" in line]

    def _make_environment(self, lock):
        """The virtual environment; its CMake files are corrected for this machine."""
        import sysconfig

        remove(self.venv)
        variables = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        base = getattr(sys, "_base_executable", sys.executable)  # the one behind a virtual environment
        self._run("venv", [base, "-m", "venv", self.venv], variables, lock)
        lock_file = self.root / "requirements.lock"
        options = "--disable-pip-version-check --no-input --prefer-binary --no-deps".split()  # all is locked
        pip = [self.python, "-m", "pip", "install", *options]
        itself = [pin for pin in self.pins() if pin.startswith("uv==")]
        uv = [self.python, "-m", "uv", "pip", "install", "--no-deps", "--python", self.python, "-r", lock_file]
        uv.append("--compile-bytecode")  # as pip does: where Python may not keep it, each start would make it anew
        try:  # takes seconds, where pip alone takes a minute
            self._run("installation of uv", [*pip, *itself], variables, lock)
            self._run("uv pip install", uv, variables, lock)
        except PreparationError:  # an index or a proxy that only pip is told of
            self._run("pip install", [*pip, "-r", lock_file], variables, lock)
        correct_cmake_files(self.venv / "share", sysconfig.get_path("include"), self.site_packages(self.venv))

    def _make_interfaces(self, lock):
        """The messages, by colcon."""
        import shutil

        # From a copy: CMake refuses to export include folders (NumPy's) inside the package's source folder.
        source = self.home / "source"
        for folder in (source, self.home / "build", self.install):
            remove(folder)
        shutil.copytree(self.root / "msg", source / "msg")
        for name in ("CMakeLists.txt", "package.xml"):
            shutil.copy(self.root / name, source)
        options = "--log-base log/colcon build --paths source --merge-install --cmake-args -GNinja".split()
        settings = {
            "BUILD_TESTING": "OFF",
            "CMAKE_BUILD_TYPE": "Release",
            "HAPTICS_INTERFACES_ONLY": "ON",
            "Python3_EXECUTABLE": self.python,
        }
        definitions = [f"-D{key}={value}" for key, value in settings.items()]
        variables = self.environment() | {"MAKEFLAGS": f"-j{os.cpu_count()}"}  # colcon alone would spare a busy machine
        self._run("colcon build", [self.python, "-m", "colcon", *options, *definitions], variables, lock)

    @contextlib.contextmanager
    def _compiling(self, arguments, lock):
        """While the kernels of a command are compiled; gives the function that waits for the end of it."""
        if "kernels" not in self.due() or not (self.root / "haptic_bench" / "commands" / "warm.py").is_file():
            yield lambda lock: None
            return
        command = [self.python, "-m", "haptic_bench.commands.warm", *arguments]
        with self._started("kernel compilation", command, self.environment(), lock) as finish:
            yield lambda lock: finish()

    def _run(self, what, command, variables, lock):
        """Runs a command, its output to a log file; ends it and its children when interrupted."""
        with self._started(what, command, variables, lock) as finish:
            finish()

    @contextlib.contextmanager
    def _started(self, what, command, variables, lock):
        """While a command runs, its output to a log file; gives the function that waits for its end.

        Leaving before that ends it and its children.
        """
        import subprocess

        def release():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, failures.ENDING)

        def finish():
            status = self._wait(child, path)
            if status:
                tail = path.read_text(errors="replace").splitlines()[-LOG_LINES:]
                print("", *tail, sep="\n  ", end="", file=sys.stderr)
                raise PreparationError(f"{what} failed with status {status}: see {path}")

        path = self.logs / (what.replace(" ", "-") + ".log")
        child = None
        # Held back until the child is known: an interruption while it starts would leave it behind.
        failures.hold_signals()
        try:
            with open(path, "wb") as log:
                child = subprocess.Popen(
                    command,
                    cwd=self.home,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(lock.fileno(),),
                    preexec_fn=release,
                )
            lock.truncate(0)
            lock.write(str(child.pid))
            lock.flush()
            release()
            yield finish
        finally:
            if child is not None and child.poll() is None:
                os.killpg(child.pid, signal.SIGTERM)
                try:
                    child.wait(3)
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
            release()

    def _wait(self, child, log):
        """Waits for a command, on a terminal with a bar or a count that moves; returns its exit status."""
        import subprocess

        shown = ""
        while True:
            try:
                status = child.wait(SHOW_EVERY if sys.stderr.isatty() else None)
            except subprocess.TimeoutExpired:
                print("\b" * len(shown), end="", file=sys.stderr)
                text = progress(log.read_text(errors="replace"))
                shown = text.ljust(len(shown))
                print(shown, end="", file=sys.stderr, flush=True)
            else:
                print("\b" * len(shown), " " * len(shown), "\b" * len(shown), sep="", end="", file=sys.stderr)
                return status


def progress(log):
    """How far a command is, from its output: a bar from its last "[done/all]", else the number of its lines."""
    import re

    found = re.findall(r"^\[(\d+)/(\d+)\]", log, re.MULTILINE)
    if not found:
        return f" {len(log.splitlines())}"
    done, total = map(int, found[-1])
    return f" [{'#' * (BAR * done // total):{BAR}}]"


def what_it_does(code, description=None):
    """A text that changes when a function does something else, not when its description changes."""
    constants = [one for one in code.co_consts if one is None or one != description]
    inner = [what_it_does(one) if hasattr(one, "co_code") else repr(one) for one in constants]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def check_machine(stages):
    """Raises PreparationError, before anything is made, if the machine lacks what the stages need."""
    import importlib.util
    import shutil
    import sysconfig

    python = f"python3.{sys.version_info[1]}"
    missing = []  # (what, Debian package)
    if "environment" in stages:  # of this interpreter; later stages use the one it was made with
        if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
            missing.append(("venv and ensurepip modules of " + python, f"{python}-venv"))
        if not Path(sysconfig.get_path("include"), "Python.h").is_file():
            missing.append((f"Python.h of {python}", f"{python}-dev"))
    if "interfaces" in stages:
        if not any(map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")))):
            missing.append(("C compiler", "gcc"))
        if not any(map(shutil.which, filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")))):
            missing.append(("C++ compiler", "g++"))
        cmake = cmake_version()
        if cmake is None:
            missing.append(("cmake", "cmake"))
        elif cmake < CMAKE_NEEDED:
            found, needed = (".".join(map(str, version)) for version in (cmake, CMAKE_NEEDED))
            raise PreparationError(f"cmake {found} found, {needed} or newer needed: install it and try again")
    if missing:
        whats, packages = zip(*missing, strict=True)
        advice = f"install (Debian: apt install {' '.join(packages)}) and try again"
        raise PreparationError(f"this machine has no {', no '.join(whats)}: {advice}")


def cmake_version():
    """Version of the cmake on PATH, (major, minor); None if there is none that runs."""
    import re
    import subprocess

    try:
        output = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
    except OSError:
        return None
    found = re.search(r"cmake version (\d+)\.(\d+)", output)
    return found and (int(found[1]), int(found[2]))


def correct_cmake_files(share, include, packages):
    """Lets the CMake files that came with the ROS wheels name this machine's folders.

    They export the include folders of the Python and the NumPy of their build, below /opt/python/cp3XY-cp3XY.

    Args:
        share: folder to search, `<package>/cmake/*.cmake` in it.
        include: where Python.h is.
        packages: the environment's site-packages.
    """
    import re

    built = r'/opt/python/[^/;"]+'
    for path in share.glob("*/cmake/*.cmake"):
        text = path.read_text()
        if "/opt/python/" in text:
            text = re.sub(built + r"/include/python3\.\d+", lambda _: str(include), text)
            text = re.sub(built + r"/lib/python3\.\d+/site-packages", lambda _: str(packages), text)
            path.unlink()  # it may be a hard link into the installer's cache
            path.write_text(text)


def put_first(variables, name, *paths):
    """Puts paths first in a variable that is a list of paths, each once."""
    others = [path for path in variables.get(name, "").split(os.pathsep) if path]
    variables[name] = os.pathsep.join(dict.fromkeys([*map(str, paths), *others]))


def remove(folder):
    """Removes a folder that may not be there."""
    import shutil

    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
