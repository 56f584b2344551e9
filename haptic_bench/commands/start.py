"""The start of `./haptics`: it prepares the environment if something is missing, and starts itself again in it.

Standard library only, because the environment may not exist yet.
"""

import os

from haptic_bench.commands import command_line
from haptic_bench.set_up import failures, prepare

USERS_PATH = "HAPTICS_PYTHONPATH"


def start(arguments):
    """Prepares what is missing and becomes the program; returns an exit status where there is no need or no way to.

    Args:
        arguments: of the command line.
    """
    status = command_line.before_preparation(arguments)
    if status is not None:
        return status
    try:
        preparation = for_this_shell()
        preparation.prepare(arguments)
        variables = preparation.environment() | users_path()
        become([str(preparation.python), "-m", "haptic_bench", *arguments], variables)
    except prepare.PreparationError as error:
        prepare.notify(error)
    except OSError as error:
        prepare.notify(f"cannot prepare the environment: {error.strerror}: {error.filename or prepare.ROOT}")
    return failures.FAILED


def users_path():
    """PYTHONPATH as the user has set it, in a variable of its own: see haptic_drivers/devices/parameters.py.

    In the program's PYTHONPATH its packages would hide those of the environment, whatever they are: a sourced ROS 2, a
    conda. From the variable, which is kept where it is set, a driver of a device is looked for after all others.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = os.pathsep.join(os.path.abspath(folder) for folder in given if folder)
    return {} if USERS_PATH in os.environ or not found else {USERS_PATH: found}


def become(command, variables):
    """Becomes another program of ours, to which signals that come meanwhile are handed on; see failures.py."""
    failures.hold_signals()
    try:
        os.execve(command[0], command, variables)
    except BaseException:
        failures.end_at_signals()
        raise


def for_this_shell():
    """The Preparation of the checkout: with the ROS 2 that is sourced, else with wheels."""
    if os.environ.get("ROS_DISTRO"):
        from haptic_bench.set_up import sourced_ros  # needs no time where no ROS 2 is sourced

        sourced = sourced_ros.find(prepare.ROOT)
        if sourced is not None:
            return sourced
    return prepare.Preparation(prepare.ROOT)
