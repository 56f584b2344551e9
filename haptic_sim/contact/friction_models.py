"""Friction models as parts: laws of this package, which are branches of one kernel, and laws of others, which it calls.

A law of another package is a kernel

    law(touch, keys, bond, friction)

which is called for each contact that presses, once or a few times in a tick, in the servo thread. It reads

- `touch`: a `Touch`, what friction depends on;
- `keys` (n,): the numbers that its part's `keys` returns;

and changes

- `bond` (5,): what the contact remembers: three numbers z of its own, in world axes if they are a strain [m]; a
  stiffness K [N/m], so that 1/2 K |z|^2 is what the contact stores [J]; and whether it slides (0: no). All are 0 when
  a contact begins;
- `friction` (4,): force on B in world axes [N], and a viscosity [N s/m], whose force acts implicitly at the velocity
  after the step. All are 0 before the call.

Whatever it gives, the force is finite, tangential and at most mu_s N, the viscous force also (`foreign_friction`). Its
work is in the energy balance as that of friction. A contact that does not slide counts as an elastic bond only where
the force is -K z, and z was stretched by the slip of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numba
import numpy as np
from numba.core import types

from haptic_sim import kernels
from haptic_sim.parts import Kind, Part

NONE, RESET_INTEGRATOR, KARNOPP, DAHL, COULOMB, FOREIGN = range(6)
STICKS, BREAKS_AWAY, SLIDES = 0, 1, 2  # sliding: slower than the dead band ever since it broke away, or faster once


class Touch(NamedTuple):
    """Inputs of the friction law of another package at a contact.

    Attributes:
        vx, vy, vz: sliding velocity of B relative to A in world axes, in the tangent plane [m/s].
        speed: its magnitude [m/s].
        normal_force: N [N].
        static, kinetic: largest friction at rest mu_s N, and friction of sliding mu_k N [N].
        breakaway, deadband, damping: keys of `contact.friction` [m], [m/s], [N s/m].
        mobility: w, a bound of the velocity that unit impulses at all contacts cause [1/kg]: bonds are stable where
            h^2 K w < 4.
        period: h [s].
    """

    vx: float
    vy: float
    vz: float
    speed: float
    normal_force: float
    static: float
    kinetic: float
    breakaway: float
    deadband: float
    damping: float
    mobility: float
    period: float


_ARRAY = types.Array(types.float64, 1, "C")
ARGUMENTS = (numba.typeof(Touch(*np.zeros(12).tolist())), _ARRAY, _ARRAY, _ARRAY)


class FrictionModelParameters(Part):
    """Parameters of a friction model of sustained contact."""

    CODE: ClassVar[int] = FOREIGN
    """The model as kernels know it."""
    LAW: ClassVar[Any] = None
    """The kernel of a law of another package, see the module."""
    USES: ClassVar[frozenset[str]] = frozenset({"static", "kinetic", "breakaway", "deadband", "damping"})
    """Keys of `contact.friction` that it uses."""

    def keys(self) -> tuple[float, ...]:
        """Numbers that the law gets; by default all numbers among the keys, in their order."""
        values = [getattr(self, name) for name in type(self).model_fields]
        return tuple(float(one) for one in values if not isinstance(one, str))

    def address(self) -> int:
        """Address of the compiled law; 0 for the laws of this package."""
        if self.CODE != FOREIGN:
            return 0
        law = type(self).LAW
        if law is None:
            raise TypeError(f"{type(self).__name__}: has no LAW")
        return kernels.address_of(law, ARGUMENTS)


FRICTION_MODELS = Kind("friction_models", FrictionModelParameters, by_name=True)
AnyFrictionModelParameters = Annotated[FrictionModelParameters, FRICTION_MODELS]


class NoFrictionParameters(FrictionModelParameters):
    """No friction."""

    CODE: ClassVar[int] = NONE
    USES: ClassVar[frozenset[str]] = frozenset()
    ABSENT: ClassVar[bool] = True

    type: Literal["none"] = "none"

    def without_effect(self, experiment: Any) -> Iterator[tuple[str, set[str] | None, str]]:
        """Keys of an experiment that it leaves unused."""
        others = set(type(experiment.contact.friction).model_fields) - {"model"}
        yield "contact.friction", others, "contact.friction.model = none; name a model for friction"


class ResetIntegratorParameters(FrictionModelParameters):
    """Bonds that stick with damping, and slide with the length of kinetic friction (THESIS 4.6 to 4.8)."""

    CODE: ClassVar[int] = RESET_INTEGRATOR

    type: Literal["reset_integrator"] = "reset_integrator"


class KarnoppParameters(FrictionModelParameters):
    """Bonds that stick, and Coulomb friction that slides (THESIS 4.9, 4.10)."""

    CODE: ClassVar[int] = KARNOPP
    USES: ClassVar[frozenset[str]] = frozenset({"static", "kinetic", "breakaway", "deadband"})

    type: Literal["karnopp"] = "karnopp"


class DahlParameters(FrictionModelParameters):
    """Bonds of which only displacements matter, not their speed (THESIS 4.11, 4.12)."""

    CODE: ClassVar[int] = DAHL
    USES: ClassVar[frozenset[str]] = frozenset({"static", "kinetic", "breakaway"})

    type: Literal["dahl"] = "dahl"


class CoulombParameters(FrictionModelParameters):
    """Friction against the motion, viscous in the dead band; has no memory, and creeps (THESIS figure 4.8)."""

    CODE: ClassVar[int] = COULOMB
    USES: ClassVar[frozenset[str]] = frozenset({"static", "kinetic", "deadband"})

    type: Literal["coulomb"] = "coulomb"
