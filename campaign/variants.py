"""Random hands, gains, rates and links: no trial is done whose display gave energy that nothing explains."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from campaign.cases import Outcome
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment import Trial, load
from haptic_bench.recording.samples import Samples
from haptic_drivers.devices.interface import DeviceError
from haptic_sim.dynamics.energy import UnstableError
from haptic_sim.parameters import ParameterError
from haptic_sim.tool.local_model.parameters import LOCAL_MODELS

ALLOWED = 0.01  # [J] that a display may give: `health.energy` by default
SEED = 20330
BATCH = 5  # variants of a case
SECTION, TYPE = "local_model.", "local_model.type"


class Scale(NamedTuple):
    """Values between two bounds, evenly on a logarithmic scale."""

    low: float
    high: float


CONTACT: dict[str, Any] = {
    "contact.stiffness": Scale(200.0, 2e4),
    "contact.damping": Scale(0.1, 100.0),
    "contact.restitution": [0.0, 0.5, 1.0],
    "contact.penalty": ["explicit", "consistent"],
    "contact.multiple_impacts": ["simultaneous", "sequential"],
    "contact.friction.model": ["none", "reset_integrator", "coulomb"],
    "environment.method": ["penalty", "impulse_augmented", "frictional_impulses", "constraint", "hybrid"],
    "rate": [500, 1000, 2000],
}
LOCAL: dict[str, Any] = CONTACT | {
    "local_model.type": ["full", "full", "intermediate_representation", "resolve", "held", "extrapolated"],
    "local_model.epsilon": [0.0, 0.001, 0.005, 0.02],
    "local_model.deformation": [True, False],
    "local_model.release": ["gradual", "immediate"],
    "local_model.constraints": ["static", "kinematic", "dynamic"],
    "local_model.prediction": ["none", "velocity"],
    "environment.rate": Scale(10.0, 200.0),
    "environment.following": Scale(2.0, 200.0),
}
RELAY: dict[str, Any] = CONTACT | {
    "relay.delay": Scale(1e-3, 0.2),
    "relay.jitter": Scale(1e-4, 0.05),
    "relay.loss": [0.0, 0.1, 0.3],
    "guard.type": ["none", "passivity", "wave", "tank"],
}
KEYS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("tight_hole", "static_wall", "tight_clearance", "clearance_stiff"), LOCAL),
    **dict.fromkeys(("dynamic_contact", "local_impacts", "mujoco_peg", "mujoco_clutter", "mujoco_drawer"), LOCAL),
    "delayed_wall": RELAY,
    "two_hands": CONTACT,
    **dict.fromkeys(("push_arm", "pull_arm", "rolling_touch"), CONTACT),
}
SHAPES: dict[str, Any] = CONTACT | {
    "contact.stiffness": Scale(100.0, 5e3),
    "contact.damping": Scale(0.1, 20.0),
    "device.mass": Scale(0.05, 2.0),
}
AS, ERROR = ["pieces", "field"], Scale(5e-4, 2e-3)  # what meshes collide as, and its error [m]
KEYS_OF_SHAPES: dict[str, dict[str, Any]] = {
    "gears": SHAPES
    | {f"scene.bodies.{gear}.shapes[0].as": AS for gear in ("driver", "driven")}
    | {"scene.bodies.driver.shapes[0].error": ERROR},
    "mug_on_hook": SHAPES | {"scene.bodies.mug.shapes[0].as": AS, "scene.bodies.hook.shapes[0].as": AS},
    "bone_saddle": SHAPES | {"scene.bodies.bone.shapes[0].error": Scale(1.5e-4, 1e-3)},
    "nut_and_bolt": SHAPES | {"scene.bodies.bolt.shapes[0].points": ["all", "sharp"]},
    "grating": SHAPES
    | {
        "contact.stiffness": Scale(20.0, 500.0),
        "scene.bodies.plate.shapes[0].texture.amplitude": Scale(5e-6, 5e-5),
        "scene.bodies.plate.shapes[0].texture.wavelength": Scale(5e-4, 5e-3),
    },
}
"""Experiments with meshes and textures, and their keys."""
WITH_COUPLING = (
    "controller.type=virtual_coupling",
    "controller.allow_active=false",
    "device.damping=null",
    "environment.integrator=2",
)
"""Settings of `grating`, whose own display may be active."""
FIRST_OF_SHAPES = 100_000
"""Number of the first variant of these, which have numbers of their own: those of the others are as they were."""


@cache
def refuses(name: str, kind: str) -> bool:
    """Whether a local model of this type does not fit the other parts of an experiment."""
    try:
        load(name, [f"local_model.type={kind}"])
    except ParameterError:
        return True
    return False


@cache
def own_type(name: str) -> str:
    """Type of an experiment's local model."""
    (trial,) = load(name)
    return trial.experiment.local_model.type


def variant(number: int) -> tuple[str, list[str]]:
    """An experiment and its settings: keys that its parts have, and types of local models that they fit."""
    rng = np.random.default_rng([SEED, number])
    experiments = KEYS if number < FIRST_OF_SHAPES else KEYS_OF_SHAPES
    name = list(experiments)[number % len(experiments)]
    keys = experiments[name]
    drawn: dict[str, Any] = {}
    for key in rng.choice(list(keys), int(rng.integers(1, 6)), replace=False).tolist():
        bounds = keys[key]
        if isinstance(bounds, Scale):
            drawn[key] = f"{bounds.low * (bounds.high / bounds.low) ** rng.uniform():.4g}"
            continue
        drawn[key] = bounds[int(rng.integers(len(bounds)))]
        while key == TYPE and refuses(name, drawn[key]):
            drawn[key] = bounds[int(rng.integers(len(bounds)))]
    if any(key.startswith(SECTION) for key in drawn):
        known = LOCAL_MODELS.find(drawn.get(TYPE) or own_type(name)).model_fields
        drawn = {key: value for key, value in drawn.items() if key.removeprefix(SECTION) in known or SECTION not in key}
    written = {key: str(value).lower() if isinstance(value, bool) else value for key, value in drawn.items()}
    fixed = ["duration=2"] if experiments is KEYS else WITH_COUPLING if name == "grating" else ()
    return name, [*fixed, "analysis=trial", *(f"{key}={value}" for key, value in written.items())]


def given(trial: Trial, samples: Samples) -> float:
    """Energy that the display gave beyond what the world's energies lost [J], from motion and wrench alone.

    A device that moves by T v+ in a tick with an impulse is semi-implicit: a mass moves by T (v- + v+)/2 then. Where
    the controller shapes the inertia of the device, its drive has the energy of that inertia.
    """
    names = ["", *(f"{name}_" for name in trial.experiment.hand_names)]
    stored = np.sum([samples[f"energy_{kind}"] for kind in ("kinetic", "potential", "elastic")], axis=0)
    total = np.zeros(len(samples))
    for hand in names:
        twist, wrench = samples.twist(f"{hand}hand"), samples.wrench(f"{hand}rendered")
        mean = 0.5 * (twist[1:] + twist[:-1]) / trial.experiment.rate
        moved = mean.copy()
        moved[:, :3] = np.diff(samples.group(f"{hand}hand", "px", "py", "pz"), axis=0)
        pushed = np.abs(moved - twist[1:] / trial.experiment.rate)[:, :3].max(axis=1) < 1e-12
        pushed &= samples["colliding"][:-1] > 0 if "colliding" in samples.names else False
        moved[pushed] = mean[pushed]
        total[1:] += np.cumsum(np.sum(wrench[:-1] * moved, axis=1))
        device = trial.hands[hand.removesuffix("_")].coupled_inertias.device
        if device is not None and trial.experiment.controller.type == "impedance_shaping":
            total -= 0.5 * (np.square(twist) @ np.repeat(device, 3))
    return float(np.max(total - np.maximum(0.0, stored[0] - stored)))


def outcome(number: int) -> str:
    """Outcome of a variant; asserts that it has no energy that is not explained."""
    name, settings = variant(number)
    shown = f"{name} {' '.join(settings)}"
    try:
        (trial,) = load(name, settings)
        trial = trial.in_mode("offline")
        samples = analysis_of(trial.experiment).run_unrecorded(trial)
    except ParameterError:
        return "refused"
    except (UnstableError, DeviceError):
        return "failed"
    if not all(np.isfinite(samples[column]).all() for column in samples.names):
        return "failed"
    verdict = verdict_of(trial, samples)
    if verdict.failure:
        return "failed"
    if verdict.verdict == "active":
        return "expected"
    assert given(trial, samples) <= ALLOWED + 1e-3, f"{shown}: done, though the display gave {given(trial, samples)} J"
    return "passive"


def case(number: int, folder: Path) -> Outcome:
    """Some variants; those of the test suite are the first."""
    return batch(BATCH * number)


def batch(first: int) -> Outcome:
    """The variants from number `first` on."""
    ends, faults = [], []
    for one in range(first, first + BATCH):
        try:
            ends.append(outcome(one))
        except AssertionError as error:
            faults.append(str(error))
        except Exception as error:  # nothing else may come out of a trial
            name, settings = variant(one)
            faults.append(f"{name} {' '.join(settings)}: {type(error).__name__}: {error}")
    counts = ", ".join(f"{ends.count(end)} {end}" for end in sorted(set(ends)))
    return Outcome(f"variants {first} to {first + BATCH - 1}: {counts}", faults, BATCH)
