"""Makes the environment that `./haptics` needs and a clean checkout lacks.

Standard library only, because it runs before any package is installed.

It is three folders below `.haptics/` of the checkout:

- `venv/`: the packages pinned in requirements.lock (ROS 2 among them, from wheels), installed by uv;
- `install/`: the messages of this package, built by colcon with those packages;
- `kernels/`: says that the Numba kernels of a first command have been compiled, on all cores while the messages are
  built (see warm.py). Other kernels are compiled when they are first called.

Each folder has a stamp, written last: a digest of what the folder was made from. At every start, a folder without the
right stamp is removed and made again; the comparison takes a few milliseconds.

Where a ROS 2 is sourced, its packages replace the wheels: see sourced_ros.py.
"""

import contextlib
import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from haptic_bench.set_up import failures

ROOT = Path(__file__).resolve().parents[2]
LOG_LINES = 15  # of a failed command, shown to the user
SHOW_EVERY = 0.3  # [s]
BAR = 24  # characters
FOREIGN = ("PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")  # would mix ours with another Python
STAMP = "stamp"  # in each folder
COMPILED = ("run", "test", "benchmark", "campaign")  # commands that call kernels
TOOLS = (  # what, Debian package, programs of which one is needed
    ("C compiler", "gcc", "cc", "gcc", "clang"),
    ("C++ compiler", "g++", "c++", "g++", "clang++"),
    ("cmake", "cmake", "cmake"),
)
# Where a prefix may have Python packages: as packaged, as built on Debian and Ubuntu.
PACKAGE_FOLDERS = ("lib/python3.*/site-packages", "local/lib/python3.*/dist-packages", "lib/python3*/dist-packages")


class PreparationError(Exception):
    """The environment cannot be made; the text tells the user why."""


def notify(text):
    """Write a line for the user to standard error, apart from the program's output."""
    print(f"haptics: {text}", file=sys.stderr, flush=True)


class Preparation:
    """The environment of one checkout: where it is, whether it is up to date, how it is made."""

    recipes: tuple[Path, ...] = (Path(__file__),)  # files that say how it is made
    origin = ""  # prefix of packages that are used and not installed

    def __init__(self, root, home=".haptics"):
        self.root = Path(root)
        self.home = self.root / home
        self.venv = self.home / "venv"
        self.install = self.home / "install"
        self.kernels = self.home / "kernels"
        self.python = self.venv / "bin" / "python"

    # -- is it up to date? -----------------------------------------------------------------------------------

    def due(self, arguments=()):
        """The folders that are to be made for a command, in order."""
        folders = [self.venv, self.install]
        if arguments and arguments[0] in COMPILED:
            folders.append(self.kernels)
        return [folder for folder in folders if not self._is_made(folder)]

    def _is_made(self, folder):
        """Whether a folder was made from what is there now."""
        try:
            return (folder / STAMP).read_text() == self._digest(folder)
        except OSError:
            return False

    def _digest(self, folder):
        """Digest of all that a folder is made from."""
        sources = [*self.recipes, self.root / "requirements.lock"]
        if folder == self.install:
            sources += [self.root / "CMakeLists.txt", self.root / "package.xml", *sorted(self.root.glob("msg/*.msg"))]
        # The folders are full of absolute paths. The Python behind the link may be replaced, or go.
        parts = [str(self.root), os.path.realpath(self.python), str(os.access(self.python, os.X_OK)), self.origin]
        parts += [f"{source.name} {hashlib.sha256(source.read_bytes()).hexdigest()}" for source in sources]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    # -- how programs run in it ------------------------------------------------------------------------------

    def environment(self):
        """Environment variables of a program of the checkout, for os.execve or subprocess.

        Our Python comes from the checkout, messages from `install/`, all else from `venv/`. What the user has set
        about middleware, discovery, threads, logs and caches stays. Applying it twice is harmless.
        """
        variables = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        packages = site_packages(self.venv)
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
            "PYTHONPATH": f"{self.root}{os.pathsep}{site_packages(self.install)}",
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
            "NUMBA_CACHE_DIR": str(self.home / "cache" / "numba"),
            "MPLCONFIGDIR": str(self.home / "cache" / "matplotlib"),
        }

    # -- how it is made --------------------------------------------------------------------------------------

    def prepare(self, arguments=()):
        """Makes what is due for a command; silent and quick when nothing is.

        Raises:
            PreparationError: it cannot be made.
        """
        if not self.due(arguments):
            return
        with self._exclusive_lock():
            if self.venv in self.due():  # it is not if another start has made it meanwhile
                self._check_machine()
                lacking = f" that {self.origin} lacks" if self.origin else ""
                with self._making(self.venv, f"installing the packages{lacking}"):
                    self._install_packages()
            due = self.due(arguments)
            if self.kernels in due:
                self._check(arguments)
            with contextlib.ExitStack() as stack:
                if self.kernels in due:  # are compiled while the messages are built
                    compilation = [self.python, "-m", "haptic_bench.commands.warm", *arguments]
                    here = os.getcwd()  # the files that the command names are looked for from here
                    finish = stack.enter_context(self._started("kernels", compilation, here))
                if self.install in due:
                    with self._making(self.install, "building the messages"):
                        self._build_messages()
                if self.kernels in due:
                    with self._making(self.kernels, "compiling the kernels"):
                        finish()

    def _check(self, arguments):
        """Ends the program if the command is wrong, which the packages alone can tell, before more is made."""
        import subprocess

        code = "import sys; from haptic_bench.commands.command_line import check; sys.exit(check(sys.argv[1:]))"
        command = [self.python, "-c", code, *arguments]
        status = subprocess.call(command, env=self.environment(), start_new_session=True)  # a Ctrl-C is ours
        if status == failures.BAD_INPUT:
            sys.exit(status)

    @contextlib.contextmanager
    def _exclusive_lock(self):
        """Keeps other starts out while this one prepares.

        Its commands inherit the lock, so one that outlives a killed start still holds it.
        """
        import fcntl

        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "COLCON_IGNORE").touch()  # nothing in here is a package of the user's workspace
        (self.home / "log").mkdir(exist_ok=True)
        with open(self.home / "lock", "w") as self._lock:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                notify("another start is preparing the environment: waiting for it")
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _making(self, folder, what):
        """While a folder is made, which is stamped then; one line of progress."""
        self._began = time.monotonic()
        print(f"haptics: preparing the environment: {what} ...", end="", file=sys.stderr, flush=True)
        try:
            (folder / STAMP).unlink(missing_ok=True)
            remove(folder)
            yield
            folder.mkdir(exist_ok=True)
            (folder / STAMP).write_text(self._digest(folder))
        except BaseException:
            print(file=sys.stderr)
            raise
        print(f" {time.monotonic() - self._began:.0f} s", file=sys.stderr, flush=True)

    def interpreter(self):
        """Path of the Python that the environment is made with."""
        return getattr(sys, "_base_executable", sys.executable)  # the one behind a virtual environment

    def _include(self):
        """Folder in which that Python has its Python.h."""
        import subprocess

        command = [self.interpreter(), "-Ic", "import sysconfig; print(sysconfig.get_path('include'))"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PreparationError(f"{command[0]} does not run: {done.stderr.strip()[-200:]}")
        return Path(done.stdout.strip())

    def pins(self):
        """The packages that the lock file names, each with its version and marker, without its hashes."""
        lines = (self.root / "requirements.lock").read_text().splitlines()
        return [line.removesuffix("\\").rstrip() for line in lines if "==" in line]

    def _check_machine(self):
        """Raises PreparationError, before anything is made, if the machine lacks what is needed."""
        import shutil

        missing = [(what, package) for what, package, *names in TOOLS if not any(map(shutil.which, names))]
        if not (self._include() / "Python.h").is_file():
            python = self._include().name
            missing.append((f"Python.h of {python}", f"{python}-dev"))
        if missing:
            whats, packages = zip(*missing, strict=True)
            advice = f"install (Debian: apt install {' '.join(packages)}) and try again"
            raise PreparationError(f"this machine has no {', no '.join(whats)}: {advice}")

    def _install_packages(self):
        """The virtual environment; its CMake files are corrected for this machine."""
        import re

        self._run("venv", [self.interpreter(), "-m", "venv", self.venv])
        lock = self.root / "requirements.lock"
        uv = self.home / "uv.txt"  # pip and uv both refuse a file whose hash the lock does not have
        uv.write_text("".join(re.findall(r"^uv==(?:.*\\\n)*.*\n", lock.read_text(), re.MULTILINE)))
        self._run("installation of uv", [self.python, "-m", "pip", "install", "--no-input", "--no-deps", "-r", uv])
        # Bytecode is made of what is imported, a tenth of all; of all it would take 20 s of a core. The preparation's
        # programs import what a trial does, and keep its bytecode, where later programs may not.
        install = [self.python, "-m", "uv", "pip", "install", "--no-deps"]
        self._run("installation", [*install, "--python", self.python, "-r", lock])
        correct_cmake_files(self.venv / "share", self._include(), site_packages(self.venv))

    def _build_messages(self):
        """The messages, by colcon."""
        import shutil

        # From a copy: CMake refuses to export include folders (NumPy's) inside the package's source folder.
        source = self.home / "source"
        for folder in (source, self.home / "build"):
            remove(folder)
        shutil.copytree(self.root / "msg", source / "msg")
        for name in ("CMakeLists.txt", "package.xml"):
            shutil.copy(self.root / name, source)
        options = "--log-base log/colcon build --paths source --merge-install --cmake-args -GNinja".split()
        settings = {
            "BUILD_TESTING": "OFF",
            "CMAKE_BUILD_TYPE": "Release",
            # Servo threads take and give serialised bytes: no tick is spent in this code, but a start is.
            "CMAKE_C_FLAGS_RELEASE": "-O0",
            "CMAKE_CXX_FLAGS_RELEASE": "-O0",
            "HAPTICS_INTERFACES_ONLY": "ON",
            "Python3_EXECUTABLE": self.python,
        }
        definitions = [f"-D{key}={value}" for key, value in settings.items()]
        self._run("colcon build", [self.python, "-m", "colcon", *options, *definitions])

    def _run(self, what, command):
        """Runs a command; see `_started`."""
        with self._started(what, command) as finish:
            finish()

    @contextlib.contextmanager
    def _started(self, what, command, folder=None):
        """While a command runs in a folder (`home`), its output to a log file; gives the function that waits for it.

        Leaving before that ends it and its children.
        """
        import subprocess

        path = self.home / "log" / f"{what.replace(' ', '-')}.log"
        variables = self.environment() | {"MAKEFLAGS": f"-j{os.cpu_count()}"}  # colcon alone would spare a busy machine
        variables.pop("PYTHONDONTWRITEBYTECODE", None)  # see _install_packages

        def finish():
            shown = ""
            while child.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(SHOW_EVERY)
                if sys.stderr.isatty():
                    text = "" if child.poll() is not None else progress(path, time.monotonic() - self._began)
                    width = max(len(text), len(shown))
                    print(text.ljust(width), "\b" * width, sep="", end="", file=sys.stderr, flush=True)
                    shown = text
            if child.returncode:
                tail = path.read_text(errors="replace").splitlines()[-LOG_LINES:]
                print("", *tail, sep="\n  ", end="", file=sys.stderr)
                raise PreparationError(f"{what} failed with status {child.returncode}: see {path}")

        failures.hold_signals()  # until the child is known: it would be left behind
        with open(path, "wb") as log:
            child = subprocess.Popen(
                command,
                cwd=folder or self.home,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=failures.release_signals,
                pass_fds=(self._lock.fileno(),),
            )
        failures.groups.add(child.pid)
        failures.release_signals()
        try:
            yield finish
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            failures.groups.remove(child.pid)


def progress(log, seconds):
    """Progress of a command: the time [s], and a bar from the last "[done/all]" of its output."""
    import re

    found = re.findall(r"^\[(\d+)/(\d+)\]", log.read_text(errors="replace"), re.MULTILINE)
    done, total = map(int, found[-1]) if found else (0, 0)
    bar = f" [{'#' * (BAR * done // total):{BAR}}]" if total else ""
    return f"{bar} {seconds:.0f} s"


def site_packages(prefix):
    """Folder of the Python packages below a prefix; one that does not exist if there is none."""
    found = (path for folder in PACKAGE_FOLDERS for path in prefix.glob(folder))
    return next(found, prefix / "lib" / "python3" / "site-packages")


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
