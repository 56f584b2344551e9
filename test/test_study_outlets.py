"""Codes of events, the outlets that send them, and the tables that have them."""

from __future__ import annotations

import csv
import json
import os
import sys
import termios
import time
import types
from pathlib import Path
from typing import Any

import pytest
from study_sessions import document, event_of, run, small

from haptic_sim.parameters import ParameterError
from haptic_study import outlets, tables
from haptic_study.codes import DEFAULTS, Mark, code_of
from haptic_study.dataset import Dataset
from haptic_study.file import study_of
from haptic_study.outlets import OutletError, Parallel, Pulses, Serial, mark_of, open_outlets
from haptic_study.session import Session, Trial

DEADLINE = 60.0  # [s]


def received(descriptor: int, count: int) -> bytes:
    """Bytes from a terminal, waited for."""
    found, end = b"", time.monotonic() + DEADLINE
    while len(found) < count and time.monotonic() < end:
        found += os.read(descriptor, count - len(found))
    return found


def test_a_code_is_that_of_the_label_of_the_event_or_the_default() -> None:
    codes = {"answer": 40, "answer yes": 41, "begin a=1": 12}
    assert code_of(codes, "answer", ["yes"]) == 41 and code_of(codes, "answer", ["no"]) == 40
    assert code_of(codes, "begin", ["a=1", "t"]) == 12 and code_of(codes, "begin", ["a=2", "t"]) == DEFAULTS["begin"]
    assert code_of(codes, "pause") == DEFAULTS["pause"] and code_of(codes, "unheard") == 0
    sent = [code for code in DEFAULTS.values() if code]
    assert len(set(sent)) == len(sent) and all(0 < code < 256 for code in sent)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ({"anser": 5}, "codes.anser: unknown event; did you mean answer?"),
        ({"begin": 256}, "codes.begin = 256: must be from 0 (not sent) to 255, a byte"),
        ({"answer 3": 5}, "codes.answer 3: 3 is not a label of answer"),
        ({"interval 4": 5}, "codes.interval 4: 4 is not a label of interval"),
    ],
)
def test_codes_that_cannot_be_are_refused(codes: dict[str, int], said: str) -> None:
    with pytest.raises(ParameterError) as raised:
        study_of(document(codes=codes), Path())
    assert str(raised.value).startswith(said)


def test_each_event_of_a_session_has_its_code() -> None:
    """Of a session with everything that may happen in it, by the table of codes alone."""
    study = small(codes={"answer 1": 21, "answer 2": 22, "form person": 9})
    session, marks = Session(study, "01"), list[Mark]()
    seen: list[str] = []
    while len(session.rows) < 3:
        event = {**event_of(session), "time": float(len(marks))}
        if isinstance(session.step, Trial) and session.step.begun and "repeat" not in seen:
            event = {"event": "repeat", "trial": session.step.number, "reason": "noise", "time": float(len(marks))}
        marks.append(mark_of(study, session.step, event))
        session.apply(event)
        seen.append(str(event["event"]))
    expected = {"continue": 6, "form": 9, "begin": 10, "repeat": 30}
    for i, (mark, kind) in enumerate(zip(marks, seen, strict=True)):
        if kind == "answer":
            assert mark.code == {"answer 1": 21, "answer 2": 22}[mark.name] and mark.trial
        else:
            assert mark.code == expected[kind]
        assert mark.time == i
    assert {"form", "begin", "answer", "repeat"} <= set(seen)


def test_pulses_return_to_zero_and_equal_codes_are_told_apart() -> None:
    written: list[int] = []
    port = Pulses("port", written.append, pulse=1e-4)
    port.send(7, "begin", 0.0)
    end = time.monotonic() + DEADLINE
    while len(written) < 2 and time.monotonic() < end:
        time.sleep(1e-3)
    assert written == [7, 0]
    slow = Pulses("port", written.append, pulse=1e3)
    written.clear()
    slow.send(7, "begin", 0.0)
    slow.send(7, "begin", 0.0)
    slow.close()
    assert written == [7, 0, 7, 0]
    with pytest.raises(OutletError, match="port: code 256 of x: must be from 1 to 255"):
        port.send(256, "x", 0.0)


def test_a_port_that_fails_names_the_event() -> None:
    def gone(byte: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(OutletError, match="port: code 20 of answer was not sent: Input/output error"):
        Pulses("port", gone).send(20, "answer", 1.0)


def test_a_serial_port_gets_the_bytes() -> None:
    """A pseudo-terminal stands for the cable; its end is raw, at the rate that was asked for."""
    end, port = os.openpty()
    try:
        with open_outlets([f"serial:{os.ttyname(port)}@57600"]) as (one,):
            modes = termios.tcgetattr(port)
            assert modes[4] == modes[5] == termios.B57600 and not modes[3] & (termios.ICANON | termios.ECHO)
            codes = [1, 10, 13, 17, 19, 255]  # among them those that a terminal which is not raw would change
            for code in codes:
                one.send(code, "event", 0.0)
        # closing ends the last pulse; each code is followed by 0 once
        assert received(end, 2 * len(codes)) == bytes(byte for code in codes for byte in (code, 0))
    finally:
        os.close(end)
        os.close(port)


def test_a_parallel_port_is_claimed_written_and_released(tmp_path: Path) -> None:
    path, requests = tmp_path / "parport0", list[tuple[int, bytes]]()
    path.touch()

    def control(descriptor: int, request: int, data: bytes = b"") -> None:
        os.fstat(descriptor)  # it is open
        requests.append((request, data))

    port = Parallel(str(path), pulse=1e3, control=control)
    port.send(130, "begin", 0.0)
    port.close()
    data = outlets.PPWDATA
    assert requests == [(0x708B, b""), (data, b"\0"), (data, b"\x82"), (data, b"\0"), (0x708C, b"")]
    # _IOW('p', 0x86, unsigned char) of linux/ppdev.h
    assert data == 1 << 30 | 1 << 16 | ord("p") << 8 | 0x86


def test_outlets_that_cannot_be_opened_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "file"
    plain.touch()
    with pytest.raises(OutletError, match=r"serial port .*missing: cannot be opened: No such file"):
        Serial(str(tmp_path / "missing"))
    with pytest.raises(OutletError, match=r"serial port .*file: cannot be opened: Inappropriate ioctl"):
        Serial(str(plain))
    with pytest.raises(OutletError, match=r"parallel port .*file: cannot be opened: Inappropriate ioctl"):
        Parallel(str(plain))
    with pytest.raises(OutletError, match="100 bits/s: no rate"):
        Serial(str(plain), 100)
    monkeypatch.setitem(sys.modules, "pylsl", None)
    with (
        pytest.raises(OutletError, match=r"lab streaming layer: needs pylsl \(pip install pylsl\)"),
        open_outlets(["lsl"]),
    ):
        pass
    for text, said in (
        ("seriell:/dev/x", "did you mean serial"),
        ("serial", "must be one of ros"),
        ("serial:x@y", "must be serial:PORT@BAUD"),
    ):
        with pytest.raises(ParameterError, match=said), open_outlets([text]):
            pass


def test_a_stream_of_markers_has_the_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module stands for pylsl: what it is asked for is what its documentation has."""
    pushed: list[Any] = []

    class Node:
        def append_child(self, name: str) -> Node:
            return self

        def append_child_value(self, name: str, value: str) -> Node:
            pushed.append((name, value))
            return self

    class StreamInfo:
        def __init__(self, *arguments: Any):
            pushed.append(arguments)

        def desc(self) -> Node:
            return Node()

    class StreamOutlet:
        def __init__(self, info: StreamInfo):
            pass

        def push_sample(self, sample: list[int]) -> None:
            pushed.append(sample)

    module = types.SimpleNamespace(StreamInfo=StreamInfo, StreamOutlet=StreamOutlet)
    monkeypatch.setitem(sys.modules, "pylsl", module)
    with open_outlets(["lsl:eeg"], {"begin": 12}) as (one,):
        one.send(12, "begin", 0.5)
    assert pushed == [("eeg", "Markers", 1, 0.0, "int32", "eeg"), ("event", "begin"), ("code", "12"), [12]]


def test_one_outlet_that_fails_keeps_no_event_from_the_others() -> None:
    class Lost:
        def send(self, code: int, name: str, time: float) -> None:
            raise OutletError(f"lost: {name}")

        def close(self) -> None:
            pass

    written: list[int] = []
    with pytest.raises(OutletError, match="lost: begin"):
        outlets.send([Lost(), Pulses("port", written.append, 1e3)], Mark(0.0, 10, "begin"))
    assert written == [10]
    outlets.send([Lost()], Mark(0.0, 0, "exclude"))  # without a code nothing is sent


def test_the_tables_have_the_codes(tmp_path: Path) -> None:
    study = small(codes={"answer 1": 21, "answer 2": 22})
    dataset = Dataset.create(tmp_path, study)
    with dataset.begin("01", 1, {"kind": "person"}) as recording:
        while not recording.ended:
            recording.apply({**event_of(recording.session), "time": recording.time + 1.0})
        trial = recording.session.rows[0].trial.number
        recording.apply({"event": "exclude", "trial": trial, "reason": "test", "time": recording.time})
    tables.write(dataset)
    folder = tmp_path / "sub-01" / "ses-01" / "beh"
    with (folder / "sub-01_ses-01_task-discrimination_events.tsv").open() as file:
        trials = list(csv.DictReader(file, delimiter="\t"))
    with (folder / "sub-01_ses-01_task-session_events.tsv").open() as file:
        events = list(csv.DictReader(file, delimiter="\t"))
    assert [row["event"] for row in events[:1] + events[-2:]] == ["open", "end", "exclude"]
    assert {row["code"] for row in events if row["event"] == "begin"} == {"10"}
    answered = [row for row in events if row["event"].startswith("answer ")]
    assert [row["code"] for row in answered] == [row["end_code"] for row in trials]
    assert [int(row["code"]) for row in answered] == [20 + int(row["answer"]) for row in trials]
    assert {row["begin_code"] for row in trials} == {"10"}
    columns = json.loads((folder / "sub-01_ses-01_task-session_events.json").read_text())
    assert list(columns) == list(events[0])


def test_a_task_is_not_named_as_the_table_of_events() -> None:
    found = document()
    found["tasks"] = {"Session": found["tasks"]["discrimination"]}
    with pytest.raises(ParameterError, match="session is the name of the table of all events"):
        study_of(found, Path())
    assert len(run(Session(small(), "01"))) > 3


@pytest.mark.exhaustive
def test_the_topic_has_name_code_and_stamp() -> None:
    rclpy = pytest.importorskip("rclpy")
    from haptics.msg import TrialEvent  # built beside the checkout

    from haptic_study.nodes.events import QOS, RosTopic  # needs ROS 2

    outlet, found = RosTopic("test_study_events"), list[Any]()
    try:
        outlet.send(10, "begin", 0.5)  # before anybody listens: it is kept
        outlet.node.create_subscription(TrialEvent, "test_study_events", found.append, QOS)
        outlet.send(20, "answer 1", 0.9)
        end = time.monotonic() + DEADLINE
        while len(found) < 2 and time.monotonic() < end:
            rclpy.spin_once(outlet.node, timeout_sec=0.1)
    finally:
        outlet.close()
    assert [(one.node, one.name, one.detail, one.tick) for one in found] == [
        ("study", "begin", "10", -1),
        ("study", "answer 1", "20", -1),
    ]
    assert found[0].header.stamp.sec > 0
