"""Trials of a pointer: its events are recorded with the ticks in which they took effect, and simulate again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import Haptics, answer, sampled, wait_until
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.recording import bag, trial_bag
from haptic_bench.recording.recording import Recording
from haptic_bench.recording.samples import Samples
from haptic_bench.recording.summary import read_summary
from haptic_bench.replay.verification import verify, with_recorded_events
from haptic_bench.running.runner import Interruption
from haptic_bench.trials import trial
from haptic_drivers.events import EVENT_COLUMNS, recorded_events, write_events
from haptic_drivers.pointing import AT_REST, Sender
from haptic_sim.messages import GRAB, MOVE, RELEASE, OperatorEvent
from haptic_sim.parameters import ParameterError

RATE = 512.0  # [Hz] of corner_peg
RELEASED = 0.3  # [s]


def events_file(path: Path) -> str:
    """A hand that is dragged to the right and turned, and let go."""
    rows = [[0.05, GRAB, 1, -1, 0.0, 0.02, 0.0, *AT_REST]]
    for time in np.arange(0.1, RELEASED, 0.05):
        angle = 0.5 * float(time)
        pose = (0.1 * time, -0.02 * time, 0.0, 0.0, 0.0, math.sin(angle), math.cos(angle))
        rows.append([time, MOVE, 1, -1, 0.0, 0.02, 0.0, *pose])
    rows.append([RELEASED, RELEASE, 0, -1, 0.0, 0.0, 0.0, *AT_REST])
    path.write_text(write_events(np.array(rows)), encoding="utf-8")
    return str(path)


def run(directory: Path, name: str, *settings: str) -> Samples:
    [one] = experiment.load(name, settings)
    directory.mkdir()
    summary = trial.run_trial(one, "offline", directory, Interruption())
    assert summary["status"] == "done"
    return Samples.read_csv(directory / "samples.csv")


@pytest.mark.long
@pytest.mark.parametrize("name", sampled(["corner_peg", "incline", "rolling_disk"], "corner_peg"))
def test_a_trial_by_hand_verifies_and_runs_again_from_its_events(name: str, tmp_path: Path) -> None:
    """With a device, without one, and under exact constraints."""
    given = events_file(tmp_path / "given.csv")
    samples = run(tmp_path / "first", name, f"operator={{type: pointer, events: {given}}}", "duration=0.4")
    assert verify(tmp_path / "first").problem == ""
    operator = samples.wrench("operator")
    ticks = np.flatnonzero(operator[:, :3].any(axis=1))
    time, fall = samples["time"], 10.0 / 500.0  # [s] bound and its rate
    assert 0.05 <= time[ticks[0]] < 0.2
    assert RELEASED - 0.01 < time[ticks[-1]] < RELEASED + fall + 0.01
    recorded = tmp_path / "first" / "events.csv"
    again = run(tmp_path / "again", name, f"operator={{type: pointer, events: {recorded}}}", "duration=0.4")
    for column in samples.names:
        np.testing.assert_array_equal(again[column], samples[column])
    assert recorded.read_text() == (tmp_path / "again" / "events.csv").read_text()


@pytest.mark.exhaustive
def test_what_was_recorded_of_the_pointer_decides(tmp_path: Path) -> None:
    """Also over a file that has changed; without one of the events the trial is another."""
    given = events_file(tmp_path / "given.csv")
    samples = run(tmp_path / "one", "corner_peg", f"operator={{type: pointer, events: {given}}}", "duration=0.3")
    resolved = experiment.read_resolved(tmp_path / "one" / "experiment.yaml")
    messages = dict(trial_bag.read_messages(tmp_path / "one"))
    assert len(messages["operator_events"]) == 6
    for changed in (False, True):
        if changed:
            del messages["operator_events"][3]
        again = run_unrecorded(with_recorded_events(resolved, messages))
        same = [np.array_equal(again[name], samples[name]) for name in ("hand_px", "operator_fx", "tool_px")]
        assert same == 3 * [not changed]


def test_offline_a_person_is_missing(tmp_path: Path) -> None:
    [one] = experiment.load("corner_peg", ["operator={type: pointer}"])
    with pytest.raises(ParameterError, match=r"operator.events = null: .* on the page of `haptics view EXPERIMENT`"):
        trial.run_trial(one, "offline", tmp_path, Interruption())


def test_a_pointer_is_for_the_first_hand() -> None:
    with pytest.raises(ParameterError, match=r"hands\[0\].operator.type = pointer: only the first hand's"):
        experiment.load("two_hands", ["hands[0].operator={type: pointer}"])


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"operator.events = .*nowhere.csv: cannot be read"):
        experiment.load("corner_peg", ["operator={type: pointer, events: nowhere.csv}"])
    (tmp_path / "x.csv").write_text(",".join(EVENT_COLUMNS) + "\n0.1,shake\n")
    with pytest.raises(ParameterError, match=r"x.csv, line 2: '0.1,shake': must be a time"):
        experiment.load("corner_peg", [f"operator={{type: pointer, events: {tmp_path / 'x.csv'}}}"])


def test_an_event_is_stored_once_with_its_tick_before_the_rest_of_it() -> None:
    written: list[tuple[str, int, bytes]] = []

    def write(time: int, topics: tuple[str, ...], messages: Sequence[bytes]) -> None:
        written.extend((topic, time, data) for topic, data in zip(topics, messages, strict=True))

    recording = Recording(write, 512.0, topics=("tool_command", "tool_state"))

    def message(tick: int) -> bytes:
        made = OperatorEvent()
        made.stamp(tick, round(tick * 1e9 / 512.0))
        return made.to_bytes()

    for tick in (-1, 0, 1):
        if tick == 1:
            recording.add("operator_events", 1, message(1))
            recording.add("operator_events", 1, message(1))
        for topic in ("tool_command", "tool_state") if tick >= 0 else ("tool_state",):
            recording.add(topic, tick, message(tick + (topic == "tool_state")))
    recording.add("operator_events", 0, message(0))  # late: it is not lost
    recording.close()
    assert [topic for topic, _, _ in written].count("operator_events") == 2
    assert written[3][0] == "operator_events" and written[3][1] == written[4][1] == round(1e9 / 512.0)
    assert written[-1][0] == "operator_events"


# A person, and the running graph


@pytest.mark.exhaustive
def test_a_hand_is_dragged_in_realtime_and_the_trial_verifies(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    """Events of two persons and of nobody known: the first who grabs holds, what cannot be followed lets go."""
    pytest.importorskip("rclpy", reason="needs ROS 2")
    messages = pytest.importorskip("haptics.msg", reason="needs the built messages")
    import graph_checks as graph
    from rclpy.qos import QoSProfile, ReliabilityPolicy

    out = tmp_path / "o"
    settings = ("operator={type: pointer}", "health.missed_share=1", "rate=250", "duration=5")
    arguments = [part for setting in settings for part in ("--set", setting)]
    process = haptics("run", "corner_peg", *arguments, "--mode", "realtime", "--out", str(out))
    taken: list[OperatorEvent] = []
    with graph.observer() as node:
        reliable = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
        publisher = node.create_publisher(messages.OperatorEvent, "/corner_peg/operator_events_in", reliable)

        def take(data: bytes) -> None:
            event = OperatorEvent()
            event.load(data)
            taken.append(event)

        node.create_subscription(messages.OperatorEvent, "/corner_peg/operator_events", take, reliable, raw=True)
        wait_until(lambda: publisher.get_subscription_count() > 0 and graph.started(out)(), "the trial")
        one, other = Sender(publisher.publish), Sender(publisher.publish)
        one.grab()
        wait_until(lambda: len(taken) == 1, "the grab")
        other.grab()
        for k in range(5):
            one.move((0.002 * k, 0, 0, 0, 0, 0, 1))
            wait_until(lambda k=k: len(taken) == 2 + k, "a move")
        one.move((math.nan, 0, 0, 0, 0, 0, 1))
        wait_until(lambda: taken[-1].phase == RELEASE, "the release")
        one.holds = False
        other.grab()
        wait_until(lambda: taken[-1].phase == GRAB, "the other's grab")
        other.move((0.004, 0, 0, 0, 0, 0, 1))
        wait_until(lambda: taken[-1].phase == MOVE, "the other's move")
    assert process.wait() == 0, process.err
    recorded = recorded_events(bag.read(out / "bag")["/corner_peg/operator_events"].messages, 250.0)
    assert recorded[:, 1].astype(int).tolist() == [GRAB, *(5 * [MOVE]), RELEASE, GRAB, MOVE]
    summary = read_summary(out)
    assert summary["timing"]["refused"] >= 1
    samples = Samples.read_csv(out / "samples.csv")
    force = np.abs(samples.wrench("operator")).max(axis=1)
    assert force.max() > 0.0
    # nobody repeats the other's sign: after the patience, and the time of the fall, there is no force
    end = recorded[-1, 0] + 0.5 + 10.0 / 500.0 + 0.02
    assert not force[samples["time"] > end].any() and (samples["time"] > end).any()
    verified = answer("replay", str(out), "--verify")
    assert verified.status == 0 and "identical" in verified.out, verified.err + verified.out
    [again] = experiment.load("corner_peg", [f"operator={{type: pointer, events: {out / 'events.csv'}}}"])
    assert again.table is not None
    np.testing.assert_array_equal(again.table, recorded)
