"""Many worlds of one model, in this process and in forks of it: each moves as it does alone."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FORKS, ROOT

import haptic_sim
from haptic_sim import Environment, Model, World, rollout, rollouts
from haptic_sim.contact.response import ContactParameters
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.errors import HapticsError
from haptic_sim.parameters import ParameterError
from haptic_sim.rollouts import RolloutError

BOXES: dict[str, Any] = {
    "tool": "upper",
    "bodies": {
        "floor": {"joint": "fixed", "shapes": [{"type": "plane"}]},
        "lower": {
            "joint": "free",
            "mass": 0.5,
            "position": [0.0, 0.0, 0.05],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        },
        "upper": {
            "joint": "free",
            "mass": 0.5,
            "position": [0.0, 0.0, 0.15],
            "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}],
        },
    },
}
ALONE = BOXES | {"tool": "lower", "bodies": {name: BOXES["bodies"][name] for name in ("floor", "lower")}}


def pushes(count: int, steps: int) -> np.ndarray:
    return np.random.default_rng(20260).normal(scale=2.0, size=(count, steps, 6)) * [1, 1, 1, 0.1, 0.1, 0.1]


def arm() -> Model:
    """That MuJoCo simulates."""
    pytest.importorskip("mujoco")
    return haptic_sim.load(ROOT / "examples" / "arm.urdf", engine="mujoco", tool="lower")


def children() -> set[str]:
    """Processes that this thread has started and not waited for; those of other tests are among them."""
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def runs(process: str) -> bool:
    """Whether a process has not ended, whoever waits for it."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def none_is_left(processes: set[str]) -> bool:
    """Whether processes end, which they may be about to do."""
    end = time.monotonic() + 60.0
    while any(map(runs, processes)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(runs, processes))


def in_forks(monkeypatch: pytest.MonkeyPatch, call: Callable[[int], None]) -> None:
    """Let forks call something before they advance a world, of its number."""
    here, share_out = os.getpid(), rollouts._share_out

    def shared(advance: Callable[[int], None], *arguments: Any) -> int:
        def advance_after(i: int) -> None:
            assert os.getpid() != here
            call(i)
            advance(i)

        return share_out(advance_after, *arguments)

    monkeypatch.setattr(rollouts, "_share_out", shared)


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("scene", [ALONE, BOXES], ids=["alone", "stacked"])
def test_each_moves_as_it_does_alone(scene: dict[str, Any], processes: int) -> None:
    """Contacts between bodies that coal measures, too; with fresh worlds, bit by bit."""
    model, wrenches = Model(scene, environment={"method": "constraint"}), pushes(6, 40)
    found = rollout(model, wrenches, processes=processes, keep_states=True)
    for i in range(6):
        world = World(model)
        for k in range(40):
            world.step(wrenches[i, k])
            np.testing.assert_array_equal(found.poses[i, k], world.pose)
            np.testing.assert_array_equal(found.twists[i, k], world.twist)
            np.testing.assert_array_equal(found.wrenches[i, k], world.wrench)
        assert found.states[i] == world.state
    np.testing.assert_allclose(found.times, np.arange(1, 41) / 1000.0)


@pytest.mark.exhaustive
def test_a_thousand_worlds_share_a_model() -> None:
    """From one state for all; against a world that is set back to it each time."""
    model, wrenches = Model(ALONE, environment={"method": "penalty"}), pushes(1000, 10)
    world = World(model)
    for _ in range(30):
        world.step()
    state = world.state
    found = rollout(model, wrenches, state, processes=4)
    for i in range(1000):
        world.state = state
        for wrench in wrenches[i]:
            world.step(wrench)
        np.testing.assert_array_equal(found.poses[i, -1], world.pose)
    assert found.times[0] == pytest.approx(0.031) and found.states == ()


def test_they_go_on_from_states_of_their_own() -> None:
    model, wrenches = Model(BOXES, environment={"method": "constraint"}), pushes(5, 20)
    whole = rollout(model, wrenches, processes=2)
    half = rollout(model, wrenches[:, :10], keep_states=True, processes=2)
    rest = rollout(model, wrenches[:, 10:], half.states, processes=2)
    np.testing.assert_array_equal(np.concatenate([half.poses, rest.poses], axis=1), whole.poses)


@pytest.mark.parametrize("processes", [1, 2])
def test_worlds_of_mujoco_are_rolled_out_too(processes: int) -> None:
    model, wrenches = arm(), pushes(4, 30)
    found = rollout(model, wrenches, processes=processes, keep_states=True)
    for i in (0, 3):
        world = World(model)
        for wrench in wrenches[i]:
            world.step(wrench)
        np.testing.assert_array_equal(found.poses[i, -1], world.pose)
        assert found.states[i] == world.state


@pytest.mark.parametrize("method", ["penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"])
def test_states_can_be_pickled(method: str) -> None:
    """And go on alike; a state of MuJoCo is sent by processes above."""
    world = World(Model(ALONE, environment={"method": method}))
    for wrench in pushes(1, 5)[0]:
        world.step(wrench)
    state, other = world.state, World(world.model)
    other.state = pickle.loads(pickle.dumps(state))
    assert other.state == state
    for one in (world, other):
        one.step([1.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    assert world.state == other.state


def test_a_state_brings_its_material_along() -> None:
    """Back to that before a change, and to that after it in another environment."""
    ice = ContactParameters.model_validate({"friction": {"model": "none"}})
    rough = ContactParameters.model_validate({"friction": {"model": "reset_integrator", "static": 0.5, "kinetic": 0.5}})
    start, push = Model(ALONE).start, [1.0, 0.0, -1.0, 0.0, 0.0, 0.0]

    def go_on(environment: Environment) -> float:
        for _ in range(50):
            environment.advance(push)
        return float(environment.state.pose[0])

    one, other = Environment(start, rough), Environment(start, rough)
    before = one.snapshot()
    held = go_on(one)
    one.restore(before)
    one.configure(ice)
    after = one.snapshot()
    slid = go_on(one)
    assert slid > held + 1e-3
    one.restore(before)
    other.restore(after)
    assert (go_on(one), go_on(other)) == (held, slid)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"wrenches": np.zeros((3, 6))}, r"wrenches of shape \(3, 6\): must be finite numbers \(N, T, 6\)"),
        ({"wrenches": np.full((1, 1, 6), np.nan)}, "must be finite"),
        ({"wrenches": np.zeros((3, 2, 6)), "states": []}, "states: 0 given, 3 rollouts"),
        *(
            (
                {"wrenches": np.zeros((3, 2, 6)), "processes": given},
                f"processes = {given!r}: must be a whole number, at least 1",
            )
            for given in (0, -1, 1.5, True, "2", None)
        ),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        rollout(Model(ALONE), **arguments)


def test_no_worlds_and_no_steps_are_nothing() -> None:
    assert rollout(Model(ALONE), np.zeros((0, 3, 6))).poses.shape == (0, 3, 7)
    assert rollout(Model(ALONE), np.zeros((2, 0, 6))).poses.shape == (2, 0, 7)


def test_there_may_be_more_processes_than_worlds() -> None:
    wrenches = pushes(2, 3)
    found = rollout(Model(ALONE), wrenches, processes=np.int64(5))
    np.testing.assert_array_equal(found.poses, rollout(Model(ALONE), wrenches).poses)
    assert rollout(Model(ALONE), np.zeros((0, 3, 6)), processes=2).poses.shape == (0, 3, 7)
    assert rollout(Model(ALONE), np.zeros((2, 0, 6)), processes=2).poses.shape == (2, 0, 7)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_first_world_that_is_unstable_is_named(processes: int) -> None:
    """Whichever process is the first to meet one."""
    wrenches, before = np.zeros((9, 30, 6)), children()
    for i, k in ((4, 20), (5, 2), (7, 0)):
        wrenches[i, k:] = 1e13
    with pytest.raises(UnstableError, match=r"^rollout 4, step \d+: unstable"):
        rollout(arm(), wrenches, processes=processes)
    assert children() <= before


def test_a_state_of_another_model_is_refused_by_processes_too() -> None:
    states = [World(Model(ALONE)).state] * 4
    states[2] = World(Model(BOXES)).state
    with pytest.raises(ParameterError, match="must be of a world of the same model"):
        rollout(Model(ALONE), np.zeros((4, 3, 6)), states, processes=2)


def test_what_fails_in_a_fork_alone_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a fork has no memory left."""

    def fail(i: int) -> None:
        if i in (3, 6):
            raise MemoryError

    in_forks(monkeypatch, fail)
    wrenches = pushes(8, 5)
    found = rollout(Model(ALONE), wrenches, processes=2, keep_states=True)
    alone = rollout(Model(ALONE), wrenches, keep_states=True)
    np.testing.assert_array_equal(found.poses, alone.poses)
    assert found.states == alone.states


@pytest.mark.parametrize("error", [ParameterError(["two", "problems"]), RolloutError(7, -9)], ids=["two", "killed"])
def test_errors_can_be_pickled(error: HapticsError) -> None:
    """With their texts and attributes: so a pool of processes passes them on."""
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_a_daemonic_process_is_told_to_take_none() -> None:
    """As a worker of multiprocessing's Pool is, in the words that the worker sends back."""
    with FORKS.Pool(1) as pool:  # a fork of this process may have a lock of one of its threads, and never end
        found = pool.apply(rollout, (Model(ALONE), np.zeros((4, 3, 6))))
        assert found.poses.shape == (4, 3, 7)
        with pytest.raises(ParameterError, match=r"processes = 2: must be 1 in a daemonic process"):
            pool.apply(rollout, (Model(ALONE), np.zeros((4, 3, 6))), {"processes": 2})


THREADS = """
import threading
import numpy as np
from haptic_sim import Model, rollout
bodies = {"box": {"joint": "free", "mass": 1.0, "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}]}}
model, wrenches = Model({"tool": "box", "bodies": bodies}), np.zeros((8, 5, 6))
rollout(model, wrenches)
for _ in range(3):
    threads = [threading.Thread(target=rollout, args=(model, wrenches), kwargs={"processes": 2}) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_forks_of_several_threads_do_not_wait_for_each_other() -> None:
    """A fork may not hold what ends a pipe of the others', which would end only after it."""
    program = subprocess.Popen([sys.executable, "-c", THREADS], start_new_session=True)
    try:
        assert program.wait(120.0) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def test_a_process_that_is_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are ended, one that would never end, too."""
    before = children()

    def kill(i: int) -> None:
        if i == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if i > 3:
            signal.pause()

    in_forks(monkeypatch, kill)
    with pytest.raises(RolloutError, match=r"process \d+ ended with SIGKILL before .* take fewer processes"):
        rollout(Model(ALONE), pushes(8, 5), processes=3)
    assert children() <= before


def test_an_interrupt_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that is in the middle of a part."""
    before, here = children(), os.getpid()

    def interrupt(i: int) -> None:
        if i == 2:
            os.kill(os.getpid(), signal.SIGINT)  # as a terminal does to all; the parent's affair
            os.kill(here, signal.SIGINT)
        if i >= 2:
            signal.pause()

    in_forks(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        rollout(Model(ALONE), pushes(8, 5), processes=2)
    assert none_is_left(children() - before)


def test_an_interrupt_while_forks_are_started_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that is known nor one that is not yet, which advances no world."""
    before, fork = children(), os.fork

    def interrupted() -> int:
        if (process := fork()) and len(children() - before) == 2:
            raise KeyboardInterrupt
        return process

    monkeypatch.setattr(os, "fork", interrupted)
    in_forks(monkeypatch, lambda i: signal.pause())
    with pytest.raises(KeyboardInterrupt):
        rollout(Model(ALONE), pushes(8, 5), processes=3)
    assert none_is_left(children() - before)


SHORT = """
import resource, sys
import numpy as np
from haptic_sim import Model, rollout
bodies = {"box": {"joint": "free", "mass": 1.0, "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}]}}
model, processes = Model({"tool": "box", "bodies": bodies}), int(sys.argv[1])
rollout(model, np.zeros((2, 1, 6)), processes=processes, keep_states=True)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27,) * 2)
rollout(model, np.zeros((100_000, 1, 6)), processes=processes, keep_states=True)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("processes", [1, 2])
def test_states_that_do_not_fit_into_memory_are_an_error_that_says_so(processes: int) -> None:
    """It had no text, or that of an array of some kilobytes."""
    program = [sys.executable, "-c", SHORT, str(processes)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120.0)
    said = (
        r"MemoryError: rollout: 100000 states of \d\.\d MB, which keep_states=True keeps, do not fit into memory: take"
    )
    assert done.returncode == 1 and re.search(said, done.stderr), done.stderr


ORPHANS = """
import os, signal, sys, time
import numpy as np
from haptic_sim import Model, rollout, rollouts
share_out = rollouts._share_out

def shared(advance, *arguments):
    def advance_slowly(i):
        os.write(1, f"{os.getpid()}\\n".encode())  # at once
        time.sleep(0.02)
    return share_out(advance_slowly, *arguments)

rollouts._share_out = shared
bodies = {"box": {"joint": "free", "mass": 1.0, "shapes": [{"type": "box", "size": [0.1, 0.1, 0.1]}]}}
rollout(Model({"tool": "box", "bodies": bodies}), np.zeros((1_000_000, 1, 6)), processes=2, keep_states=True)
"""


@pytest.mark.exhaustive
def test_no_fork_outlives_its_parent() -> None:
    """Which was killed; each ends with its part."""
    program = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    found = set[str]()
    while len(found) < 2:
        found.add(program.stdout.readline().strip())
    program.kill()
    program.wait()
    assert none_is_left(found)
