"""The start of `./haptics`: it prepares the environment if something is missing, and starts itself again in it.

Standard library only, because the environment may not exist yet.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

from haptic_bench.commands import command_line
from haptic_bench.set_up import failures, prepare

REPAIRED = "HAPTICS_REPAIRED"  # set in a program that was started anew after a repair


def start(arguments, broken=""):
    """Prepares what is missing and becomes the program; returns an exit status where there is no need or no way to.

    Args:
        arguments: of the command line.
        broken: why the environment must be remade although it looks whole, if it must.
    """
    status = command_line.before_preparation(arguments)
    if status is not None:
        return status
    try:
        with stopping_at_signals():
            preparation = for_this_shell()
            command = [str(preparation.python), "-m", "haptic_bench", *arguments]
            preparation.prepare(broken, arguments)
        try:
            become(command, preparation.environment())
        except OSError as error:  # there, executable, and no program
            with stopping_at_signals():
                preparation.prepare(f"{command[0]} does not run ({error.strerror})", arguments)
            become(command, preparation.environment())
    except prepare.Refused as error:
        return error.status
    except Stopped as error:
        print(f"haptics: {failures.ENDING[error.number]}", file=sys.stderr)
        return 128 + error.number
    except prepare.PreparationError as error:
        prepare.say(error)
    except OSError as error:
        prepare.say(f"cannot prepare the environment: {error.strerror}: {error.filename or prepare.ROOT}")
    return 1


class Stopped(BaseException):
    """A signal says that this program is to end; no exception that anyone would take for an error."""

    def __init__(self, number):
        super().__init__(number)
        self.number = signal.Signals(number)


@contextlib.contextmanager
def stopping_at_signals():
    """While stages may be made, an ending signal raises Stopped, so that their commands are ended too."""

    def stop(number, frame):
        for one in handled:
            signal.signal(one, signal.SIG_IGN)  # what is ended now shall not be interrupted by a second one
        raise Stopped(number)

    handled = failures.heeded()
    before = [(number, signal.signal(number, stop)) for number in handled]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def become(command, variables):
    """Becomes another program of ours, to which signals that come meanwhile are handed on; see failures.py."""
    failures.hold_signals()
    try:
        os.execve(command[0], command, variables)
    except BaseException:
        failures.end_at_signals()
        raise


def mend(error):
    """After an import has failed: remakes the environment and starts the program anew, if files of it are gone.

    Returns where they are all there: what is wrong then, a new environment would not mend.
    """
    preparation = for_this_shell()
    damage = preparation.damage() if Path(sys.prefix) == preparation.venv else ""
    if not damage:
        return
    if os.environ.get(REPAIRED):
        prepare.say(f"the environment was remade and is broken still: {damage} ({error})")
        sys.exit(1)
    os.environ[REPAIRED] = "1"
    sys.exit(start(sys.argv[1:], damage))


def for_this_shell():
    """The Preparation of the checkout: with the ROS 2 that is sourced, else with wheels."""
    if os.environ.get("ROS_DISTRO"):
        from haptic_bench.set_up import sourced_ros  # needs no time where no ROS 2 is sourced

        ros = sourced_ros.find(prepare.ROOT)
        if ros is not None:
            return sourced_ros.SourcedPreparation(prepare.ROOT, ros)
    return prepare.Preparation(prepare.ROOT)
