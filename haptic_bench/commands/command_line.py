"""The command line: its commands and options, the check of its arguments, and how a command ends.

Standard library only: commands that need no environment are answered at once. The function of a command is named beside
its options (MODULE:FUNCTION), and its module is imported when the command is called.

Exit status: 0 done, 1 the run failed, 2 bad input, 128 plus the number of the signal that ended it.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from haptic_bench.catalogue import NotThere, catalogue, did_you_mean, find, headline, shortened
from haptic_bench.set_up import failures, requirements
from haptic_bench.set_up.failures import BAD_INPUT, DONE, FAILED

MODES = ("offline", "lockstep", "realtime")
DESCRIBE = "haptic_bench.commands.cli:describe"
KINDS = (  # of parts
    *("controllers", "operators", "devices", "hardware", "scenes", "analyses"),
    *("local_models", "engines", "friction_models", "contact_methods", "fields", "textures", "robot_adapters"),
)
VIEW = "haptic_bench.commands.view:view"
VALIDATE = "haptic_bench.commands.cli:validate"
DOCTOR = "haptic_bench.commands.doctor:doctor"  # runs before the environment is prepared, which it looks at
PROBLEMS = 20  # lines that are said of bad input
EXAMPLES = """\
examples:
  haptics list corner_peg                        what an experiment is, and all its keys
  haptics run corner_peg                         run it, record it, report it
  haptics run corner_peg --set contact.stiffness=[1000,4000] --out sweep
  haptics run own.yaml --mode lockstep           an experiment of your own
  haptics replay trials/DIRECTORY --verify       simulate again, compare bit by bit
"""
MATRICES = """\
In several directions K, B, b and m are diagonals, [1000,1000,5], or symmetric matrices, [[1000,10],[10,500]]; the worst
direction is then found. NUM and DEN are lists of coefficients of z^0, z^-1, z^-2, ...: a spring is [[1000],[1]].
"""


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit status, or raises SystemExit with it."""
    return _guarded(arguments, lambda: _run(arguments))


def before_preparation(arguments: Sequence[str]) -> int | None:
    """Do the commands that need no environment; the exit status, None if the command is still to be run."""
    return _guarded(arguments, lambda: None if arguments[:1] == ["test"] else _answer(parse(arguments)))


def check(arguments: Sequence[str]) -> int:
    """Check the experiment of a command, for which no ROS is needed; the exit status."""

    def load() -> int:
        options = argparse.Namespace() if arguments[:1] == ["test"] else parse(arguments)
        if "settings" in options and options.experiment is not None:
            _function("haptic_bench.experiment:load")(options.experiment, options.settings, options.duration)
        return DONE

    return _guarded(arguments, load)


def _guarded(arguments: Sequence[str], do: Callable[[], Any]) -> Any:
    """The status that `do` returns; what it raises, or could not write, in words for the user."""
    try:
        status = _ended(arguments, do)
    except SystemExit:  # of the parser, after its help
        if reason := failures.unwritable():
            return _report_lost_output(reason)
        raise
    reason = failures.unwritable()
    return _report_lost_output(reason) if reason else status


def _ended(arguments: Sequence[str], do: Callable[[], Any]) -> Any:
    """The status that `do` returns; what it raises, in words for the user."""
    try:
        return do()
    except NotThere as error:
        return _refuse([str(error)])
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        for line in requirements.lacking(error.name or "") or [failures.report(error, arguments)]:
            failures.notify(line)
        if ".haptics" in Path(sys.prefix).parts and not failures.memory_limit():
            failures.notify(f"if the environment of the checkout is damaged: remove {sys.prefix} and start again")
        return FAILED
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) and error.filename:
            return _refuse([f"{shortened(str(error.filename))}: {error.strerror}; give another path"])
        if error.filename is None and (reason := failures.unwritable("\n")):
            return _report_lost_output(reason)
        return _failed(error, arguments)
    except Exception as error:
        if hasattr(error, "problems"):  # a ParameterError, whose module may not have been imported
            return _refuse(error.problems)
        return _failed(error, arguments)


def _failed(error: Exception, arguments: Sequence[str]) -> int:
    """Report an error that no input should lead to; the exit status."""
    failures.notify(failures.report(error, arguments))
    return FAILED


def _report_lost_output(reason: str) -> int:
    """Say that output was lost, but for a reader that has had enough; the exit status."""
    if reason != os.strerror(errno.EPIPE):
        failures.notify(f"standard output cannot be written: {reason}")
    return FAILED


def _run(arguments: Sequence[str]) -> int:
    if limit := failures.memory_limit(failures.LEAST_MEMORY):
        failures.notify(f"{limit}: at least {failures.LEAST_MEMORY} MiB are needed; raise the limit")
        return FAILED
    if arguments[:1] == ["test"]:  # all that follows is pytest's
        return int(_function("haptic_bench.commands.cli:test")(arguments[1:]))
    options = parse(arguments)
    status = _answer(options)
    if status is not None:
        return status
    # What is missing shows when it is imported: not all commands need ROS.
    requirements.check(missing=False)
    return int(_function(options.command)(options))


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _answer(options: argparse.Namespace) -> int | None:
    """Do the commands that need no other module; the exit status, None for the other commands.

    Raises:
        NotThere: an argument names what is not there.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise NotThere(f"the working directory: {error.strerror}; change into one that is there") from error
    if options.command == DOCTOR:
        return int(_function(DOCTOR)(options))
    if options.command == DESCRIBE and options.json and options.experiment not in KINDS:
        return _refuse([f"--json: is for a kind of parts; give one of {', '.join(KINDS)}"])
    if options.experiment is None and options.command == DESCRIBE:
        known = catalogue()
        width = max(map(len, known), default=0)
        for name, path in known.items():
            print(f"{name:{width}}  {{}} ({{}})".format(*headline(path)))
        return DONE
    kind = options.command == DESCRIBE and options.experiment in KINDS
    files = options.command in (VIEW, VALIDATE)  # which know files of robots and worlds, too
    if options.experiment is not None and not files and not kind:
        find(options.experiment)
    if options.directory is not None and options.command != "haptic_bench.commands.cli:repair":
        summary = Path(options.directory, "summary.json")
        shown = shortened(options.directory)
        try:
            summary.stat()
        except (OSError, ValueError) as error:
            killed = os.path.isdir(os.path.join(options.directory, "bag"))
            hint = f"; if its trial was killed, `haptics repair {shown}` concludes it" if killed else ""
            raise NotThere(f"{shown}: is not the directory of a trial (it has no summary.json){hint}") from error
    return None


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems[:PROBLEMS]:
        failures.notify(shortened(problem, 1500))
    if len(problems) > PROBLEMS:
        failures.notify(f"and {len(problems) - PROBLEMS} more problems")
    return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have the form of all others; options cannot be abbreviated."""

    def __init__(self, **settings: Any):
        super().__init__(**settings, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, as argparse; an unknown option is an error here, where the known options are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            known = sorted(option for action in self._actions for option in action.option_strings)
            is_option = unknown[0].startswith("-")
            hint = did_you_mean(unknown[0].partition("=")[0], known) if is_option else ""
            self.error(f"{shortened(unknown[0])}: unknown {'option' if is_option else 'argument'}{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """End with one line that says the error and where help is."""
        failures.notify(f"{shortened(message, 500)}; see {self.prog} --help")
        raise SystemExit(BAD_INPUT)


def parsers() -> tuple[_Parser, dict[str, _Parser]]:
    """The parser of the command line, and that of each command."""
    parser = _Parser(
        prog="haptics",
        description="Bench experiments of haptic rendering on ROS 2.",
        epilog=EXAMPLES,
    )
    parser.set_defaults(experiment=None, directory=None)
    parser.add_argument("--version", action="version", version=f"haptics {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_commands(commands)
    return parser, commands.choices


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command; `experiment` and `directory` are None for those that have none.

    Raises:
        SystemExit: help was asked for (0), or there is no such command or option (2).
    """
    parser, commands = parsers()
    if not arguments:
        parser.print_help()
        raise SystemExit(DONE)
    if not arguments[0].startswith("-") and arguments[0] not in commands:
        parser.error(f"command {shortened(arguments[0])}: unknown{did_you_mean(arguments[0], commands)}")
    options = parser.parse_args(arguments)
    if "target" in options and options.target is not None:  # a trial that was run, or an experiment
        recorded = os.path.isdir(options.target)
        options.directory, options.experiment = (options.target, None) if recorded else (None, options.target)
    if "command" not in options:
        parser.error(f"a command is missing (known: {', '.join(commands)})")
    return options


def _add_commands(commands: Any) -> None:
    command = commands.add_parser("list", help="list the experiments, the keys of one, or the parts of a kind")
    command.add_argument(
        "experiment",
        nargs="?",
        metavar="NAME",
        help="name of an experiment, whose keys are listed, or of a kind of parts, as controllers; default: list the "
        "experiments",
    )
    command.add_argument(
        "--json", action="store_true", help="print the parts of a kind as JSON: name, module, package and version"
    )
    command.set_defaults(command=DESCRIBE)

    command = commands.add_parser(
        "validate", help="check an experiment, or a file of a robot or a world, without running it"
    )
    _add_experiment(command, "name of an experiment, path of a YAML file, or file of a robot or a world")
    _add_args(command)
    command.set_defaults(command=VALIDATE)

    command = commands.add_parser("run", help="run an experiment and report it", epilog=EXAMPLES)
    _add_experiment(command)
    command.add_argument(
        "--mode",
        choices=MODES,
        help="how the trial runs; default: realtime for experiments with a device, offline for the others",
    )
    command.add_argument(
        "--composed", action="store_true", help="run driver, controller and the tool's side in one process"
    )
    command.add_argument(
        "--side",
        choices=("device", "world"),
        help="run the nodes of this side of a relay alone; the others run on another host (docs/relay.md)",
    )
    command.add_argument(
        "--zip",
        dest="zipped",
        action="append",
        default=[],
        metavar="KEY,KEY",
        help="combine the lists of these keys value by value; without it every value is combined with every other",
    )
    command.add_argument(
        "--out", metavar="DIR", help="directory of the results, new or empty; default: a new one under ./trials/"
    )
    command.add_argument(
        "--jobs", metavar="N", help="run N trials of a sweep at the same time, each in its process; default: 1"
    )
    command.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS|FILE",
        help="run the trials of a sweep on the workers of this Dask scheduler",
    )
    command.add_argument(
        "--resume", action="store_true", help="continue the sweep in --out DIR; finished trials are kept"
    )
    command.add_argument("--quiet", action="store_true", help="show no progress bar")
    command.add_argument(
        "--namespace",
        metavar="NAME",
        help="namespace of the trial's topics; default: the experiment's name, numbered if another trial uses it",
    )
    command.add_argument("--view", action="store_true", help="show the trial on a page in the browser meanwhile")
    _add_page(command)
    command.set_defaults(command="haptic_bench.commands.cli:run")

    command = commands.add_parser(
        "view", help="show a trial on a page in the browser: one that runs, or a recorded one"
    )
    command.add_argument(
        "target",
        nargs="?",
        metavar="EXPERIMENT|FILE|NAMESPACE|DIR",
        help="name of an experiment or path of a YAML file, which is run unless it runs already; a file of a robot or "
        "a world (.urdf, .xacro, .xml, .sdf, .world), whose bodies can be dragged; namespace of what runs; or "
        "directory of a recorded trial; default: what runs",
    )
    _add_settings(command)
    _add_args(command)
    command.add_argument("--mode", choices=MODES[1:], help="how an experiment runs; default: realtime")
    command.add_argument(
        "--composed", action="store_true", help="run driver, controller and the tool's side in one process"
    )
    command.add_argument(
        "--namespace", metavar="NAME", help="namespace of the trial's topics; an experiment that runs is run once more"
    )
    _add_page(command)
    command.set_defaults(command=VIEW)

    command = commands.add_parser(
        "convert", help="write the file of a robot or a world as an experiment that can be edited (docs/worlds.md)"
    )
    command.add_argument("file", metavar="FILE", help="a file .urdf, .xacro, .xml (MJCF), .sdf or .world")
    command.add_argument("--out", metavar="WORLD.yaml", required=True, help="file that is written, meshes beside it")
    _add_args(command)
    command.add_argument("--force", action="store_true", help="overwrite the file")
    command.set_defaults(command="haptic_bench.commands.convert:convert")

    command = commands.add_parser(
        "export", help="write a recorded trial, or all of a sweep, in the format of other tools (docs/export.md)"
    )
    command.add_argument("directory", metavar="DIR", help="directory of the trial, or of the sweep")
    command.add_argument(
        "--format", required=True, choices=("csv", "hdf5", "lerobot", "zarr"), help="format that is written"
    )
    command.add_argument(
        "--out", metavar="OUT", help="directory of the export, new or empty; default: a new one under ./trials/"
    )
    command.set_defaults(command="haptic_bench.commands.export:export")

    command = commands.add_parser(
        "point", help="move the hand of a running trial whose operator is a pointer (docs/pointer.md)"
    )
    command.add_argument(
        "source", metavar="keyboard|gamepad|spacemouse|FILE", help="what it is moved with, or a file of events"
    )
    command.add_argument("--namespace", metavar="NAME", required=True, help="namespace of the trial's topics")
    command.add_argument("--device", metavar="PATH", help="event file of a gamepad; default: the first that there is")
    command.add_argument("--wait", metavar="SECONDS", help="wait so long for the trial to begin; default: 10")
    command.set_defaults(command="haptic_bench.commands.point:point")

    _add_start(commands)

    _add_study(commands)

    command = commands.add_parser("new", help="write a package for parts of one's own: a copy of examples/own_parts")
    command.add_argument("package", metavar="PACKAGE", help="name of the package, and of the new folder")
    command.set_defaults(command="haptic_bench.commands.check:new")

    command = commands.add_parser("check", help="check the properties that every part must have (docs/parts.md)")
    command.add_argument(
        "part", metavar="PART", help="name of a part of any kind, KIND/NAME, as textures/grating, or MODULE:CLASS"
    )
    command.add_argument(
        "--in",
        dest="within",
        metavar="EXPERIMENT",
        help="experiment with the part; default: that of its name for scenes and analyses, else a push against a wall",
    )
    _add_set(command, "set a key of that experiment, as operator.force=[1,0,0]")
    command.add_argument("--offline", action="store_true", help="leave out the trial in lockstep, which needs ROS")
    command.set_defaults(command="haptic_bench.commands.check:check")

    command = commands.add_parser("replay", help="play a recorded trial back on its ROS topics")
    command.add_argument("directory", help="directory of a trial")
    command.add_argument(
        "--verify",
        action="store_true",
        help="do not play it back: simulate it again and compare with the recording, bit by bit",
    )
    command.add_argument("--wait", metavar="N", help="begin as soon as there are N subscribers; default: begin at once")
    command.add_argument("--rate", metavar="R", help="speed of the playback, relative to the recording; default: 1")
    command.add_argument("--loop", action="store_true", help="repeat the playback until interrupted")
    command.add_argument("--from", dest="start", metavar="S", help="begin at this time of the trial [s]")
    command.add_argument("--to", dest="end", metavar="S", help="end at this time of the trial [s]")
    command.add_argument("--namespace", metavar="NAME", help="namespace of the topics; default: that of the trial")
    command.set_defaults(command="haptic_bench.commands.cli:replay")

    command = commands.add_parser("report", help="write the report of a trial or a sweep again")
    command.add_argument("directory", help="directory of a trial or a sweep")
    command.add_argument("--figures", metavar="KINDS", help="write each figure as these too: pdf, png, or pdf,png")
    command.set_defaults(command="haptic_bench.commands.cli:report")

    command = commands.add_parser("gallery", help="run every experiment once, and write one page of all")
    command.add_argument("out", metavar="DIR", help="directory of the page and the trials, new or empty")
    command.add_argument("names", nargs="*", metavar="NAME", help="experiments; default: all")
    command.add_argument("--quiet", action="store_true", help="show no progress bar")
    command.set_defaults(command="haptic_bench.commands.gallery:gallery")

    command = commands.add_parser("repair", help="complete a trial that was killed, or whose bag is damaged")
    command.add_argument("directory", help="directory of a trial or a sweep")
    command.set_defaults(command="haptic_bench.commands.cli:repair")

    command = commands.add_parser(
        "trajectory", help="save the motion of a recorded trial as a trajectory, and compare it with its own"
    )
    command.add_argument("directory", help="directory of a trial in which bodies follow a trajectory (docs/motions.md)")
    command.add_argument("motion", nargs="?", help="name of the motion; default: the only one")
    command.add_argument("--out", metavar="FILE", help="file (.json) with the fields of JointTrajectory to be written")
    command.add_argument("--rate", metavar="HZ", help="points a second in the file; default: 100")
    command.set_defaults(command="haptic_bench.commands.trajectory:trajectory")

    command = commands.add_parser("system", help="describe a system of formulas (docs/formulas.md)")
    command.add_argument("system", metavar="NAME|FILE", help="system of config/systems, or its file, or an experiment")
    _add_set(command, "change a key of the experiment, as scene.radius=0.04")
    command.add_argument("--json", action="store_true", help="print JSON, without the equations of motion")
    command.set_defaults(command="haptic_bench.commands.formulas:system")

    _add_passivity(commands)
    _add_zwidth(commands)

    command = commands.add_parser(
        "bring-up",
        help="first contact with a device: axes, signs, units, noise, a tenth of its force (docs/bring_up.md)",
    )
    command.add_argument("device", metavar="DEVICE", help="name in config/devices, or a data file of hardware")
    command.add_argument(
        "--out", metavar="FILE", help="data file that is written; default: my_DEVICE.yaml in config/devices"
    )
    command.add_argument("--force", action="store_true", help="overwrite that file")
    command.add_argument(
        "--log", metavar="DIR", help="directory of report and log, new or empty; default: in ./trials/"
    )
    command.add_argument(
        "--page", action="store_true", help="a page in the browser beside the terminal: steps, request, readings"
    )
    command.add_argument(
        "--answers", metavar="FILE", help="answers, a line each, in the place of a person; for simulated devices only"
    )
    command.set_defaults(command="haptic_bench.commands.bring_up:bring_up")

    command = commands.add_parser(
        "identify",
        help="find mass, inertia, damping, friction, delay and noise of a device, from its motion (docs/identify.md)",
    )
    command.add_argument(
        "device", metavar="DEVICE", help="name in config/devices, a type or an experiment's device, or a .yaml file"
    )
    command.add_argument("--free", metavar="DIR", help="recorded trial that nobody touches; default: run both trials")
    command.add_argument("--held", metavar="DIR", help="recorded trial in which a hand holds the device")
    _add_set(command, "set a key of the experiment `identification`, as rate=2000 or controller.force=[2,2,2,0,0,0]")
    command.add_argument("--trials", metavar="DIR", help="directory of the trials that are run, new or empty")
    command.add_argument("--out", metavar="FILE", help="file of the data; default: that of a hardware device")
    command.add_argument("--quiet", action="store_true", help="show no progress bar")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(command="haptic_bench.commands.identify:identify")

    command = commands.add_parser(
        "doctor", help="look for what this machine lacks: packages, permissions, middleware, devices, with remedies"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--write",
        metavar="DIR",
        help="write udev rules and limits of real-time priority instead, for an administrator",
    )
    command.set_defaults(command=DOCTOR)

    command = commands.add_parser("benchmark", help="run the benchmarks and print a table")
    command.add_argument("name", nargs="?", help="name of one benchmark; default: all")
    command.add_argument("--json", metavar="FILE", help="file to which the results are written")
    command.add_argument("--save", action="store_true", help="write them to benchmarks/records/NAME_COMMIT.json")
    command.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="run two commits by turns; exit code 1 where B is slower"
    )
    command.add_argument("--pairs", type=int, default=5, help="turns of both commits; default: %(default)s")
    command.add_argument("--out", metavar="DIR", help="directory for the page of rates; default: ./benchmarks/rates/")
    command.set_defaults(command="haptic_bench.commands.cli:benchmark")

    command = commands.add_parser(
        "campaign", help="search for faults: kills, hostile files, full disks, strangers (docs/reliability.md)"
    )
    command.add_argument("only", nargs="*", metavar="PROBE", help="such as kills; default: all of docs/reliability.md")
    command.add_argument("--minutes", default="5", metavar="N", help="how long; default: %(default)s")
    command.add_argument("--first", default="0", metavar="N", help="number of the first case; default: %(default)s")
    command.add_argument("--cases", metavar="N", help="cases of each probe at most; default: as the time allows")
    command.add_argument("--out", metavar="DIR", help="directory of the page, new or empty; default: in ./trials/")
    command.set_defaults(command="haptic_bench.commands.cli:campaign")

    command = commands.add_parser(
        "shell", help="open a shell, or run a program, in the environment of the nodes (rclpy, haptics.msg)"
    )
    command.add_argument("program", nargs=argparse.REMAINDER, help="program and its arguments; default: your shell")
    command.set_defaults(command="haptic_bench.commands.shell:shell")

    command = commands.add_parser(
        "sbom", help="write the bill of materials: installed packages and licences, CycloneDX"
    )
    command.add_argument("out", nargs="?", metavar="FILE", help="file that is written; default: standard output")
    command.set_defaults(command="haptic_bench.commands.sbom:sbom")

    command = commands.add_parser("docs", help="build the documentation as a site")
    command.add_argument("out", nargs="?", metavar="DIR", help="directory of the site; default: .haptics/site")
    command.add_argument("--gallery", metavar="DIR", help="show pictures and claims that haptics gallery DIR made")
    command.add_argument("--links", action="store_true", help="instead: ask all addresses whether they are there")
    command.set_defaults(command="haptic_bench.commands.docs:docs")

    commands.add_parser(
        "test",
        help="run the test suite with arguments of pytest; --fast: without graphs, programs and analyses; "
        "--all: with the exhaustive tests",
        add_help=False,
    )


def _add_start(commands: Any) -> None:
    command = commands.add_parser(
        "start", help="run a world with a device until stopped; nodes that end are started again (docs/system.md)"
    )
    command.add_argument("world", nargs="?", help="as --world")
    command.add_argument(
        "--world",
        dest="given_world",
        metavar="WORLD",
        help="an experiment, or a file: .yaml, .xml (MJCF), .urdf, .xacro, .sdf, .world; none: clients of CRTK command "
        "the device (docs/crtk.md)",
    )
    command.add_argument(
        "--device",
        default="",
        metavar="DEVICE",
        help="type of the device, a hardware device (docs/devices.md), a .yaml file, or pointer or keyboard, with "
        "which the hand is moved on a page in the browser; default: as the world has it",
    )
    _add_set(command, "set a key of the experiment, as contact.stiffness=2000")
    _add_args(command)
    command.add_argument("--composed", action="store_true", help="run all but a slow world in one process")
    command.add_argument(
        "--record",
        action="store_true",
        help="record and report a trial of at most an hour; a node that ends ends it",
    )
    command.add_argument(
        "--side",
        default="",
        choices=("haptics", "dynamics"),
        help="run the nodes beside the device, or the environment alone, on this host (docs/two_hosts.md)",
    )
    command.add_argument("--no-restart", action="store_true", help="end with the first node that ends")
    command.add_argument("--out", metavar="DIR", help="directory of the logs, new or empty; default: under ./trials/")
    command.add_argument("--namespace", metavar="NAME", help="namespace of the topics; default: the experiment's name")
    command.set_defaults(command="haptic_bench.commands.system:start")


def _add_study(commands: Any) -> None:
    command = commands.add_parser("study", help="studies with people, and with simulated observers (docs/studies.md)")
    kinds = command.add_subparsers(metavar="list|validate|simulate|run|resume|exclude|report", required=True)
    named = ("study", "STUDY", "name of a study in config/studies, or path of a .yaml file")
    recorded = ("study", "DIR", "directory of a study")

    def add(name: str, about: str, argument: tuple[str, str, str] | None) -> argparse.ArgumentParser:
        kind: argparse.ArgumentParser = kinds.add_parser(name, help=about)
        if argument is not None:
            kind.add_argument(argument[0], metavar=argument[1], help=argument[2])
        kind.set_defaults(command=f"haptic_study.commands:{name if name != 'list' else 'list_studies'}")
        return kind

    add("list", "list the studies", None)
    add("validate", "check a study, and print its number of trials and its duration", named)
    kind = add("simulate", "run a study with simulated observers, who feel what the simulated device renders", named)
    kind.add_argument("--participants", metavar="N", default="24", help="number of observers; default: %(default)s")
    kind.add_argument("--observer", metavar="KEY=VALUE,...", default="", help="as weber=0.08,lapse=0.02")
    kind.add_argument("--seed", metavar="N", default="0", help="seed of the observers; default: %(default)s")
    kind.add_argument("--record", action="store_true", help="record the trial of each interval, with its report")
    kind.add_argument(
        "--percepts",
        choices=("device", "stimulus"),
        default="device",
        help="what observers feel: what the device renders, or the stimulus as it is, without running the experiment",
    )
    kind.add_argument(
        "--repeat", metavar="N", help="simulate the study N times, with other seeds: how often are differences found?"
    )
    kind.add_argument("--jobs", metavar="N", help="N processes, by Dask; default: a fork for each core")
    kind.add_argument("--scheduler", metavar="ADDRESS", default="", help="of Dask workers elsewhere, or its file")
    kind.add_argument("--out", metavar="DIR", help="directory of the study, new or empty; default: under ./trials/")
    kind = add("run", "run a session with a person, who has a page in the browser, as the experimenter has", named)
    kind.add_argument(
        "--participant", metavar="CODE", required=True, help="letters and digits with a number at the end"
    )
    kind.add_argument("--session", metavar="N", default="1", help="number of the session; default: %(default)s")
    kind.add_argument("--device", metavar="NAME", help="pointer, or a device; default: that of the experiment")
    kind.add_argument("--seed", metavar="N", help="seed of the orders; default: that of the study")
    kind.add_argument(
        "--out", metavar="DIR", help="directory of the study, with all its sessions; default: trials/STUDY"
    )
    _add_presentation(kind)
    kind = add("resume", "continue the sessions that were cut", recorded)
    kind.add_argument("--participant", metavar="CODE", help="whose session, where several people's have not ended")
    kind.add_argument("--session", metavar="N", help="number of that session")
    _add_presentation(kind)
    kind = add("exclude", "leave an answered trial out of the analysis, for a reason that the tables show", recorded)
    kind.add_argument("participant", metavar="PARTICIPANT", help="code of the participant")
    kind.add_argument("trial", metavar="TRIAL", help="number of the trial in the session")
    kind.add_argument("--session", metavar="N", default="1", help="number of the session; default: %(default)s")
    kind.add_argument("--reason", metavar="TEXT", required=True, help="why it does not count")
    kind = add("report", "write tables and page of a study again", recorded)
    kind.add_argument("--figures", metavar="KINDS", help="write each figure as these too: pdf, png, or pdf,png")


def _add_presentation(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--outlet",
        metavar="OUTLET",
        action="append",
        default=[],
        help="send codes of events to other recorders: ros, serial:PORT, parallel:PORT or lsl; may be repeated",
    )
    command.add_argument(
        "--port", metavar="N", help="port of the participant's page; default: the first free from 8080"
    )
    command.add_argument("--experimenter-port", metavar="N", help="port of the experimenter's page; default: the same")


def _add_passivity(commands: Any) -> None:
    command = commands.add_parser(
        "passivity", help="analyse whether a device renders a virtual coupling passively (docs/passivity.md)"
    )
    kinds = command.add_subparsers(metavar="coupling|tune|map", required=True)

    kind = kinds.add_parser(
        "coupling", help="the damping that a coupling with a wall or a mass requires of a device", epilog=MATRICES
    )
    kind.add_argument("--stiffness", metavar="K", help="stiffness of the virtual coupling [N/m]")
    kind.add_argument("--damping", metavar="B", help="damping of the virtual coupling [N s/m]")
    kind.add_argument("--rate", metavar="HZ", required=True, help="servo rate [Hz]")
    kind.add_argument("--device-damping", metavar="b", help="viscous damping of the device itself [N s/m]")
    _add_device(kind)
    kind.add_argument("--mass", metavar="m", help="point mass behind the coupling [kg]; default: a virtual wall")
    kind.add_argument(
        "--coupling", metavar="[NUM,DEN]", help="transfer function of the coupling, in place of K and B [N/m]"
    )
    kind.add_argument("--environment", metavar="[NUM,DEN]", help="the same of the environment, in place of m [m/N]")
    _add_loop(kind)
    _add_quantisation(kind)
    kind.add_argument("--json", action="store_true", help="print one JSON object")
    kind.set_defaults(command="haptic_bench.commands.passivity:coupling")

    kind = kinds.add_parser("tune", help="the stiffest coupling that a device renders passively (BROWN 4)")
    kind.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help="experiment whose device and rate are taken")
    kind.add_argument(
        "--device-damping",
        metavar="b",
        help="viscous damping of the device itself [N s/m]; default: that of the experiment's device",
    )
    _add_device(kind)
    kind.add_argument("--rate", metavar="HZ", help="servo rate [Hz]; default: that of the experiment")
    kind.add_argument("--mass", metavar="m", help="lightest mass that is simulated [kg]; default: virtual walls only")
    kind.add_argument("--beta", metavar="BETA", help="damping relative to the stiffness, B/(K T)")
    kind.add_argument(
        "--share", metavar="PART", help="part of the device's damping that the coupling may require; default: 0.8"
    )
    _add_loop(kind)
    _add_quantisation(kind)
    kind.add_argument("--json", action="store_true", help="print one JSON object")
    kind.set_defaults(command="haptic_bench.commands.passivity:tune")

    kind = kinds.add_parser("map", help="required damping of point masses over that of the wall (BROWN figures 6 to 9)")
    kind.add_argument("--out", metavar="DIR", required=True, help="directory of the results, new or empty")
    for name, what in (("--alpha", "K T^2/m, from 0.004 to 0.8 in 200"), ("--beta", "B/(K T), from 0 to 4 in 200")):
        kind.add_argument(name, nargs=3, metavar=("LOW", "HIGH", "N"), help=f"values of {what} steps by default")
    _add_loop(kind)
    kind.set_defaults(command="haptic_bench.commands.passivity:write_map")


def _add_quantisation(kind: argparse.ArgumentParser) -> None:
    kind.add_argument("--resolution", metavar="M", help="resolution of the measured position [m]; default: 0, none")
    kind.add_argument(
        "--device-friction", metavar="c", help="dry friction of the device itself [N], against quantisation; default: 0"
    )


def _add_zwidth(commands: Any) -> None:
    command = commands.add_parser(
        "zwidth", help="simulate which virtual couplings a device with a hand renders stably (docs/passivity.md)"
    )
    command.add_argument("--rate", metavar="HZ", required=True, help="servo rate [Hz]")
    command.add_argument("--device-mass", metavar="M", help="mass of the device [kg]")
    command.add_argument("--device-damping", metavar="b", help="viscous damping of the device itself [N s/m]")
    _add_device(command)
    command.add_argument("--mass", metavar="m", help="point mass behind the coupling [kg]; default: a virtual wall")
    _add_loop(command)
    command.add_argument("--resolution", metavar="M", help="resolution of the measured position [m]; default: 0, none")
    command.add_argument(
        "--hand",
        metavar="HAND",
        help="none (default), relaxed, firm, clamp, passive (each of these, the worst counts), or adversarial (the "
        "worst of all, which looks for energy)",
    )
    command.add_argument(
        "--amplitude", metavar="M", help="first displacement, or amplitude of an adversarial hand [m]; default: 0.001"
    )
    for name, what in (("--stiffness", "stiffness [N/m]"), ("--damping", "damping [N s/m]")):
        command.add_argument(
            name,
            nargs=3,
            metavar=("LOW", "HIGH", "N"),
            help=f"values of the coupling's {what}; default: 40, from 0 to beyond what can be stable or passive",
        )
    command.add_argument("--out", metavar="DIR", required=True, help="directory of the results, new or empty")
    command.add_argument("--quiet", action="store_true", help="show no progress bar")
    command.set_defaults(command="haptic_bench.commands.zwidth:zwidth")


def _add_device(kind: argparse.ArgumentParser) -> None:
    kind.add_argument(
        "--device",
        metavar="DEVICE",
        help="name in config/devices, or a data file, of which damping, friction, mass and delay are taken where they "
        "are not given (docs/identify.md)",
    )


def _add_loop(kind: argparse.ArgumentParser) -> None:
    kind.add_argument(
        "--integrator", metavar="1|2|3", help="integrator of the mass, the method of BROWN Table 1; default: 3"
    )
    kind.add_argument("--delay", metavar="N", help="delay of the rendered force [ticks]; default: 0")


def _add_experiment(
    command: argparse.ArgumentParser, given: str = "name of an experiment, or path of a YAML file"
) -> None:
    command.add_argument("experiment", help=given)
    _add_settings(command)


def _add_page(command: argparse.ArgumentParser) -> None:
    command.add_argument("--port", metavar="N", help="port of the page; default: the first from 8080 on that is free")
    command.add_argument(
        "--host",
        metavar="ADDRESS",
        help="address of this machine on which the page is reached; default: 127.0.0.1, from this machine alone",
    )


def _add_set(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help=text)


def _add_args(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--arg",
        dest="args",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an argument of a xacro file, as ur_type=ur5e",
    )
    command.add_argument(
        "--packages", action="append", default=[], metavar="DIR", help="folder in which packages are looked for first"
    )


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--duration", metavar="S", help="duration of the trial [s]; default: that of the experiment")
    _add_set(command, "set a key of the experiment, as contact.stiffness=2000; a list of values runs a sweep")


def _version() -> str:
    """Version in the checkout's package.xml, or of the installed package."""
    try:
        text = (Path(__file__).resolve().parents[2] / "package.xml").read_text(encoding="utf-8")
        return text.partition("<version>")[2].partition("</version>")[0]
    except OSError:
        from importlib import metadata

        try:
            return metadata.version("haptics")
        except metadata.PackageNotFoundError:
            return "of unknown version"
