"""Frames of a recorded trial, from its bag: those of its world states, or, where it has none, every few ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.experiment import Trial, read_resolved
from haptic_bench.experiment.shown import build_scene
from haptic_bench.recording.bag import BagError
from haptic_bench.recording.samples import POSE, WRENCH, Samples
from haptic_bench.recording.trial_bag import read_event, read_messages
from haptic_bench.recording.world_record import WorldRecord, read_world
from haptic_ros.graph import EVENTS
from haptic_sim.messages import CONTACT, REASONS, DeviceState, ToolCommand, columns, topic_of
from haptic_sim.parameters import ParameterError
from haptic_view.frame import (
    LATENCY,
    OF_OPERATOR,
    ON_HAND,
    ON_TOOL,
    PENETRATION,
    CurveKey,
    Frame,
    Hand,
    Mark,
    chart_values,
    energy_values,
    slides,
    with_steady_latency,
)
from haptic_view.scene import Scene

RATE = 60.0  # [Hz] of the frames of a trial without world states


class RecordedFrames:
    """The frames of a recorded trial.

    Args:
        trial: resolved.
        messages: of its bag, by topic.

    Attributes:
        scene: what there is to draw.
        ticks: of the frames, (S,) int64.
        times: of the same [s], (S,).
        marks: in the order of time.

    Raises:
        ParameterError: there are no frames.
    """

    def __init__(self, trial: Trial, messages: Mapping[str, Sequence[bytes]]):
        experiment = trial.experiment
        self._rate, self._standalone = experiment.rate, experiment.standalone
        self._names = ("", *experiment.hand_names)
        layout = trial.tool_sizes.tool_state()
        self._tools = {
            name: _Table(columns(layout, messages.get(topic_of(name, "tool_state"), ()))) for name in self._names
        }
        self._devices: dict[str, _Table] = {}
        if self._standalone:
            self._commands = _Table(columns(ToolCommand(), messages.get("tool_command", ())))
        else:
            self._devices = {
                name: _Table(columns(DeviceState(), messages.get(topic_of(name, "device_state"), ())))
                for name in self._names
            }
        self._world: WorldRecord | None = read_world(messages.get("world_state", ()))
        known = self._tools[""].ticks
        if self._world is None:
            every = max(1, round(self._rate / RATE))
            self.ticks = known[known >= 0][::every]
        else:
            self.ticks = self._world.tick[np.isin(self._world.tick, known)]
            self._row = {int(tick): i for i, tick in enumerate(self._world.tick)}
        if not len(self.ticks):
            raise ParameterError(["nothing was recorded: there is nothing to see"])
        self.times = self.ticks / self._rate
        first = self._tools[""].rows["pose"][:, :3]
        self.scene = build_scene(trial, first[:: max(1, len(first) // 500)], visual=True)
        if self._devices:
            device = self._devices[""].rows
            if np.all(device["tick"] - device["command_tick"] == 1):
                charts = with_steady_latency(self.scene.charts, 1.0 / self._rate)
                self.scene = replace(self.scene, charts=charts)
        self.marks = _marks(messages.get(EVENTS, ()), self._rate)
        self._series = self._all_values()

    def __len__(self) -> int:
        return len(self.ticks)

    def _all_values(self) -> dict[CurveKey, tuple[np.ndarray, np.ndarray]]:
        """Ticks of the curves of the charts, and their values in SI units."""
        tools = self._tools[""]
        values: dict[CurveKey, np.ndarray] = {ON_TOOL: _sizes(tools.rows["wrench"])}
        values |= energy_values(tools.rows["energy"].T)
        found = {key: (tools.ticks, some) for key, some in values.items()}
        if self._devices:
            rows, ticks = self._devices[""].rows, self._devices[""].ticks
            found[OF_OPERATOR] = ticks, _sizes(rows["operator_wrench"])
            found[ON_HAND] = ticks - 1, _sizes(rows["rendered_wrench"])
            known = rows["command_tick"] >= 0
            found[LATENCY] = ticks[known] - 1, (rows["tick"] - rows["command_tick"])[known] / self._rate
        else:
            found[OF_OPERATOR] = self._commands.ticks, _sizes(self._commands.rows["wrench"])
        if self._world is not None:
            found[PENETRATION] = self._world.contact_tick, np.maximum(self._world.contacts["depth"], 0.0)
        return found

    def _extremes(self, first: int, last: int) -> dict[CurveKey, tuple[float, float]]:
        """Least and greatest values of the charts in the ticks from the first to the last."""
        found = {}
        for key, (ticks, values) in self._series.items():
            some = values[slice(*np.searchsorted(ticks, (first, last + 1)))]
            if len(some):
                found[key] = float(some.min()), float(some.max())
        return found

    def frame(self, index: int, since: int | None = None) -> Frame:
        """One of the frames: the states at its tick, and the wrenches of that tick.

        Args:
            index: which one.
            since: index of the one that was shown before, after which the extremes of the charts are taken.
        """
        tick = int(self.ticks[index])
        before_it = index - 1 if since is None or since >= index else since
        extremes = self._extremes(int(self.ticks[before_it]) + 1 if before_it >= 0 else tick, tick)
        hands = tuple(self._hand(name, tick) for name in self._names)
        during = self._tools[""].at(tick)
        latency = age = None
        contacts: np.ndarray | None = None
        if self._devices and (device := self._devices[""].at(tick + 1)) is not None and device["command_tick"] >= 0:
            latency = float(device["tick"] - device["command_tick"]) / self._rate
        if during["geometry_tick"] >= 0:
            age = float(during["tick"] - during["geometry_tick"]) / self._rate
        if self._world is not None:
            row = self._row[tick]
            first, last = np.searchsorted(self._world.contact_tick, (tick, tick + 1))
            contacts = self._world.contacts[first:last]
            given, twists = self._world.poses[row], self._world.twists[row]
            before = self._tools[""].at(tick - 1)
            poses = self.scene.place(
                given, (during if before is None else before)["q"] if "q" in during.dtype.names else np.zeros(0)
            )
            sliding = slides(contacts, given, twists)
        else:
            poses, sliding = self.scene.from_configuration(during["q"]), np.zeros(0, bool)
        values = chart_values(hands, contacts, during["energy"], latency, age)
        if contacts is None:
            contacts = np.zeros(0, CONTACT)
        return Frame(tick, tick / self._rate, poses, hands, contacts, sliding, values=values, extremes=extremes)

    def _hand(self, name: str, tick: int) -> Hand:
        """A hand at a tick."""
        during, before = self._tools[name].at(tick), self._tools[name].at(tick - 1)
        during = before if during is None else during
        pose = (during if before is None else before)["pose"]
        if self._standalone:
            command = self._commands.at(tick)
            if command is None:
                return Hand(pose, during["wrench"])
            return Hand(pose, during["wrench"], operator=command["wrench"], dragged=int(command["body"]))
        now, after = self._devices[name].at(tick), self._devices[name].at(tick + 1)
        if now is None:
            return Hand(pose, during["wrench"])
        then = now if after is None else after
        reason = REASONS.get(int(then["reason"]), "")
        return Hand(pose, during["wrench"], now["pose"], then["rendered_wrench"], now["operator_wrench"], reason)

    def index_at(self, time: float) -> int:
        """The frame that is shown at a time of the trial [s]: the last one that is not later."""
        return int(np.clip(np.searchsorted(self.times, time + 1e-9, side="right") - 1, 0, len(self) - 1))

    def first_contact(self) -> int | None:
        """Index of the first frame in which the tool touches another body; None if there is none."""
        if self._world is not None:
            return _first(self._world, self.scene, self.ticks)
        ticks = self._tools[""].ticks[self._tools[""].rows["contacts"] > 0]
        return min(int(np.searchsorted(self.ticks, ticks[0])), len(self) - 1) if len(ticks) else None

    def greatest_force(self) -> float:
        """Largest force of the trial, on a hand, of an operator or on a tool [N]."""
        found = [table.rows["wrench"] for table in self._tools.values()]
        found += [table.rows[key] for table in self._devices.values() for key in ("rendered_wrench", "operator_wrench")]
        sizes = [np.linalg.norm(wrenches[:, :3], axis=1) for wrenches in found]
        return max((float(np.nanmax(size, initial=0.0)) for size in sizes), default=0.0)


def _first(world: WorldRecord, scene: Scene, ticks: np.ndarray) -> int | None:
    """The first frame, of those at some ticks, in which the tool touches another body; None if there is none."""
    tool = [world.bodies.index(scene.bodies[i]) for i in scene.linked if scene.bodies[i] in world.bodies]
    touching = np.isin(world.contacts["body_a"], tool) != np.isin(world.contacts["body_b"], tool)
    found = np.flatnonzero(np.isin(ticks, world.contact_tick[touching]))
    return int(found[0]) if len(found) else None


class SampledFrames:
    """The frames of a trial from its samples, as far as reports draw them: without charts, and with what a row holds.

    Args:
        trial: resolved.
        samples: at least one row.
        world: bodies and contacts, None if they were not recorded.

    Attributes:
        scene: what there is to draw.
        times: of the frames [s], (S,).
    """

    def __init__(self, trial: Trial, samples: Samples, world: WorldRecord | None):
        self._samples, self._world, self._names = samples, world, ("", *trial.experiment.hand_names)
        ticks = samples["tick"]
        if world is None or not np.isin(world.tick, ticks).any():  # few ticks have come, and other world states
            self._world = None
            every = max(1, round(trial.experiment.rate / RATE))
            self._rows = np.arange(0, len(ticks), every)
        else:
            found = np.isin(world.tick, ticks)
            self._states = np.flatnonzero(found)
            self._rows = np.searchsorted(ticks, world.tick[found])
        self.times = samples["time"][self._rows]
        paths = [samples.pose("tool")[:, :3]]
        if self._world is not None:  # of the bodies that move, so that the floor is as large as their way
            places = self._world.poses[:, :, :3]
            paths += list(places[:, np.ptp(places, axis=0).any(axis=1)].swapaxes(0, 1))
        self.scene = build_scene(trial, np.concatenate([path[:: max(1, len(path) // 500)] for path in paths]))
        self._known: dict[int, Frame] = {}  # each picture asks for the same several hundred

    def frame(self, index: int) -> Frame:
        """One of the frames."""
        if index not in self._known:
            self._known[index] = self._frame(index)
        return self._known[index]

    def _frame(self, index: int) -> Frame:
        samples, row = self._samples, int(self._rows[index])
        hands = tuple(self._hand(f"{name}_" if name else "", row) for name in self._names)
        tick, time = int(samples["tick"][row]), float(self.times[index])
        count = sum(name[0] == "q" and name[1:].isdigit() for name in samples.names)
        q = np.array([samples[f"q{i}"][row] for i in range(count)])
        if self._world is None:
            return Frame(tick, time, self.scene.from_configuration(q), hands)
        world, state = self._world, int(self._states[index])
        first, last = np.searchsorted(world.contact_tick, (tick, tick + 1))
        contacts = world.contacts[first:last]
        sliding = slides(contacts, world.poses[state], world.twists[state])
        return Frame(tick, time, self.scene.place(world.poses[state], q), hands, contacts, sliding)

    def _hand(self, prefix: str, row: int) -> Hand:
        def values(name: str, suffixes: tuple[str, ...]) -> np.ndarray | None:
            columns_of = [f"{prefix}{name}_{suffix}" for suffix in suffixes]
            if columns_of[0] not in self._samples.names:
                return None
            return np.array([self._samples[column][row] for column in columns_of])

        tool, on_tool = values("tool", POSE), values("env", WRENCH)
        assert tool is not None and on_tool is not None
        return Hand(tool, on_tool, values("hand", POSE), values("rendered", WRENCH), values("operator", WRENCH))

    def first_contact(self) -> int | None:
        """Index of the first frame in which the tool touches another body; None if there is none."""
        if self._world is not None:
            return _first(self._world, self.scene, self._samples["tick"][self._rows])
        touching = np.flatnonzero(self._samples["contacts"] > 0)
        return min(int(np.searchsorted(self._rows, touching[0])), len(self._rows) - 1) if len(touching) else None

    def greatest_force(self) -> float:
        """Largest force of a contact that is drawn, or on a tool [N]."""
        found = [self._samples.wrench("env")[:, :3]]
        if self._world is not None:
            found.append(self._world.contacts["force"])
        return max(float(np.linalg.norm(forces, axis=1).max(initial=0.0)) for forces in found)


def _sizes(wrenches: np.ndarray) -> np.ndarray:
    """Magnitudes of the forces of some wrenches (N, 6) [N]."""
    return np.linalg.norm(wrenches[:, :3], axis=1)


class _Table:
    """Rows of messages, found by their tick."""

    def __init__(self, rows: np.ndarray):
        ticks = rows["tick"].astype(np.int64)
        if np.any(np.diff(ticks) <= 0):  # of a bag from elsewhere
            ticks, first = np.unique(ticks, return_index=True)
            rows = rows[first]
        self.ticks, self.rows = ticks, rows

    def at(self, tick: int) -> Any:
        """The row of a tick; None if there is none."""
        i = int(np.searchsorted(self.ticks, tick))
        return self.rows[i] if i < len(self.ticks) and self.ticks[i] == tick else None


def _marks(events: Sequence[bytes], rate: float) -> tuple[Mark, ...]:
    """Events of a trial in the bag: marks, changed parameters, and its end."""
    found = []
    for data in events:
        tick, _, name, detail = read_event(data)
        found.append(Mark(tick / rate, detail if name == "changed" else f"{name} {detail}".strip()))
    return tuple(sorted(found))


def read_frames(directory: Path) -> tuple[Trial, RecordedFrames]:
    """A recorded trial and its frames.

    Raises:
        ParameterError: it cannot be read.
    """
    trial = read_resolved(directory / "experiment.yaml")
    try:
        messages = read_messages(directory)
    except BagError as error:
        raise ParameterError([str(error)]) from error
    return trial, RecordedFrames(trial, messages)
