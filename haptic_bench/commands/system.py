"""The function of the command start: a system that runs until it is stopped. command_line.py declares its options."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from haptic_bench.analysis.base import analysis_of
from haptic_bench.commands.command_line import DONE, FAILED
from haptic_bench.commands.view import place
from haptic_bench.experiment.system import POINTED, args_of, held_by_default, load_system
from haptic_bench.running import namespaces
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_bench.trials.viewed import run_viewed
from haptic_sim.parameters import ParameterError

LONGEST_RECORD = 3600.0  # [s]


def start(options: argparse.Namespace) -> int:
    """`haptics start WORLD`."""
    given = [world for world in (options.world, options.given_world) if world is not None]
    if len(given) != 1:
        raise ParameterError([f"start: {len(given)} worlds are given; give one, by name or as a file"])
    one = load_system(given[0], options.device, options.settings, args_of(options.args), tuple(options.packages))
    experiment = one.experiment
    for note in one.notes:
        print(f"haptics: {note}", file=sys.stderr)
    if held_by_default(given[0], options.settings):
        print(
            f"haptics: the device holds {getattr(experiment.scene, 'tool', '')}; --set scene.tool=BODY holds another",
            file=sys.stderr,
        )
    if analysis_of(experiment).OFFLINE_ONLY:
        raise ParameterError([f"world {experiment.name}: has no ticks; it runs offline only, with `haptics run`"])
    if options.composed and experiment.hands:
        raise ParameterError(["--composed: supports one hand only; leave it out"])
    namespace = "" if options.namespace is None else namespaces.checked(options.namespace)
    if options.side and options.record:
        raise ParameterError(["--side, --record: the recorder records a whole graph; leave one of them out"])
    if options.record:
        longest = experiment.model_copy(update={"duration": LONGEST_RECORD})
        one = replace(one, experiment=longest, built=one.start)
    if options.device in POINTED:  # they need a page, on which the hand is moved
        if options.record or options.side:
            raise ParameterError([f"--device {options.device}: is a page; `haptics run WORLD --view` records a trial"])
        longest = experiment.model_copy(update={"duration": LONGEST_RECORD})
        one = replace(one, experiment=longest, built=one.start)
        viewing = place(argparse.Namespace(host=None, port=None), controlled=True, paused=True)
        with Interruption() as interruption:
            return run_viewed(one, "realtime", interruption, viewing, composed=options.composed, namespace=namespace)
    directory = trial.new_directory(options.out, experiment.namespace)
    with Interruption() as interruption:
        if options.record:
            summary = trial.run_trial(
                one, "realtime", directory, interruption, composed=options.composed, namespace=namespace
            )
            failed, reason = summary["status"] == "failed", summary.get("reason", "")
        else:
            outcome = trial.run_system(
                one,
                directory,
                interruption,
                composed=options.composed,
                namespace=namespace,
                restart=not options.no_restart,
                side=options.side,
            )
            failed, reason = outcome.status == "failed", outcome.reason
    print(directory)
    if failed:
        print(f"haptics: {reason}", file=sys.stderr)
    return FAILED if failed else DONE
