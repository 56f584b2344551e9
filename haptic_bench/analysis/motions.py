"""Motions of recorded trials: what became of a trajectory under the hand, where it collides, and what was felt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.contact.response import ContactParameters
from haptic_sim.motions import trajectory
from haptic_sim.motions.motion import Motion
from haptic_sim.tool.environment import DepthGauge
from haptic_sim.worlds.world_setup import WorldSetup

FELT = 0.1  # [N] least force of a touch
PAUSE = 0.1  # [s] two touches are at least so far apart
_INSTANTS = 400  # of a trajectory that is checked for collisions


@dataclass(frozen=True)
class Edited:
    """A motion as it was recorded (rows of the samples).

    Attributes:
        time: [s], (rows,).
        q: configurations of the world, (rows, nq); v: velocities, (rows, nv).
        x: coordinates of the trajectory, (rows, n); nominal: those that it should have had.
    """

    time: np.ndarray
    q: np.ndarray
    v: np.ndarray
    x: np.ndarray
    nominal: np.ndarray


def edited(trial: Trial, samples: Samples, motion: Motion) -> Edited:
    """A motion in the samples of a trial whose tool state has the whole world."""
    model = trial.world.model
    q = np.stack([samples[f"q{i}"] for i in range(model.nq)], axis=-1)
    v = np.stack([samples[f"v{i}"] for i in range(model.nv)], axis=-1)
    return Edited(samples["time"], q, v, motion.places.of(q), motion.trajectory.evaluate(samples["time"]))


def as_trajectory(trial: Trial, samples: Samples, motion: Motion, rate: float = 100.0) -> dict[str, Any]:
    """The recorded motion as the content of a trajectory file, with `rate` points a second [Hz]."""
    found = edited(trial, samples, motion)
    every = max(1, round(trial.experiment.rate / rate))
    rows = np.unique([*range(0, len(found.time), every), len(found.time) - 1])
    rates = motion.places.rates(found.q, found.v)
    names = [name.removeprefix(f"{motion.title}/") for name in motion.places.names]
    return trajectory.document(names, found.time[rows] - found.time[0], found.x[rows], rates[rows])


def bodies_of(world: WorldSetup, motion: Motion) -> list[str]:
    """Names of the bodies that a motion moves."""
    model = world.model
    moved = {int(column) for column in motion.places.columns}
    roots = {
        int(model.supports[i][1])
        for i in range(1, model.njoints)
        if moved & set(range(model.idx_vs[i], model.idx_vs[i] + model.nvs[i]))
    }
    return [
        str(frame.name)
        for frame in model.frames
        if frame.type == pin.FrameType.BODY and frame.parentJoint and int(model.supports[frame.parentJoint][1]) in roots
    ]


def configurations(world: WorldSetup, motion: Motion) -> np.ndarray:
    """Configurations along a trajectory, all else at its start, (k, nq)."""
    instants = np.linspace(0.0, motion.trajectory.duration, _INSTANTS)
    rows = np.repeat(world.q[None], instants.size, axis=0)
    for row, x in zip(rows, motion.trajectory.evaluate(instants), strict=True):
        motion.places.put(x, row)
    return rows


def collisions(
    world: WorldSetup, contact: ContactParameters, motion: Motion, rows: np.ndarray, but: tuple[str, ...] = ()
) -> dict[tuple[str, str], float]:
    """Largest overlap of each two bodies [m] in configurations (k, nq), of which a motion moves one; `but` these.

    The tool is left out: it is the hand's.
    """
    gauge, moved = DepthGauge(world, contact), set(bodies_of(world, motion))
    tool = world.model.frames[world.hand].parentJoint
    left = {*but, str(world.body_names[tool])}
    deepest: dict[tuple[str, str], float] = {}
    for q in rows:
        for names, depth in gauge.overlaps(q).items():
            if moved & set(names) and not left & set(names):
                deepest[names] = max(depth, deepest.get(names, 0.0))
    return deepest


def nearest(world: WorldSetup, motion: Motion, rows: np.ndarray, body: str) -> np.ndarray:
    """Distance from the bodies of a motion to another body in configurations (k, nq): (k,) [m]."""
    geometry, moved = world.geometry.copy(), set(bodies_of(world, motion))
    geometry.removeAllCollisionPairs()
    for i, one in enumerate(world.shape_bodies):
        for k, other in enumerate(world.shape_bodies):
            if one in moved and other == body:
                geometry.addCollisionPair(pin.CollisionPair(i, k))
    data, geometry_data = world.model.createData(), geometry.createData()
    found = np.full(len(rows), np.inf)
    for row, q in enumerate(rows):
        pin.updateGeometryPlacements(world.model, data, geometry, geometry_data, q)
        pin.computeDistances(geometry, geometry_data)
        found[row] = min((result.min_distance for result in geometry_data.distanceResults), default=np.inf)
    return found


def path_of(world: WorldSetup, body: str, rows: np.ndarray) -> np.ndarray:
    """Position of a body's centre of mass, or of what it is fixed to, in configurations (k, nq): (k, 3) [m]."""
    model, data = world.model, world.model.createData()
    frame = model.getFrameId(body, pin.FrameType.BODY)
    joint = model.frames[frame].parentJoint
    lever = model.inertias[joint].lever
    points = np.zeros((len(rows), 3))
    for point, q in zip(points, rows, strict=True):
        pin.forwardKinematics(model, data, q)
        point[:] = data.oMi[joint].act(lever)
    return points


@dataclass(frozen=True)
class Touch:
    """A time in which the device renders a force.

    Attributes:
        begin, end: [s].
        peak: [N]; impulse: of the size of the force [N s].
    """

    begin: float
    end: float
    peak: float
    impulse: float


def touches(samples: Samples) -> list[Touch]:
    """The touches that a person would feel, by what the device renders."""
    force, time = np.linalg.norm(samples.wrench("rendered")[:, :3], axis=1), samples["time"]
    return list(_touches(force, time))


def _touches(force: np.ndarray, time: np.ndarray) -> Iterator[Touch]:
    rows = np.flatnonzero(force > FELT)
    if not rows.size or time.size < 2:
        return
    period = float(time[1] - time[0])
    breaks = np.flatnonzero(np.diff(time[rows]) > PAUSE)
    for part in np.split(rows, breaks + 1):
        own = force[part[0] : part[-1] + 1]
        yield Touch(float(time[part[0]]), float(time[part[-1]]), float(own.max()), period * float(own.sum()))
