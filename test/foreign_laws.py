"""Friction laws as another package would have them."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from haptic_sim.contact.friction_models import FrictionModelParameters
from haptic_sim.geometry.textures import TextureParameters
from haptic_sim.kernels import kernel
from haptic_sim.parameters import quantity


@kernel
def own_dahl(touch, keys, bond, friction):
    """The law of Dahl as `friction_forces` has it, written once more: a bond that relaxes as it slides."""
    z0 = max(touch.breakaway, 0.5 * touch.period * touch.period * touch.mobility * touch.static)
    K, z_k = touch.static / z0, z0 * touch.kinetic / touch.static
    keep = bond[3] / K if bond[3] < K else 1.0
    zx, zy, zz = keep * bond[0], keep * bond[1], keep * bond[2]
    slides = bond[4] != 0.0
    if slides and (zx * touch.vx + zy * touch.vy + zz * touch.vz < 0.0 or touch.speed == 0.0):
        slides = False
    if not slides:
        x, y, z = zx + touch.period * touch.vx, zy + touch.period * touch.vy, zz + touch.period * touch.vz
        slides = x * x + y * y + z * z > z0 * z0
        if not slides:
            zx, zy, zz = x, y, z
    if slides:
        decay = math.exp(-touch.period * touch.speed / z_k)
        part = (1.0 - decay) * z_k / touch.speed
        zx, zy, zz = decay * zx + part * touch.vx, decay * zy + part * touch.vy, decay * zz + part * touch.vz
    bond[0], bond[1], bond[2], bond[3], bond[4] = zx, zy, zz, K, 1.0 if slides else 0.0
    friction[0], friction[1], friction[2] = -K * zx, -K * zy, -K * zz


class OwnDahlParameters(FrictionModelParameters):
    """The law of Dahl, once more."""

    LAW: ClassVar = own_dahl

    type: Literal["own_dahl"] = "own_dahl"


@kernel
def constant(touch, keys, bond, friction):
    """The force that the keys say, along the motion."""
    if touch.speed > 0.0:
        scale = keys[0] * touch.kinetic / touch.speed
        friction[0], friction[1], friction[2] = scale * touch.vx, scale * touch.vy, scale * touch.vz


class DrivingParameters(FrictionModelParameters):
    """Friction that drives: along the motion, where `part` is positive."""

    LAW: ClassVar = constant

    type: Literal["driving"] = "driving"
    part: float = quantity(1.0, description="Part of kinetic friction")


@kernel
def answer(touch, keys, bond, friction):
    """The keys, whatever they are."""
    for d in range(4):
        friction[d] = keys[d]
    bond[3] = keys[4]


class AnswerParameters(FrictionModelParameters):
    """Any answer."""

    LAW: ClassVar = answer

    type: Literal["answer"] = "answer"
    x: float = quantity(0.0, description="Force along x")
    y: float = quantity(0.0, description="Force along y")
    z: float = quantity(0.0, description="Force along z")
    viscosity: float = quantity(0.0, description="Viscosity")
    stiffness: float = quantity(0.0, description="Stiffness of the bond")


@kernel
def waves(place, keys, answer):
    """Waves along x and y: amplitude, wavelength, and what is wrong with them."""
    amplitude, wave, fault = keys[0], 2.0 * math.pi / keys[1], keys[2]
    x, y = wave * place.position[0], wave * place.position[1]
    answer.height[0] = 0.5 * amplitude * (math.sin(x) + math.sin(y) - 2.0)
    answer.gradient[0] = 0.5 * amplitude * wave * math.cos(x)
    answer.gradient[1] = 0.5 * amplitude * wave * math.cos(y)
    if fault == 1.0:
        answer.gradient[1] = 0.0
    elif fault == 2.0:
        answer.height[0] += amplitude


class WavesParameters(TextureParameters):
    """Waves along x and y; fault: 1 a gradient of another height, 2 too high, 3 a bound that is too small."""

    LAW: ClassVar = waves

    type: Literal["waves"] = "waves"
    wavelength: float = quantity(0.005, unit="m", description="Length of a wave", gt=0.0)
    fault: float = quantity(0.0, description="What is wrong")

    @property
    def largest_slope(self) -> float:
        """Of both waves."""
        return (0.1 if self.fault == 3.0 else 1.0) * math.sqrt(2.0) * math.pi * self.amplitude / self.wavelength
