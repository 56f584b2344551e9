"""Samples: joined from messages by tick, and a file that gives back the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.recording.samples import MessageStore, Samples, join, of_trial
from haptic_sim.dynamics.energy import TERMS
from haptic_sim.messages import COLLIDING, RESTING, DeviceCommand, DeviceState, ToolSizes, ToolState

RATE = 512.0
NQ, NV = 4, 3


class Trial:
    """Messages of ticks 0 to N whose every number is its own."""

    def __init__(self, last: int = 12, seed: int = 20260) -> None:
        rng = np.random.default_rng(seed)
        self.last = last
        self.device, self.command, self.tool = {}, {}, {}
        self.messages: dict[str, list[bytes]] = {"device_state": [], "device_command": [], "tool_state": []}
        for k in range(last + 2):
            device = DeviceState()
            device.stamp(k, k)
            for view in (device.pose, device.twist, device.operator_wrench, device.rendered_wrench):
                view[:] = rng.normal(size=view.size)
            self.device[k] = device
            self.messages["device_state"].append(device.to_bytes())
        for k in range(last + 1):
            command = DeviceCommand()
            command.stamp(k, k)
            command.wrench[:] = rng.normal(size=6)
            self.command[k] = command
            self.messages["device_command"].append(command.to_bytes())
        for k in range(-1, last + 1):
            tool = ToolState(q=NQ, v=NV, constraint_directions=36)
            tool.stamp(k, max(k, 0))
            for view in (tool.wrench, tool.pose, tool.twist, tool.inverse_inertia, tool.q, tool.v, tool.energy):
                view[:] = rng.normal(size=view.size)
            tool.kinetic_energy = rng.uniform()
            tool.contacts = int(rng.integers(0, 5))
            tool.sliding = int(rng.integers(0, 5))
            tool.contact_state = int(rng.integers(0, 3))
            tool.resize(6 * int(rng.integers(0, 3)))
            self.tool[k] = tool
            self.messages["tool_state"].append(tool.to_bytes())

    def drop(self, topic: str, tick: int) -> None:
        del self.messages[topic][tick + (topic == "tool_state")]

    def samples(self) -> Samples:
        return join(self.messages, ToolSizes(NQ, NV), RATE)


def header(nq: int, nv: int) -> list[str]:
    """The columns of the contract, design section 4."""
    pose, twist = ["px", "py", "pz", "qx", "qy", "qz", "qw"], ["vx", "vy", "vz", "wx", "wy", "wz"]
    wrench = ["fx", "fy", "fz", "tx", "ty", "tz"]
    groups = [
        ("hand", pose),
        ("hand", twist),
        ("operator", wrench),
        ("command", wrench),
        ("rendered", wrench),
    ]
    groups += [("tool", pose), ("tool", twist), ("env", wrench)]
    names = ["tick", "time", *(f"{prefix}_{suffix}" for prefix, suffixes in groups for suffix in suffixes)]
    names += ["contacts", "colliding", "kinetic_energy"]
    names += [*(f"q{i}" for i in range(nq)), *(f"v{i}" for i in range(nv))]
    terms = ["kinetic", "potential", "elastic", "injected", "damping", "friction", "impact", "numerical"]
    ports = [f"port_{kind}_{part}" for kind in ("energy", "dissipated") for part in ("translation", "rotation")]
    return [*names, "sliding_contacts", *(f"energy_{term}" for term in terms), *ports]


def test_columns_are_those_of_the_contract_in_their_order() -> None:
    assert Trial().samples().names == header(NQ, NV)
    assert run_unrecorded(experiment.load("corner_peg", duration=0.1)[0]).names == header(3, 3)


def test_a_row_holds_the_states_at_its_time_and_the_wrenches_of_its_tick() -> None:
    trial = Trial()
    samples = trial.samples()
    assert samples["tick"].tolist() == list(range(13))
    np.testing.assert_array_equal(samples["time"], np.arange(13) / RATE)
    for k in range(13):
        device, command, before, during = trial.device[k], trial.command[k], trial.tool[k - 1], trial.tool[k]
        np.testing.assert_array_equal(samples.pose("hand")[k], device.pose)
        np.testing.assert_array_equal(samples.twist("hand")[k], device.twist)
        np.testing.assert_array_equal(samples.wrench("operator")[k], device.operator_wrench)
        np.testing.assert_array_equal(samples.wrench("command")[k], command.wrench)
        np.testing.assert_array_equal(samples.wrench("rendered")[k], trial.device[k + 1].rendered_wrench)
        np.testing.assert_array_equal(samples.pose("tool")[k], before.pose)
        np.testing.assert_array_equal(samples.twist("tool")[k], before.twist)
        np.testing.assert_array_equal(samples.wrench("env")[k], during.wrench)
        assert samples["contacts"][k] == during.contacts
        assert samples["colliding"][k] == (during.contact_state == COLLIDING)
        assert samples["kinetic_energy"][k] == before.kinetic_energy
        np.testing.assert_array_equal([samples[f"q{i}"][k] for i in range(NQ)], before.q)
        np.testing.assert_array_equal([samples[f"v{i}"][k] for i in range(NV)], before.v)
        assert samples["sliding_contacts"][k] == during.sliding
        np.testing.assert_array_equal([samples[f"energy_{term}"][k] for term in TERMS], during.energy)
    assert {tool.contact_state for tool in trial.tool.values()} >= {COLLIDING, RESTING}


@pytest.mark.parametrize(
    ("dropped", "rows"),
    [
        ([("device_state", 5)], {4, 5}),  # the state, and what was rendered before it
        ([("device_command", 5)], {5}),
        ([("tool_state", 5)], {5, 6}),
        ([("tool_state", -1)], {0}),
        ([("device_state", 0)], {0}),
        ([("device_state", 13)], {12}),
        ([("device_command", 12)], {12}),
        ([("device_state", 5), ("tool_state", 9), ("device_command", 0)], {0, 4, 5, 9, 10}),
    ],
)
def test_exactly_the_incomplete_rows_are_dropped(dropped: list[tuple[str, int]], rows: set[int]) -> None:
    whole, trial = Trial().samples(), Trial()
    for topic, tick in sorted(dropped, key=lambda pair: -pair[1]):
        trial.drop(topic, tick)
    samples = trial.samples()
    kept = [k for k in range(13) if k not in rows]
    assert samples["tick"].tolist() == kept
    for name in samples.names:
        np.testing.assert_array_equal(samples[name], whole[name][kept])


def test_the_order_of_messages_does_not_matter() -> None:
    rng = np.random.default_rng(20261)
    trial, whole = Trial(), Trial().samples()
    for messages in trial.messages.values():
        rng.shuffle(messages)
    for name in whole.names:
        np.testing.assert_array_equal(trial.samples()[name], whole[name])


def test_no_messages_are_no_rows() -> None:
    samples = join({}, ToolSizes(NQ, NV), RATE)
    assert (len(samples), samples.names) == (0, header(NQ, NV))


NASTY = [
    -0.0,
    0.0,
    1e-300,
    5e-324,
    -5e-324,
    1.7976931348623157e308,
    0.1,
    1 / 3,
    -2.5e-17,
    1e22,
    123456789.0,
    1e16,
]


def bits(values: np.ndarray) -> list[bytes]:
    return [value.tobytes() for value in values]


def test_a_file_gives_back_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(20262)
    random = np.frombuffer(rng.bytes(8 * 2000), np.float64)
    values = np.concatenate([NASTY, random[np.isfinite(random)]])
    integers = np.arange(values.size, dtype=np.int64)
    samples = Samples({"tick": integers, "hand_px": values, "contacts": integers % 5, "colliding": integers % 2})
    samples.write_csv(tmp_path / "samples.csv")
    read = Samples.read_csv(tmp_path / "samples.csv")
    assert read.names == samples.names
    assert bits(read["hand_px"]) == bits(values)
    for name in ("tick", "contacts", "colliding"):
        np.testing.assert_array_equal(read[name], samples[name], strict=True)
        assert read[name].dtype == np.int64


def test_a_simulated_trial_survives_its_file(tmp_path: Path) -> None:
    samples = run_unrecorded(experiment.load("corner_peg", duration=0.7)[0])
    samples.write_csv(tmp_path / "samples.csv")
    read = Samples.read_csv(tmp_path / "samples.csv")
    assert len(read) == len(samples) == 359  # ticks 0 to round(0.7 * 512)
    for name in samples.names:
        assert read[name].dtype == samples[name].dtype
        assert read[name].tobytes() == samples[name].tobytes()


def test_text_is_plain_numbers_in_their_shortest_form(tmp_path: Path) -> None:
    table = {"tick": np.array([0, 1]), "time": np.array([0.0, 1 / 512]), "env_fx": np.array([-0.0, 0.1])}
    Samples(table).write_csv(tmp_path / "samples.csv")
    assert (tmp_path / "samples.csv").read_bytes() == b"tick,time,env_fx\n0,0.0,-0.0\n1,0.001953125,0.1\n"


def test_what_is_not_a_number_is_written_all_the_same(tmp_path: Path) -> None:
    Samples({"time": np.array([np.nan, np.inf, -np.inf])}).write_csv(tmp_path / "samples.csv")
    np.testing.assert_array_equal(Samples.read_csv(tmp_path / "samples.csv")["time"], [np.nan, np.inf, -np.inf])


@pytest.mark.parametrize("rows", [0, 1])
def test_a_file_of_few_rows_is_read(tmp_path: Path, rows: int) -> None:
    """A trial that was interrupted at once has written its header."""
    trial = Trial(last=0)
    samples = trial.samples() if rows else join({}, ToolSizes(NQ, NV), RATE)
    samples.write_csv(tmp_path / "samples.csv")
    read = Samples.read_csv(tmp_path / "samples.csv")
    assert (len(read), read.names) == (rows, header(NQ, NV))
    for name in read.names:
        np.testing.assert_array_equal(read[name], samples[name], strict=True)


def test_groups_are_columns_side_by_side() -> None:
    samples = Samples({"a_x": np.array([1.0, 2.0]), "a_y": np.array([3.0, 4.0])})
    np.testing.assert_array_equal(samples.group("a", "y", "x"), [[3.0, 1.0], [4.0, 2.0]])


def test_a_store_keeps_messages_by_topic() -> None:
    trial = experiment.load("corner_peg", duration=0.05)[0]
    store = MessageStore()
    for tick, messages in ((0, {"a": b"1", "b": b"2"}), (1, {"a": b"3"})):
        store(tick, messages)
    assert store.messages == {"a": [b"1", b"3"], "b": [b"2"]}
    assert len(of_trial(trial, {})) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: has no names of columns"),
        ("tick,time\n0,0.0\n1\n", "line 3: has 1 values for 2 columns"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "samples.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        Samples.read_csv(tmp_path / "samples.csv")


def test_an_unknown_column_is_named_with_those_that_there_are() -> None:
    samples = Samples({"time": np.zeros(2), "tool_px": np.zeros(2)})
    with pytest.raises(KeyError, match=r"no column tool_x; did you mean tool_px\? \(known: time, tool_px\)"):
        samples["tool_x"]
