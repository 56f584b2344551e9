"""The function of the command view, and what `run --view` shares with it."""

from __future__ import annotations

import argparse
import ipaddress
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.experiment.system import args_of, is_world_file, load_given
from haptic_bench.recording.frames import read_frames
from haptic_bench.recording.summary import read_summary, runs_of
from haptic_bench.running import namespaces
from haptic_bench.running.graph import require_ros
from haptic_bench.running.runner import Interruption
from haptic_bench.running.viewing import Viewer, Viewing
from haptic_bench.trials.viewed import run_viewed
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, listed
from haptic_view.controls import Player
from haptic_view.page import HOST, Page, free_port, require_viser
from haptic_view.viewpoint import of_trial

POLL = 0.5  # [s] between two looks whether a trial still runs


def view(options: argparse.Namespace) -> int:
    """`haptics view [EXPERIMENT|FILE|NAMESPACE|DIR]`."""
    if options.directory is not None:
        return _view_recorded(options)
    running = namespaces.claimed()
    if options.namespace is None and (options.target is None or options.target.strip("/") in running):
        return _view_running(options, chosen(options.target, running))
    if options.target is None:
        raise ParameterError(["view: names no experiment; add one, or leave --namespace out to see what runs"])
    one, *others = load_given(
        options.target, options.settings, options.duration, args_of(options.args), tuple(options.packages)
    )
    if others:
        raise ParameterError(["view: shows one trial; give no list of values"])
    for note in one.notes if is_world_file(options.target) else ():
        print(f"haptics: {note}", file=sys.stderr)
    if options.namespace is None and (same := same_world(one.experiment.namespace, running)):
        return _view_running(options, chosen(None, same))
    mode = options.mode or "realtime"
    check(one, mode)
    namespace = "" if options.namespace is None else namespaces.checked(options.namespace)
    viewing = place(options, controlled=True, paused=True)
    for name in running:
        print(f"haptics: /{name} runs, too; `haptics view {name}` shows it", file=sys.stderr)
    with Interruption() as interruption:
        return run_viewed(one, mode, interruption, viewing, composed=options.composed, namespace=namespace)


def chosen(target: str | None, running: Sequence[str]) -> str:
    """The namespace whose trial is to be seen, of those that run.

    Raises:
        ParameterError: there is none, or several and none is named.
    """
    if target is not None:
        return target.strip("/")
    if not running:
        raise ParameterError(["view: nothing runs on this machine; name an experiment, or the directory of a trial"])
    if len(running) > 1:
        names = ", ".join(running)
        raise ParameterError([f"view: {len(running)} trials or systems run; name one of {names} (haptics view NAME)"])
    return running[0]


def same_world(namespace: str, running: Sequence[str]) -> list[str]:
    """Names of the running namespaces that are an experiment's own: its namespace, or that with a number behind it."""
    return [name for name in running if re.fullmatch(rf"{re.escape(namespace)}(_\d+)?", name)]


def _view_running(options: argparse.Namespace, namespace: str) -> int:
    """Show what runs in a namespace, until it ends; it does not depend on who looks."""
    _refuse_settings(options, f"/{namespace} runs already; leave it out, or add --namespace NAME to run another")
    require_viser()
    viewing = place(options, attached=True)
    with (
        Interruption() as interruption,
        tempfile.TemporaryDirectory(prefix="haptics-view-") as scratch,
        Viewer(viewing, Path(scratch), f"/{namespace}") as viewer,
    ):
        if problem := viewer.wait(interruption.event):
            raise ParameterError([f"/{namespace} cannot be shown: {problem}"])
        if not interruption:
            print(f"{viewer.address}  /{namespace}, which runs; Ctrl-C ends the view alone", flush=True)
        while not interruption and not viewer.ended:
            if namespace not in namespaces.claimed():
                print(f"haptics: /{namespace} has ended", file=sys.stderr)
                return DONE
            interruption.event.wait(POLL)
        return interruption.status if interruption else FAILED


def check(one: experiment.Trial, mode: str) -> None:
    """Refuse what cannot be seen while it runs.

    Raises:
        ParameterError: see above.
    """
    require_viser()
    if mode == "offline":
        raise ParameterError(["--mode offline: has no nodes to view; `haptics view DIR` shows the result"])
    require_ros("--mode offline runs a trial without it, and `haptics view DIR` shows its result")
    if analysis_of(one.experiment).OFFLINE_ONLY:
        raise ParameterError([f"{one.experiment.name}: has no ticks, it runs offline only; there is nothing to see"])


def place(options: argparse.Namespace, **how: Any) -> Viewing:
    """Address of the page; prints a warning if others can reach it.

    Raises:
        ParameterError: there it cannot be.
    """
    host = options.host or HOST
    port = None
    if options.port is not None:
        try:
            value = inputs.number(options.port)
        except inputs.InputError as error:
            raise ParameterError([f"--port {inputs.shown(options.port)}: {error}"]) from error
        if not (value.is_integer() and 1 <= value <= 65535):
            raise ParameterError([f"--port {inputs.shown(options.port)}: must be a whole number from 1 to 65535"])
        port = int(value)
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        raise ParameterError(
            [f"--host {inputs.shown(host)}: must be an address of this machine, as 127.0.0.1"]
        ) from None
    if not parsed.is_loopback:
        where = "every address of this machine" if parsed.is_unspecified else host
        print(
            f"haptics: --host {host}: whoever reaches {where} and has the printed address can see and control the "
            "trial; it comes there without encryption",
            file=sys.stderr,
        )
    return Viewing(host, free_port(host, port), **how)


def _refuse_settings(options: argparse.Namespace, why: str) -> None:
    """Refuse what is for a trial that is to be run.

    Raises:
        ParameterError: it is given.
    """
    given = {
        "--mode": options.mode is not None,
        "--set": bool(options.settings),
        "--duration": options.duration is not None,
        "--composed": options.composed,
        "--namespace": options.namespace is not None,
    }
    if any(given.values()):
        named = ", ".join(name for name, is_given in given.items() if is_given)
        raise ParameterError([f"{named}: for a trial that the view runs itself; {why}"])


def _view_recorded(options: argparse.Namespace) -> int:
    directory = Path(options.directory)
    summary = read_summary(directory)
    _refuse_settings(options, f"{directory} is recorded; leave it out")
    if "sweep" in summary:
        runs = [path.name for path in runs_of(directory, summary).values()]
        raise ParameterError([f"{directory}: is a sweep; choose one of its runs: {listed(runs, 5)}"])
    require_viser()
    viewing = place(options)
    with Interruption() as interruption:
        trial, frames = read_frames(directory)
        for note in frames.scene.notes:
            print(f"haptics: {note}", file=sys.stderr)
        page = Page(frames.scene, viewing.host, viewing.port, max(frames.greatest_force(), 1e-6), of_trial(frames).away)
        print(f"{page.address}  {trial.experiment.name}, recorded; Ctrl-C ends it", flush=True)
        Player(page, frames).run(interruption.event)
        page.stop()
        return interruption.status if interruption else DONE
