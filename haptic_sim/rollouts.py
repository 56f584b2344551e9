"""Many worlds of one model, advanced under wrenches of their own: in this process, or shared out among forks of it."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from haptic_sim import forks
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import ParameterError
from haptic_sim.simulation import Model, World
from haptic_sim.snapshots import Snapshot

PARTS = 16
"""Parts for each process, which takes one after the other: at the end, a process waits for one part of another."""
MOST_PARTS = forks.MOST
"""There are as many where states are kept: each has 1 MB, long for a message."""


class RolloutError(HapticsError, RuntimeError):
    """A process that advanced some of the worlds has ended before they were; the text says how, and what would do."""

    def __init__(self, process: int | None, code: int | None):
        by = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
        remedy = "if memory is short, take fewer processes or worlds; processes=1 takes none"
        super().__init__(f"rollout: process {process} ended with {by} before its worlds were advanced; {remedy}")


class Rollouts(NamedTuple):
    """Result of `rollout` for N worlds in T steps; all in world axes.

    Attributes:
        times: time at the end of each step, since the start of the world that the first one continues [s], (T,).
        poses: pose of the tool at the hand point after each step: position [m], quaternion x y z w, (N, T, 7).
        twists: twist of the tool there [m/s, rad/s], (N, T, 6).
        wrenches: wrench of the world on the tool in each step [N, N m], (N, T, 6).
        states: state of each world at the end; empty if not requested.
    """

    times: np.ndarray
    poses: np.ndarray
    twists: np.ndarray
    wrenches: np.ndarray
    states: tuple[Snapshot, ...]


def rollout(
    model: Model,
    wrenches: ArrayLike,
    states: Snapshot | Sequence[Snapshot] | None = None,
    *,
    processes: int = 1,
    keep_states: bool = False,
) -> Rollouts:
    """Advance N worlds of a model by T steps each; each has the bits that it has alone.

        worlds = haptic_sim.rollout(model, np.random.normal(size=(1000, 50, 6)), world.state, processes=4)
        best = worlds.poses[:, -1, 2].argmax()

    A process has one world, which it sets to the state of one rollout after the other. Further processes are forks of
    this one, which end with the call. They do not have the other threads of the program, but the locks that these hold:
    start such threads later, or take one process.

    Args:
        model: of all worlds.
        wrenches: on the tool where it is held, in each step, world axes [N, N m], (N, T, 6).
        states: that the worlds begin with: one for all, or one for each; the model's start if left out.
        processes: that the worlds are shared out among; 1: this one.
        keep_states: whether the states at the end are returned: about 1 MB each, which all stay in memory.

    Raises:
        ParameterError: the wrenches are not finite or not (N, T, 6), a state is of a world of another model, or
            `processes` is no whole number from 1 on, or more than 1 in a daemonic process.
        UnstableError: a world cannot go on; the text says which, the first one, and in which step.
        RolloutError: a process was killed.
        MemoryError: the states that are kept do not fit into memory.
    """
    given = np.array(wrenches, float)
    if given.ndim != 3 or given.shape[2] != 6 or not np.isfinite(given).all():
        raise ParameterError([f"wrenches of shape {given.shape}: must be finite numbers (N, T, 6) [N, N m]"])
    count, steps, _ = given.shape
    many = states is not None and not isinstance(states, Snapshot)
    if many and len(states) != count:  # type: ignore[arg-type]
        raise ParameterError([f"states: {len(states)} given, {count} rollouts: must be one, or one for each"])  # type: ignore[arg-type]
    if isinstance(processes, bool) or not isinstance(processes, int | np.integer) or processes < 1:
        raise ParameterError([f"processes = {processes!r}: must be a whole number, at least 1"])
    if processes > 1 and multiprocessing.current_process().daemon:
        reason = "as a worker of multiprocessing.Pool, which may have no processes of its own"
        raise ParameterError([f"processes = {processes}: must be 1 in a daemonic process, {reason}"])
    world = World(model)
    core, tool = world._core, world._core.state
    start = world.state
    starts: Sequence[Snapshot] = states if many else [states or start] * count  # type: ignore[assignment,list-item]
    poses, twists, felt = (np.zeros((count, steps, width)) for width in (7, 6, 6))
    kept: list[Snapshot] = [start] * count if keep_states else []

    def advance(i: int) -> None:
        world.state = starts[i]
        for k in range(steps):
            try:
                core.advance(given[i, k])
            except UnstableError as error:
                raise UnstableError(f"rollout {i}, step {k}: {error}") from error
            poses[i, k], twists[i, k], felt[i, k] = tool.pose, tool.twist, tool.wrench
        if keep_states:
            kept[i] = world.state

    done = 0
    try:
        if min(processes, count) > 1 and steps:
            with contextlib.suppress(HapticsError):  # which is raised below
                world.state = starts[0]
                core.advance(given[0, 0])  # kernels are compiled before there are forks, which would all do so again
            done = _share_out(advance, (poses, twists, felt, kept), count, min(int(processes), count), keep_states)
        for i in range(done, count):
            advance(i)
    except MemoryError as error:
        if not keep_states:
            raise
        size = sum(array.nbytes for array in start.arrays.values()) / 1e6
        raise MemoryError(
            f"rollout: {count} states of {size:.1f} MB, which keep_states=True keeps, do not fit into memory: take "
            "fewer worlds, or keep_states=False and roll the worlds that matter out again"
        ) from error
    world.state = starts[0] if count else start
    times = world.time + np.arange(1, steps + 1) / model.rate
    return Rollouts(times, poses, twists, felt, tuple(kept))


def _share_out(advance: Callable[[int], None], results: Sequence[Any], count: int, processes: int, keeps: bool) -> int:
    """Let forks call a function of each world, and take over what that fills in in `results`, by worlds.

    Returns:
        the first world that failed, in which it fails here, too; all before it are done. `count` if none did.

    Raises:
        RolloutError: a fork was killed.
    """
    size = math.ceil(count / (MOST_PARTS if keeps else min(PARTS * processes, MOST_PARTS)))

    def work(numbers: forks.Numbers, send: Callable[[Any], None]) -> None:
        """Parts are taken in their order, so that all before one that fails are finished."""
        for number in numbers:
            begin, failed = size * number, False
            end = min(begin + size, count)
            for i in range(begin, end):
                try:
                    advance(i)
                except Exception:  # the parent does it again, which raises its error
                    end, failed = i, True
                    numbers.drop()
                    break
            send((begin, end, failed, [result[begin:end] for result in results]))

    first = count
    with forks.begun(work, math.ceil(count / size), processes) as (_, begun):
        working = dict(begun)
        while working:
            for ready in connection.wait(list(working)):
                try:
                    begin, end, failed, found = cast(Any, ready).recv()
                except forks.ENDED:
                    fork = working.pop(ready)
                    fork.join()
                    if fork.exitcode:
                        raise RolloutError(fork.pid, fork.exitcode) from None
                    continue
                for result, part in zip(results, found, strict=True):
                    result[begin:end] = part
                if failed:
                    first = min(first, end)
    return first
