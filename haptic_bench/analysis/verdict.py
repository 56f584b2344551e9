"""The verdict on a trial: the energy that its display gave to the hand, and whether its motion is plausible.

It is the same for every architecture, because it is judged on what every trial records: the energy at the port between
device and hand, the energies of the world, the twists of hand and tool, and the rendered wrench.

The display has *given* the energy -E(k), where E(k) is what the hand has put in through the ports of all hands up to
tick k (haptic_control/guard.py). A passive display gives nothing but what its world had stored at the start: a weight
that falls onto the hand gives its potential energy. The world has *released* at most

    R(k) = max(0, W(0) - W(k) - D(k)),   W = kinetic + potential + elastic energy,   D = dissipated energy

so that the *active* energy is the maximum over k of -E(k) - R(k). It comes from discretisation, from a controller that
is not passive, or from a source in the world that its energies do not know: a motion, a pull, a controlled joint, a
controller whose springs are stretched at the start. A trial that is meant to show one says so (`health.active`).

Behind a local model the energies of the world are those of the tool alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from haptic_bench.experiment import HealthParameters, Trial
from haptic_bench.recording.samples import Samples

WINDOW = 0.01  # [s] over which forces are averaged: an impulse is felt as one, whatever the rate
NOTICED = 1e-3  # [J] below which a display counts as passive
STORED = ("energy_kinetic", "energy_potential", "energy_elastic")
DISSIPATED = ("energy_damping", "energy_friction", "energy_impact")


@dataclass(frozen=True)
class Verdict:
    """What a trial is judged by.

    Attributes:
        given: largest energy that the display has given to the hands beyond what it had received [J]; None without a
            device.
        active: the part of it that no store of the world has released [J].
        numerical: largest energy that discretisation has added to the world [J].
        speed: largest of hands and tools [m/s].
        force: largest rendered force, averaged over WINDOW [N]; None without a device.
        expected: whether the display is meant to be active.
        failure: why the trial has failed; empty if it has not.
    """

    given: float | None
    active: float | None
    numerical: float
    speed: float
    force: float | None
    expected: bool
    failure: str = ""

    @property
    def text(self) -> str:
        """The verdict in a few words."""
        if self.failure:
            return f"failed: {self.failure}"
        if self.active is None:
            return f"no display; discretisation added {energy(self.numerical)}"
        if self.active > NOTICED:
            return f"the display gave the hand {energy(self.active)}" + (", as expected" if self.expected else "")
        if self.given is not None and self.given > NOTICED:
            return f"passive: the display gave the hand {energy(self.given)}, which the world had stored"
        return "passive"

    def summary(self) -> dict[str, Any]:
        """As in summary.json."""
        measured = {name: value for name, value in asdict(self).items() if name != "failure"}
        return {"text": self.text, **measured}


def verdict_of(trial: Trial, samples: Samples) -> Verdict | None:
    """The verdict on a trial with finite samples; None of an analysis without time, or without a tick."""
    experiment = trial.experiment
    if "energy_numerical" not in samples.names or not len(samples):
        return None
    health = experiment.health
    scene = experiment.scene  # that of a tool under exact constraints has no motions, but may be driven
    supplied = any(getattr(scene, name, ()) for name in ("motions", "pulls")) or getattr(trial.start, "driven", False)
    expected = supplied if health.active is None else health.active == "expected"
    verdict = measure(samples, experiment.rate, ("", *(f"{name}_" for name in experiment.hand_names)), expected)
    return replace(verdict, failure=_failure(verdict, health))


def measure(samples: Samples, rate: float, hands: Sequence[str], expected: bool = False) -> Verdict:
    """What samples are judged by.

    Args:
        samples: finite, one row at least.
        rate: of the servo [Hz].
        hands: beginnings of the columns of each hand: empty for the first, `left_` for another.
        expected: whether the display is meant to be active.
    """
    numerical = _largest(samples["energy_numerical"])
    speed = max(_speed(samples, f"{hand}{kind}") for hand in hands for kind in ("hand", "tool"))
    if "port_energy_translation" not in samples.names:
        return Verdict(None, None, numerical, speed, None, expected)
    received = sum(samples.group(f"{hand}port_energy", "translation", "rotation").sum(axis=1) for hand in hands)
    return Verdict(
        given=_largest(-received),
        active=_largest(-received - _released(samples)),
        numerical=numerical,
        speed=speed,
        force=max(_mean_force(samples.wrench(f"{hand}rendered")[:, :3], rate) for hand in hands),
        expected=expected,
    )


def _failure(verdict: Verdict, health: HealthParameters) -> str:
    """Why a trial has failed; empty if it has not."""
    if verdict.speed > health.speed:
        return f"diverged: hand or tool reached {verdict.speed:.3g} m/s, more than health.speed = {health.speed:g} m/s"
    if verdict.force is not None and verdict.force > health.force:
        return f"diverged: {verdict.force:.3g} N were rendered, more than health.force = {health.force:g} N"
    if verdict.active is not None and verdict.active > health.energy and not verdict.expected:
        return (
            f"the display gave the hand {energy(verdict.active)}, more than health.energy = {health.energy:g} J: "
            "lower the gains or raise the rates; or let the guard act (guard.type=passivity); where the display is "
            "meant to be active, set health.active=expected"
        )
    return ""


def _released(samples: Samples) -> np.ndarray:
    """What the stores of the world have released by each tick, (rows,) [J]."""
    stored, dissipated = (np.sum([samples[name] for name in names], axis=0) for names in (STORED, DISSIPATED))
    return np.asarray(np.maximum(0.0, stored[:1] - stored - dissipated))


def _speed(samples: Samples, prefix: str) -> float:
    if f"{prefix}_vx" not in samples.names:
        return 0.0
    return _largest(np.linalg.norm(samples.twist(prefix)[:, :3], axis=1))


def _mean_force(force: np.ndarray, rate: float) -> float:
    """Largest norm of a force (rows, 3), averaged over WINDOW [N]."""
    n = max(1, round(WINDOW * rate))
    total = np.concatenate([np.zeros((n, 3)), np.cumsum(force, axis=0)])
    return _largest(np.linalg.norm(total[n:] - total[:-n], axis=1)) / n


def _largest(values: np.ndarray) -> float:
    return float(values.max(initial=0.0))


def energy(value: float) -> str:
    """An energy with a unit that is read easily."""
    for unit, scale in (("J", 1.0), ("mJ", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} \N{GREEK SMALL LETTER MU}J"
