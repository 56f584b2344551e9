"""The function of the command point."""

from __future__ import annotations

import argparse
import os

from haptic_bench.commands.command_line import DONE
from haptic_bench.commands.options import number
from haptic_bench.running import namespaces
from haptic_bench.running.runner import Interruption
from haptic_drivers.events import read_events
from haptic_drivers.sticks import SourceError
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError


def point(options: argparse.Namespace) -> int:
    """`haptics point keyboard|gamepad|spacemouse|FILE`."""
    from haptic_bench.nodes import pointing  # needs ROS

    namespace = f"/{namespaces.checked(options.namespace)}"
    source, device = options.source, options.device or ""
    wait = number("--wait", options.wait)
    wait = pointing.FOUND if wait is None else wait
    if device and source != "gamepad":
        raise ParameterError([f"--device {inputs.shown(device)}: is for a gamepad; leave it out"])
    table = None
    if source not in pointing.SOURCES:
        if not os.path.isfile(source):
            known = ", ".join(pointing.SOURCES)
            raise ParameterError([f"{inputs.shown(source)}: must be one of {known}, or a file of events"])
        try:
            table = read_events(inputs.read_text(source, inputs.DATA).splitlines(), source)
        except inputs.InputError as error:
            raise ParameterError([f"{inputs.shown(source)}: {error}"]) from error
    with Interruption() as interruption:
        try:
            if table is None:
                pointing.point(source, device, namespace, interruption.event, wait)
            else:
                pointing.play_events(table, namespace, interruption.event, wait)
        except SourceError as error:
            raise ParameterError([str(error)]) from error
        return interruption.status if interruption else DONE
