"""Samples: the table of `samples.csv`, one row for each tick, joined from the recorded messages."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from haptic_bench.catalogue import did_you_mean
from haptic_bench.experiment import Trial
from haptic_bench.recording.others_energy import energy_of_others
from haptic_bench.recording.recording import ROW
from haptic_bench.recording.world_record import WorldRecord, read_world
from haptic_sim.dynamics.energy import TERMS
from haptic_sim.errors import HapticsError
from haptic_sim.messages import (
    COLLIDING,
    TOPICS,
    DeviceCommand,
    DeviceState,
    ToolCommand,
    ToolSizes,
    columns,
    split_topic,
    topic_of,
)
from haptic_sim.rotations import matrices

POSE = ("px", "py", "pz", "qx", "qy", "qz", "qw")
_TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
_PARTS = ("translation", "rotation")
WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")
_ENDS = {"relay_device_": "relay_forward", "relay_world_": "relay_backward"}
_CROSSING = ("relay_forward", "relayed_device_state", "device_command", "relay_backward", "relayed_device_command")
_ENERGIES = ("absorbed", "delivered", "dissipated", "available")


class ColumnError(HapticsError, KeyError):
    """Samples have no column of a name."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would quote it


class Samples:
    """Columns of equal length by name, in the order of the file.

    Row k holds the states at t_k and the wrenches of tick k; SI units, world axes.

    Attributes:
        world: bodies and contacts at the ticks at which they were recorded, None if they were not.
    """

    def __init__(self, table: Mapping[str, np.ndarray], world: WorldRecord | None = None):
        self._table, self.world = dict(table), world

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._table)

    def __repr__(self) -> str:
        """One line that says what is in them."""
        if not hasattr(self, "_table"):  # its construction failed: debuggers show it
            return "Samples(not built)"
        rows, time = len(self), self._table.get("time", np.empty(0))
        span = f", {time[0]:g} to {time[-1]:g} s" if rows and len(time) else ""
        return f"Samples({rows} rows, {len(self._table)} columns{span})"

    def __len__(self) -> int:
        return len(next(iter(self._table.values())))

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._table:
            raise ColumnError(f"samples have no column {name}{did_you_mean(name, self._table)}")
        return self._table[name]

    def with_columns(self, more: Mapping[str, np.ndarray]) -> Samples:
        """The same samples with more columns, or others in place of those of the same name."""
        return Samples({**self._table, **more}, self.world)

    def until(self, time: float) -> Samples:
        """The rows up to `time` [s]."""
        rows = int(np.searchsorted(self["time"], time, side="right"))
        return self._first(rows)

    def not_finite(self) -> tuple[str, int] | None:
        """Column and row of the first value that is not finite; None if all are."""
        first = {name: int(np.argmin(np.isfinite(values))) for name, values in self._table.items() if len(values)}
        found = [(row, name) for name, row in first.items() if not np.isfinite(self._table[name][row])]
        row, name = min(found, default=(-1, ""))
        return (name, row) if found else None

    def finite(self) -> Samples:
        """The rows before the first that is not finite."""
        found = self.not_finite()
        return self if found is None else self._first(found[1])

    def _first(self, rows: int) -> Samples:
        """The first rows, and what is known of the world at their ticks."""
        world = self.world
        if world is not None and rows < len(self):
            world = world.before(int(self["tick"][rows]))
        return Samples({name: values[:rows] for name, values in self._table.items()}, world)

    def group(self, prefix: str, *suffixes: str) -> np.ndarray:
        """Columns `prefix_suffix` side by side, (rows, len(suffixes))."""
        return np.stack([self[f"{prefix}_{suffix}"] for suffix in suffixes], axis=-1)

    def pose(self, prefix: str) -> np.ndarray:
        """Poses (rows, 7) of `hand` or `tool`: position [m], quaternion x y z w."""
        return self.group(prefix, *POSE)

    def twist(self, prefix: str) -> np.ndarray:
        """Twists (rows, 6) of `hand` or `tool` [m/s, rad/s]."""
        return self.group(prefix, *_TWIST)

    def wrench(self, prefix: str) -> np.ndarray:
        """Wrenches (rows, 6) [N, N m]: `operator`, `command`, `rendered` (on the device) or `env` (on the tool).

        `operator` of an admittance device is what its sensor tells (`tracking.operator_wrench` says what was applied),
        its `command` is zero (motion is commanded), and `rendered` is of its drive.
        """
        return self.group(prefix, *WRENCH)

    def write_csv(self, path: Path) -> None:
        """Write all columns; floats in shortest round-trip form."""
        lines = [",".join(self._table)]
        columns_as_text = [map(repr, values.tolist()) for values in self._table.values()]
        lines.extend(map(",".join, zip(*columns_as_text, strict=True)))
        path.write_text("\n".join(lines) + "\n", encoding="ascii")

    @classmethod
    def read_csv(cls, path: Path) -> Samples:
        """The samples of a file written by `write_csv`.

        Raises:
            OSError: there is none.
            ValueError: it is no table of numbers; names the line.
        """
        with path.open(encoding="ascii") as file:
            names = file.readline().strip().split(",")
            rows = [line.split(",") for line in file]
        if names == [""]:
            raise ValueError("line 1: has no names of columns")
        for number, row in enumerate(rows, 2):
            if len(row) != len(names):
                raise ValueError(f"line {number}: has {len(row)} values for {len(names)} columns")
        values = np.array(rows, np.float64).reshape(-1, len(names))
        integers = {
            "tick",
            "contacts",
            "colliding",
            "sliding_contacts",
            "operator_body",
            *(f"{end}content_tick" for end in _ENDS),
        }
        return cls(
            {
                name: values[:, i].astype(np.int64) if name in integers else values[:, i].copy()
                for i, name in enumerate(names)
            }
        )


class MessageStore:
    """A sink that keeps messages in memory, by topic."""

    def __init__(self) -> None:
        self.messages: dict[str, list[bytes]] = {}

    def __call__(self, tick: int, messages: Mapping[str, bytes]) -> None:
        for topic, data in messages.items():
            self.messages.setdefault(topic, []).append(data)


def join(
    messages: Mapping[str, Sequence[bytes]],
    sizes: ToolSizes,
    rate: float,
    *,
    standalone: bool = False,
    relayed: bool = False,
    hardware: bool = False,
    pointed: bool = False,
) -> Samples:
    """Samples from the messages of a trial.

    `complete_ticks` says which ticks are rows. An environment that runs alone has ToolCommand k for the operator's
    wrench, and no columns of a device.

    Args:
        messages: serialised messages by topic name, in any order.
        sizes: of the tool.
        rate: of the servo [Hz].
        standalone: whether there is no device.
        relayed: whether there is a relay: then the device's command is what has arrived of it, and there are columns of
            what is at the other end.
        hardware: whether the device is: then there are columns of its state, of why it rendered nothing, and of the age
            of its readings.
        pointed: whether the operator is a pointer: without a device there is a column for the body on which its wrench
            acts.
    """
    nq, nv = sizes.q, sizes.v
    tool = columns(sizes.tool_state(), messages.get("tool_state", ()))
    found = {"tool_state": tool["tick"]}
    if standalone:
        asked = columns(ToolCommand(), messages.get("tool_command", ()))
        found["tool_command"] = asked["tick"]
    else:
        device = columns(DeviceState(), messages.get("device_state", ()))
        asked = columns(DeviceCommand(), messages.get("relayed_device_command" if relayed else "device_command", ()))
        found |= {"device_state": device["tick"], "device_command": asked["tick"]}
        at_device = _by_tick(device)
    crossing = {
        topic: columns(TOPICS[topic](), messages.get(topic, ())) for topic in (_CROSSING[:-1] if relayed else ())
    }
    found |= {topic: rows["tick"] for topic, rows in crossing.items()}
    if relayed:
        found["relayed_device_command"] = asked["tick"]
    at_tool, at_asked = _by_tick(tool), _by_tick(asked)
    ticks = complete_ticks(found, standalone=standalone, relayed=relayed).tolist()
    command = asked[[at_asked[k] for k in ticks]]
    before = tool[[at_tool[k - 1] for k in ticks]]
    during = tool[[at_tool[k] for k in ticks]]

    table: dict[str, np.ndarray] = {"tick": np.array(ticks, np.int64), "time": np.array(ticks, float) / rate}

    def put(prefix: str, suffixes: Sequence[str], values: np.ndarray) -> None:
        for i, suffix in enumerate(suffixes):
            table[f"{prefix}{suffix}"] = np.ascontiguousarray(values[:, i])

    if standalone:
        put("operator_", WRENCH, command["wrench"])
        if pointed:
            table["operator_body"] = command["body"].astype(np.int64)
    else:
        now = device[[at_device[k] for k in ticks]]
        put("hand_", POSE, now["pose"])
        put("hand_", _TWIST, now["twist"])
        put("operator_", WRENCH, now["operator_wrench"])
        put("command_", WRENCH, command["wrench"])
        put("rendered_", WRENCH, device[[at_device[k + 1] for k in ticks]]["rendered_wrench"])
    put("tool_", POSE, before["pose"])
    put("tool_", _TWIST, before["twist"])
    put("env_", WRENCH, during["wrench"])
    table["contacts"] = during["contacts"].astype(np.int64)
    table["colliding"] = (during["contact_state"] == COLLIDING).astype(np.int64)
    table["kinetic_energy"] = np.ascontiguousarray(before["kinetic_energy"])
    put("q", [str(i) for i in range(nq)], before["q"] if nq else np.zeros((len(ticks), 0)))
    put("v", [str(i) for i in range(nv)], before["v"] if nv else np.zeros((len(ticks), 0)))
    table["sliding_contacts"] = during["sliding"].astype(np.int64)
    put("energy_", TERMS, during["energy"])
    if not standalone:
        put("port_energy_", _PARTS, now["port_energy"])
        put("port_dissipated_", _PARTS, now["port_dissipated"])
    if hardware:
        table["device_state"] = now["state"].astype(np.int64)
        table["device_reason"] = device[[at_device[k + 1] for k in ticks]]["reason"].astype(np.int64)
        table["device_reading_age"] = np.ascontiguousarray(now["reading_age"])
    if relayed:
        at = {topic: rows[list(map(_by_tick(rows).__getitem__, ticks))] for topic, rows in crossing.items()}
        put("remote_", POSE, at["relayed_device_state"]["pose"])
        put("remote_", _TWIST, at["relayed_device_state"]["twist"])
        put("remote_", WRENCH, at["device_command"]["wrench"])
        for end, topic in _ENDS.items():
            table[f"{end}content_tick"] = at[topic]["content_tick"].astype(np.int64)
            for name in _ENERGIES:
                put(f"{end}{name}_", ("translation", "rotation"), at[topic][name])
    if sizes.multipliers:
        put("lambda", [str(i + 1) for i in range(sizes.multipliers)], during["multipliers"])
        put("residual_", ("holonomic", "nonholonomic"), before["residual"])
    return Samples(table)


def rotations(poses: np.ndarray) -> np.ndarray:
    """R_WB (rows, 3, 3) of poses (rows, 7) [m, quat_xyzw]; column i is the body's axis i in the axes of the world."""
    return matrices(poses[:, 3:])


def complete_ticks(
    ticks: Mapping[str, np.ndarray], *, standalone: bool = False, relayed: bool = False, hands: Sequence[str] = ()
) -> np.ndarray:
    """The ticks that are rows of the samples, in their order.

    A tick is a row when everything of it is there: the states at t_k (DeviceState k, ToolState k-1), the wrenches of
    the tick (ToolState k, DeviceCommand k) and what was rendered (DeviceState k+1). An environment that runs alone has
    ToolCommand k in place of the device's.

    Args:
        ticks: of the messages that are there, by topic name, in any order.
        standalone: whether there is no device.
        relayed: whether there is a relay, whose messages are of the tick too.
        hands: names of further hands, of which everything must be there, too.
    """
    if hands:
        each = ({topic: ticks[key] for topic in ROW if (key := topic_of(hand, topic)) in ticks} for hand in hands)
        return functools.reduce(np.intersect1d, map(complete_ticks, each), complete_ticks(ticks))
    none = np.zeros(0, np.int64)
    tool = ticks.get("tool_state", none)
    rows = np.intersect1d(tool, tool + 1)
    if standalone:
        return np.intersect1d(rows, ticks.get("tool_command", none))
    device = ticks.get("device_state", none)
    for topic in _CROSSING if relayed else ("device_command",):
        rows = np.intersect1d(rows, ticks.get(topic, none))
    return np.intersect1d(rows, np.intersect1d(device, device - 1))


def of_trial(trial: Trial, messages: Mapping[str, Sequence[bytes]]) -> Samples:
    """The samples of a trial from its messages by topic."""
    experiment = trial.experiment
    standalone, relayed = experiment.standalone, experiment.relayed
    kinds = {
        "hardware": "" in experiment.hardware_hands,
        "pointed": experiment.operator.EVENTS,
    }
    samples = join(messages, trial.tool_sizes, experiment.rate, standalone=standalone, relayed=relayed, **kinds)
    if experiment.hands:
        samples = with_hands(samples, {name: join_hand(name, messages, trial) for name in experiment.hand_names})
    samples = samples.with_columns(energy_of_others(trial, messages, samples["tick"]))
    samples.world = read_world(messages.get("world_state", ()))
    return samples


OF_HAND = ("hand_", "operator_", "command_", "rendered_", "port_", "tool_", "env_", "device_")
"""Beginnings of the columns that each hand has; the others are of the world."""


def join_hand(name: str, messages: Mapping[str, Sequence[bytes]], trial: Trial) -> Samples:
    """The samples of a further hand, as if it were the only one."""
    own = {topic: rows for key, rows in messages.items() for hand, topic in [split_topic(key)] if hand == name}
    return join(own, trial.tool_sizes, trial.experiment.rate, hardware=name in trial.experiment.hardware_hands)


def with_hands(first: Samples, others: Mapping[str, Samples]) -> Samples:
    """The rows that all hands have, with the columns of further hands behind their names: `left_hand_px`."""
    ticks = first["tick"]
    for other in others.values():
        ticks = np.intersect1d(ticks, other["tick"])
    table = {name: first[name][np.isin(first["tick"], ticks)] for name in first.names}
    for hand, other in others.items():
        rows = np.isin(other["tick"], ticks)
        table |= {f"{hand}_{name}": other[name][rows] for name in other.names if name.startswith(OF_HAND)}
    return Samples(table)


def _by_tick(rows: np.ndarray) -> dict[int, int]:
    return {int(tick): i for i, tick in enumerate(rows["tick"])}
