"""The recorded world states of a trial: the tables of `bodies.csv` and `contacts.csv`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from haptic_sim.messages import CONTACT, WorldState, columns

BODIES = ("tick", "body", "px", "py", "pz", "qx", "qy", "qz", "qw", "vx", "vy", "vz", "wx", "wy", "wz")
CONTACTS = ("tick", "body_a", "body_b", "px", "py", "pz", "nx", "ny", "nz", "depth", "fx", "fy", "fz")
_MOST = 1 << 20  # contacts of one message


@dataclass(frozen=True)
class WorldRecord:
    """Bodies and contacts at the ticks of the world states (S: states, B: bodies, C: contacts of all of them).

    Attributes:
        bodies: names; q_names, v_names: of the coordinates and velocities of the configuration.
        tick: (S,) int64.
        poses: of the axes of the bodies [m, quat_xyzw], (S, B, 7); twists: at their origins [m/s, rad/s], (S, B, 6).
        contact_tick: of each contact, (C,) int64.
        contacts: as in haptics/msg/ContactState, a structured array (C,).
    """

    bodies: tuple[str, ...]
    q_names: tuple[str, ...]
    v_names: tuple[str, ...]
    tick: np.ndarray
    poses: np.ndarray
    twists: np.ndarray
    contact_tick: np.ndarray
    contacts: np.ndarray

    @property
    def coordinates(self) -> dict[str, list[str]]:
        """Meaning of `q0`, ... and `v0`, ... of the samples."""
        return {"q": list(self.q_names), "v": list(self.v_names)}

    def before(self, tick: int) -> WorldRecord:
        """Part of the record of earlier ticks than `tick`."""
        states, contacts = self.tick < tick, self.contact_tick < tick
        return WorldRecord(
            self.bodies,
            self.q_names,
            self.v_names,
            self.tick[states],
            self.poses[states],
            self.twists[states],
            self.contact_tick[contacts],
            self.contacts[contacts],
        )

    def write_csv(self, directory: Path) -> None:
        """Write `bodies.csv` and `contacts.csv`; floats in shortest round-trip form."""
        values = np.concatenate([self.poses, self.twists], axis=2).tolist()
        with (directory / "bodies.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(BODIES)
            for tick, rows in zip(self.tick.tolist(), values, strict=True):
                table.writerows([tick, name, *row] for name, row in zip(self.bodies, rows, strict=True))
        c, names = self.contacts, self.bodies
        values = np.concatenate([c["point"], c["normal"], c["depth"][:, None], c["force"]], axis=1).tolist()
        pairs = zip(self.contact_tick.tolist(), c["body_a"].tolist(), c["body_b"].tolist(), values, strict=True)
        with (directory / "contacts.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(CONTACTS)
            table.writerows([tick, names[a], names[b], *row] for tick, a, b, row in pairs)


def read_tables(directory: Path) -> WorldRecord | None:
    """The record of a trial's `bodies.csv` and `contacts.csv`, without its configuration; None if there are none.

    Raises:
        ValueError: they are no such tables.
    """
    tables = directory / "bodies.csv", directory / "contacts.csv"
    if not all(path.is_file() for path in tables):
        return None
    (bodies, values), (touching, numbers) = _read_table(tables[0], 1), _read_table(tables[1], 2)
    names = tuple(dict.fromkeys(bodies[:, 0].tolist()))
    count = max(len(names), 1)
    values = values.reshape(-1, count, values.shape[1])
    number = {name: i for i, name in enumerate(names)}
    contacts = np.zeros(len(numbers), CONTACT)
    for key, column in ("body_a", 0), ("body_b", 1):
        contacts[key] = [number[name] for name in touching[:, column].tolist()]
    for key, first in ("point", 1), ("normal", 4), ("force", 8):
        contacts[key] = numbers[:, first : first + 3]
    contacts["depth"] = numbers[:, 7]
    return WorldRecord(
        names,
        (),
        (),
        values[:, 0, 0].astype(np.int64),
        values[:, :, 1:8],
        values[:, :, 8:14],
        numbers[:, 0].astype(np.int64),
        contacts,
    )


def _read_table(path: Path, texts: int) -> tuple[np.ndarray, np.ndarray]:
    """Texts (N, texts) and numbers (N, M) of the rows of a table, whose texts are in its second column and on."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        columns_of = len(next(reader, []))
        rows = list(reader)
    words = np.array([row[1 : 1 + texts] for row in rows], object).reshape(len(rows), texts)
    numbers = np.array([[row[0], *row[1 + texts :]] for row in rows], float).reshape(len(rows), columns_of - texts)
    return words, numbers


def read_world(messages: Sequence[bytes]) -> WorldRecord | None:
    """The record of serialised WorldState messages, in the order of their ticks; None if there are none.

    Raises:
        MessageError: they are not of one world.
    """
    if not messages:
        return None
    layout = WorldState.of_layout(messages[0])
    layout = WorldState.of_layout(messages[0], _most_contacts(layout, messages))
    found: dict[int, tuple[bytes, np.ndarray]] = {}
    for data in messages:
        layout.load(data)
        found[layout.tick] = data, layout.contacts[: len(layout)].copy()
    ticks = sorted(found)
    table = columns(layout, [found[tick][0] for tick in ticks])
    contacts = [found[tick][1] for tick in ticks]
    count = len(layout.bodies)
    return WorldRecord(
        layout.bodies,
        layout.q_names,
        layout.v_names,
        np.array(ticks, np.int64),
        table["poses"].reshape(-1, count, 7) if count else np.zeros((len(ticks), 0, 7)),
        table["twists"].reshape(-1, count, 6) if count else np.zeros((len(ticks), 0, 6)),
        np.repeat(np.array(ticks, np.int64), [len(some) for some in contacts]),
        np.concatenate(contacts) if contacts else np.zeros(0, CONTACT),
    )


def _most_contacts(layout: WorldState, messages: Sequence[bytes]) -> int:
    """Largest number of contacts that some messages hold."""
    space = max(map(len, messages)) - len(layout.to_bytes())
    return min(_MOST, max(0, -(-space // CONTACT.itemsize)))
