"""The verdict on a trial: the energy that its display gave to the hand, and whether its motion is plausible.

It is the same for every architecture, because it is judged on what every trial records: the energy at the port between
device and hand, the energies of the world, the twists of hand and tool, and the rendered wrench.

The display has *given* the energy -E(k), where E(k) is what the hand has put in through the ports of all hands up to
tick k (haptic_control/guard.py). Three parts of it are explained:

 - The world had stored it: a weight that sinks onto the hand gives its potential energy. The world has *released* at
   most R(k) = max(0, W(0) - W(k) - D(k)), W = kinetic + potential + elastic energy, D = dissipated energy. Where
   motions, pulls or prescribed constraints supply a world, its stores say nothing, and R = 0.
 - The device's own inertia has it: a device of mass M that renders a tool of mass m < M needs (M - m) v^2 / 2 of its
   drive. It is on the hand's side of the port, but the hand, which feels m, cannot take it.
 - The step of a simulated ideal device has it: an impulse is rendered as the wrench f = J/T of one tick of length T. A
   mass that is pushed so moves by T (v- + v+)/2, but semi-implicit Euler moves the device by T v+. Of the work at the
   port, T f . (v+ - v-)/2 is neither in the device's motion nor the hand's: I(k) is their sum over the ticks with an
   impulse. Without it an impact with restitution e would count as e (1 + e) m v^2 given, where (1 - e^2) m v^2 / 2
   is taken. Other wrenches are left as they are: springs held for a tick would give a real device that energy.

The largest remaining part, max over k of -E(k) - R(k) - C(k) - I(k), makes the display *active* if it exceeds NOTICED
and SHARE of the energy that was exchanged at the ports, or `health.energy`. It comes from discretisation, from a
controller that is not passive, or from a source in the world: a motion, a controlled joint, a controller whose springs
are stretched at the start. A trial that is meant to show one says so (`health.active: expected`), or it has failed.

Behind a local model the energies of the world are those of the tool alone, in our own engine. Of a world of MuJoCo its
bodies have books of their own (`haptic_bench.recording.others_energy`): they have released

    W_o(0) - W_o(k) - max(0, D_o(k) - S_o(k)),

D_o what they dissipated without touching the tool, with what discrete time has taken, and S_o what their actuators
supplied less what these took. So what actuators supply may cover what is dissipated, but is nothing that the world had
stored; and of what the tool and they do to one another, each has in its books what it got.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from haptic_bench.experiment import HealthParameters, Trial
from haptic_bench.recording.others_energy import SUPPLIED
from haptic_bench.recording.samples import Samples
from haptic_control.stability import CoupledInertias
from haptic_sim.messages import FORCE

WINDOW = 0.01  # [s] over which forces are averaged: an impulse is felt as one, whatever the rate
NOTICED = 1e-3  # [J] below which a display counts as passive
SHARE = 0.01  # of the energy exchanged at the port, below which a display counts as passive
LEFT_OUT = ("energy_given", "diverged", "source")  # of a summary
KINEMATIC = (
    "between updates what moves pushes the tool as if it had an infinite mass: set local_model.constraints=dynamic; or "
)
LESS = 0.01  # of the command: a device that renders less than the rest is at a limit
STORED = ("energy_kinetic", "energy_potential", "energy_elastic")
DISSIPATED = ("energy_damping", "energy_friction", "energy_impact")
OTHERS = "others_"  # before the names of these columns: of the bodies around a tool behind a local model


@dataclass(frozen=True)
class Verdict:
    """Measurements that a trial is judged by; all zero without a display.

    Attributes:
        energy_given: largest energy that the display has given to the hands beyond what it had received [J].
        stored: the part of it, at most, that the world had stored [J].
        stepped: the part of it, at most, that the steps of simulated devices have of impulses [J].
        unexplained: the largest part of it that none of these had, nor the device's own inertia [J].
        limit: of that part, for a passive display [J].
        numerical: largest energy that discretisation has added to the world [J].
        speed: largest of hands and tools [m/s].
        force: largest rendered force, averaged over WINDOW [N].
        limited: part of the ticks in which a device rendered less than was commanded, as at its limits.
        device: whether there is a display.
        expected: whether the display is meant to be active.
        diverged: why the trial has diverged; empty if it has not.
        source: what in the trial may give energy, and what to do about it; empty: nothing that is known.
    """

    energy_given: float = 0.0
    stored: float = 0.0
    stepped: float = 0.0
    unexplained: float = 0.0
    limit: float = NOTICED
    numerical: float = 0.0
    speed: float = 0.0
    force: float = 0.0
    limited: float = 0.0
    device: bool = False
    expected: bool = False
    diverged: str = ""
    source: str = ""

    @property
    def verdict(self) -> str:
        """`passive`, `active` or `diverged`."""
        if self.diverged:
            return "diverged"
        return "active" if self.unexplained > self.limit else "passive"

    @property
    def failure(self) -> str:
        """Reason why the trial has failed; empty if it has not."""
        if self.verdict == "active" and not self.expected:
            return (
                f"the display gave the hand {energy(self.unexplained)}, more than {energy(self.limit)}: "
                f"{self.source}lower the gains or raise the rates; or let the guard act (guard.type=passivity); where "
                "the display is meant to be active, set health.active=expected"
            )
        return self.diverged

    @property
    def text(self) -> str:
        """The verdict in a few words."""
        if self.failure:
            return f"failed: {self.failure}"
        if not self.device:
            return f"no display; discretisation added {energy(self.numerical)}"
        return self._of_energy() + self._of_limits()

    def _of_energy(self) -> str:
        if self.verdict == "active":
            return f"the display gave the hand {energy(self.unexplained)}, as expected"
        if self.energy_given <= self.limit:
            return "passive"
        beyond = self.energy_given - self.stored
        if beyond <= self.limit:
            return f"passive: the display gave the hand {energy(self.energy_given)}, which the world had stored"
        if beyond - self.stepped <= self.limit:
            return f"passive: {energy(self.energy_given)} of impulses are due to the steps of the simulated device"
        return f"passive: the drive supplied {energy(beyond - self.stepped)} to the device's own inertia"

    def _of_limits(self) -> str:
        if not self.limited:
            return ""
        percent = 100.0 * self.limited
        part = "less than 0.1 %" if percent < 0.1 else f"{percent:.0f} %" if percent >= 10.0 else f"{percent:.2g} %"
        return f"; in {part} of the ticks the device rendered less than was commanded"

    def summary(self) -> dict[str, Any]:
        """Entry of the verdict in summary.json."""
        measured = {name: value for name, value in asdict(self).items() if name not in LEFT_OUT}
        return {"energy_given": self.energy_given, "verdict": self.verdict, "text": self.text, **measured}


def verdict_of(trial: Trial, samples: Samples, reason: str = "") -> Verdict:
    """The verdict on a trial.

    Args:
        trial: what was run.
        samples: finite; of an analysis without time, or without a row, there is no display to judge.
        reason: why the trial has failed; empty if it has not.
    """
    experiment = trial.experiment
    unstable = reason if any(word in reason for word in ("unstable: ", "diverged: ")) else ""
    if "energy_numerical" not in samples.names or not len(samples):
        return Verdict(diverged=unstable)
    scene = experiment.scene  # that of a tool under exact constraints has no motions, but may be driven
    supplied = any(getattr(scene, name, ()) for name in ("motions", "pulls", "fields")) or getattr(
        trial.start, "driven", False
    )
    hands: dict[str, CoupledInertias | None] = {
        f"{name}_" if name else "": one.coupled_inertias if one.experiment.device.COMMANDS == FORCE else None
        for name, one in trial.hands.items()  # the port of a device that is moved is at its force sensor
    }
    found = measure(samples, experiment.rate, hands, experiment.health, supplied=supplied, unstable=unstable)
    moving = experiment.asynchronous and getattr(experiment.local_model, "constraints", "") == "kinematic"
    return replace(found, source=KINEMATIC) if moving and SUPPLIED in samples.names else found


def measure(
    samples: Samples,
    rate: float,
    hands: Mapping[str, CoupledInertias | None],
    health: HealthParameters,
    *,
    supplied: bool = False,
    unstable: str = "",
) -> Verdict:
    """The verdict on samples.

    Args:
        samples: finite, one row at least.
        rate: of the servo [Hz].
        hands: by the beginning of the columns of each hand, empty for the first and `left_` for another: the inertias
            of tool and device; None where that of the device is not on the hand's side of the port.
        health: what a trial may do.
        supplied: whether motions or prescribed constraints supply the world.
        unstable: why the trial was found unstable when it ran; empty if it was not.
    """
    numerical = _largest(samples["energy_numerical"])
    speed = max(_speed(samples, f"{hand}{kind}") for hand in hands for kind in ("hand", "tool"))
    if "port_energy_translation" not in samples.names:
        return Verdict(numerical=numerical, speed=speed, diverged=unstable or _divergence(health, speed, 0.0))
    ports = [samples.group(f"{hand}port_energy", "translation", "rotation").sum(axis=1) for hand in hands]
    given = -np.sum(ports, axis=0)
    released = np.zeros(len(samples)) if supplied else _released(samples)
    carried = np.sum([_carried(samples.twist(f"{hand}hand"), one) for hand, one in hands.items()], axis=0)
    stepped = np.sum([_of_impulses(samples, hand, one, 1.0 / rate) for hand, one in hands.items()], axis=0)
    exchanged = float(np.sum(np.abs(np.diff(ports, axis=1))))
    limited = [_is_limited(samples, hand) for hand, one in hands.items() if one is not None]
    force = max(_mean_force(samples.wrench(f"{hand}rendered")[:, :3], rate) for hand in hands)
    return Verdict(
        energy_given=_largest(given),
        stored=_largest(given) - _largest(given - released),
        stepped=_largest(given - released) - _largest(given - released - stepped),
        unexplained=_largest(given - released - carried - stepped),
        limit=min(max(NOTICED, SHARE * exchanged), health.energy),
        numerical=numerical,
        speed=speed,
        force=force,
        limited=float(np.mean(np.any(limited, axis=0))) if limited else 0.0,
        device=True,
        expected=health.active == "expected",
        diverged=unstable or _divergence(health, speed, force),
    )


def _is_limited(samples: Samples, hand: str) -> np.ndarray:
    """Mask of the ticks in which the device of a hand rendered less than was commanded, (rows,) bool."""
    rendered, commanded = (np.linalg.norm(samples.wrench(f"{hand}{one}"), axis=1) for one in ("rendered", "command"))
    return np.asarray(rendered < (1.0 - LESS) * commanded)


def _divergence(health: HealthParameters, speed: float, force: float) -> str:
    """Reason why a trial counts as diverged; empty if its speed [m/s] and force [N] are plausible."""
    if not speed <= health.speed:
        return f"diverged: hand or tool reached {speed:.3g} m/s, more than health.speed = {health.speed:g} m/s"
    if not force <= health.force:
        return f"diverged: {force:.3g} N were rendered, more than health.force = {health.force:g} N"
    return ""


def _released(samples: Samples) -> np.ndarray:
    """Energy that the stores of the world have released by each tick, (rows,) [J]."""
    stored, dissipated = (np.sum([samples[name] for name in names], axis=0) for names in (STORED, DISSIPATED))
    released = stored[:1] - stored - dissipated
    if SUPPLIED in samples.names:
        stored, dissipated = (
            np.sum([samples[f"{OTHERS}{name}"] for name in names], axis=0) for names in (STORED, DISSIPATED)
        )
        dissipated += np.maximum(0.0, -samples[f"{OTHERS}energy_numerical"])
        released += stored[:1] - stored - np.maximum(0.0, dissipated - samples[SUPPLIED])
    return np.asarray(np.maximum(0.0, released))


def _carried(twist: np.ndarray, inertias: CoupledInertias | None) -> np.ndarray:
    """Kinetic energy of the device's inertia beyond the tool's, at the start, with twists (rows, 6); (rows,) [J]."""
    if inertias is None or inertias.device is None:
        return np.zeros(len(twist))
    root = np.sqrt(inertias.per_axis(inertias.device))
    lightness, directions = np.linalg.eigh(
        root[:, None] * inertias.of_tool() * root
    )  # mass of device over that of tool
    excess = np.where(lightness > 1.0, 1.0 - 1.0 / np.maximum(lightness, 1.0), 0.0)
    moved = (twist[:, inertias.axes] * root) @ directions
    return np.asarray(0.5 * np.square(moved) @ excess)


def _of_impulses(samples: Samples, hand: str, inertias: CoupledInertias | None, period: float) -> np.ndarray:
    """Work of impulses within the steps of an ideal device by each tick, (rows,) [J]."""
    taken = np.zeros(len(samples))
    if inertias is None or inertias.device is None or not inertias.force_sensor or "colliding" not in samples.names:
        return taken
    if inertias.damping is None and inertias.difference is None:
        pushed = (samples["colliding"][:-1] > 0) & (np.diff(samples["tick"]) == 1)
        change = np.diff(samples.twist(f"{hand}hand"), axis=0)
        work = 0.5 * period * np.sum(samples.wrench(f"{hand}rendered")[:-1] * change, axis=1)
        taken[1:] = np.cumsum(np.where(pushed, work, 0.0))
    return taken


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
    return float(values.max(initial=0.0)) + 0.0  # no negative zero


def energy(value: float) -> str:
    """An energy with a unit that is read easily."""
    for unit, scale in (("J", 1.0), ("mJ", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} \N{GREEK SMALL LETTER MU}J"
