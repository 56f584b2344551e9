"""The contact response of a step: the frame that all contact methods share.

A method turns the rows of a step into impulses p along (normal, tangent 1, tangent 2) of each contact. This module
sets up the contacts in scaled coordinates, adds the effects of the impulses on the bodies and on the hand, and divides
the dissipated energy between damping, friction and impact. The methods are in `compliant` (penalties, with or without
collision impulses) and `rigid` (complementarity); `methods` chooses.

A step is one call from Python (`build_step`): `begin_step`, then the kernel of a method, which finds its impulses
between `set_up` and `add_up`, then `end_step`.

Contact state (THESIS 4.2): FREE without contacts, COLLIDING in a step with collision impulses, RESTING otherwise.
An impulse p in a step of length T is the wrench J^T p / T of that step (THESIS 4.45).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from haptic_sim.contact.friction import FrictionLaw, FrictionParameters
from haptic_sim.contact.moments import (
    Moments,
    begin_impact_moments,
    collect_moments,
    driven_work,
    keep_moments_passive,
    remember_moments,
    resists,
    settle_moments,
    work_of_moments,
)
from haptic_sim.contact_rows import ContactRows, RowArrays
from haptic_sim.dynamics.energy import (
    BY_MOTION,
    CHANGED,
    DAMPING,
    ELASTIC,
    EXCEEDED,
    FRICTION,
    HELD,
    IMPACT,
    IMPACTS,
    INJECTED,
    NET,
    NUMERICAL,
    PENALTIES,
    SUPPLIED,
    EnergyBalance,
    open_balance,
    watch_balance,
)
from haptic_sim.dynamics.joints import (
    BY_DAMPING,
    BY_FRICTION,
    BY_LIMITS,
    begin_joints,
    end_joints,
    find_early_damping,
    settle_joints,
)
from haptic_sim.dynamics.multibody import FREE as FREE_BODY
from haptic_sim.dynamics.multibody import BodyArrays, Multibody, find_velocity, push_scaled
from haptic_sim.dynamics.scaled import (
    ScaledContacts,
    append_planes,
    apply_impulse,
    apply_impulses,
    assemble,
    assemble_rotations,
    constrain_contacts,
    contact_velocities,
    fill_rows,
    find_frames,
    twist_of,
    velocities_of,
)
from haptic_sim.kernels import kernel
from haptic_sim.messages import FREE
from haptic_sim.packed import Packed
from haptic_sim.parameters import Gains, Parameters, quantity, six
from haptic_sim.records import allocate, array, part, record, shared, value

ImpulseRendering = Literal["full", "saturated", "scaled", "spread"]
Rendering = Literal[ImpulseRendering, "printed_spread"]
"""The same, with the way to spread."""
LIMITED: tuple[Rendering, ...] = ("scaled", "spread", "printed_spread")
"""Those that the tool's side does."""

CONTACTS, SLIDING, STATE, UNRESOLVED, REMEMBERED, BONDS, NOW, PENDING, OF_HAND, UNFILLED, FORESEEN, EARLY = range(12)
"""Places in `ResponseArrays.counts`.

The first four: see `ContactResponse`. Of the memory of a method, REMEMBERED: contacts of the step before, BONDS: how
many of these have bonds of friction, NOW: which of two memories holds them, PENDING: whether impulses are still to be
spread. OF_HAND: whether all contacts are of one free body with what does not move, so that what a step needs of them
follows from the hand; UNFILLED: of how many of these the rows of W are still to be filled, see `fill_scaled`.
FORESEEN: see `foresee`. EARLY: see `damp_early`.
"""
STORED, RELEASED, KEPT, ASLEEP, LOST, FIELDS = range(6)
"""Places in `ResponseArrays.amounts` [J].

STORED: see `ContactResponse`, without ASLEEP: that of contacts of bodies that sleep; RELEASED: what bonds of contacts
that ended stored; KEPT: what a step adds to the energy that the impulses of a spread owe as restitution, which is
elastic meanwhile; LOST: what the whole step takes if joints return from their limits, else infinity; FIELDS: what the
fields of the world have stored.
"""


class ContactParameters(Parameters):
    """Material of all contacts that have none of their own, and how contacts are resolved."""

    stiffness: float = quantity(
        4000.0,
        unit="N/m",
        description="Stiffness of a penalty contact; left out in a world of bodies with penalty = consistent: at least "
        "this, and what carries the bodies that lie on each other (docs/contact.md)",
        live=True,
        gt=0.0,
        le=1e7,
    )
    damping: float = quantity(
        30.0,
        unit="N s/m",
        description="Damping of a penalty contact; left out beside stiffness: in proportion to it",
        live=True,
        ge=0.0,
        le=1e5,
    )
    per: Literal["point", "wall"] = quantity(
        "point",
        description="Whether stiffness and damping are those of a contact point, or are divided among the points of a "
        "wall",
    )
    penalty: Literal["consistent", "explicit", "printed"] = quantity(
        "consistent",
        description="Law of a penalty: consistent: a contact begins without a force of its spring, springs act beside "
        "impulses too, and a step that would add energy is implicit; explicit: THESIS (4.5), clamped, with the whole "
        "overlap from the first step on, and impulses replace it; partly implicit where it is too stiff for the rate; "
        "printed: (4.5) without a clamp, so that "
        "its damper pulls at a point that leaves",
    )
    restitution: float = quantity(0.0, description="Coefficient of restitution", live=True, ge=0.0, le=1.0)
    multiple_impacts: Literal["simultaneous", "sequential", "springs"] = quantity(
        "simultaneous",
        description="How impacts that begin together share out: simultaneous: all contacts obey their restitution at "
        "once (THESIS 4.36); sequential: one pair of bodies after the other, the fastest approach first, so that an "
        "impulse travels through a row of balls; springs: as springs that are compressed and released together, each "
        "of which returns the part e^2 of its energy; hybrid always has one contact after the other",
    )
    self_collision: Literal["consistent", "printed"] = quantity(
        "consistent",
        description="For impulse_augmented: what obeys the restitution where two moving bodies collide: consistent: "
        "their relative velocity (THESIS 4.21); printed: the velocity of each alone (4.22, 4.23), which keeps no "
        "momentum",
    )
    friction: FrictionParameters = quantity(
        FrictionParameters(),
        description="Friction of the contacts; the methods constraint and hybrid use the coefficients only",
    )
    margin: float = quantity(
        0.005,
        unit="m",
        description="Distance below which two bodies are in contact, with the methods constraint and hybrid",
        gt=0.0,
        le=1.0,
    )
    bounce: float = quantity(
        0.02,
        unit="m/s",
        description="Approach speed above which a contact bounces, with the methods constraint and hybrid",
        ge=0.0,
        le=10.0,
    )
    facets: int = quantity(
        8,
        description="Facets of the friction cone of the Lemke solver, an even number; 2 in planar worlds",
        ge=4,
        le=32,
    )
    solver: Literal["automatic", "lemke", "gauss_seidel"] = quantity(
        "automatic", description="Solver of the complementarity problem; automatic takes Lemke's up to lemke_contacts"
    )
    lemke_contacts: int | None = quantity(
        None,
        description="Largest number of contacts that Lemke's solver takes; null: 2 with automatic, beyond which it is "
        "slower than Gauss-Seidel, otherwise 64",
        ge=1,
        le=64,
    )
    tolerance: float = quantity(
        1e-9,
        unit="m/s",
        description="Tolerance of the Gauss-Seidel solver, in velocities of the contacts",
        gt=0.0,
        le=1e-3,
    )
    cluster: float = quantity(
        0.0, unit="m", description="Distance below which two contacts of the same bodies are merged", ge=0.0, le=1.0
    )

    @property
    def most_lemke(self) -> int:
        """Most contacts that go to the Lemke solver; 0: none."""
        if self.solver == "gauss_seidel":
            return 0
        return self.lemke_contacts or (2 if self.solver == "automatic" else 64)


class DeviceLimits(Parameters):
    """What a device can render, and what is done about impulses that exceed it (THESIS 4.5.2)."""

    impulse_rendering: ImpulseRendering = quantity(
        "spread",
        description="full: device limitations are ignored, any wrench is rendered; saturated: the device clips to "
        "wrench_limit; scaled: impulses are scaled to it where they arise; spread: and what they lack is given in the "
        "steps that follow. All but full clip what is left. Where it is left out and there are no impulses to spread, "
        "or the tool is a linkage, it is saturated; a tool under exact constraints needs full or saturated",
    )
    wrench_limit: Gains = quantity(
        (15.0, 15.0, 15.0, 1.0, 1.0, 1.0),
        unit="N, N m",
        description="What the device can render, in each direction: all six, or x, y and rotation about z; in space, "
        "such three also bound the force along z by the smaller force, and all torques by the torque",
    )

    spread: Literal["consistent", "printed"] = quantity(
        "consistent",
        description="How spread does it: consistent: springs act beside the impulses, which get what these leave of "
        "wrench_limit, and the restitution that is owed is remembered; printed: impulses replace the penalties, and "
        "are found anew each step (THESIS 4.5.2)",
    )

    @property
    def rendering(self) -> Rendering:
        """What is done about impulses that exceed the limit, with the way to spread."""
        printed = self.impulse_rendering == "spread" and self.spread == "printed"
        return "printed_spread" if printed else self.impulse_rendering

    def limit(self) -> np.ndarray:
        """The limit in all six directions (6,) [N, N m]; infinite where the device renders everything."""
        if self.impulse_rendering == "full":
            return np.full(6, np.inf)
        return np.array(six(self.wrench_limit))


WELL_SAMPLED = 0.1
"""h^2 k a up to which springs that are held over a step are not what adds much energy; they are unstable from 4 on."""

UNLIMITED = DeviceLimits(impulse_rendering="full")
"""Limits where there is no device, or one that is moved."""


@record
class Impulses(NamedTuple):
    """Impulses that a method finds at the contacts in use."""

    p: np.ndarray = array("impulse on B along normal, tangent 1, tangent 2", "contacts", 3, unit="N s")
    spring: np.ndarray = array("part of the normal impulse that a penalty spring gives", "contacts", unit="N s")
    impact: np.ndarray = array(
        "whether the normal impulse is of a collision or of a rigid contact", "contacts", dtype=np.bool_
    )
    bond: np.ndarray = array("part of the tangential impulse that a sticking bond gives", "contacts", 2, unit="N s")
    loosened: np.ndarray = array(
        "energy that the bond lost, other than by that part at the velocity of the bodies", "contacts", unit="J"
    )


@record
class Material(NamedTuple):
    """`ContactParameters` as kernels have them."""

    stiffness: float = value("penalty stiffness", unit="N/m")
    damping: float = value("penalty damping", unit="N s/m")
    shared: bool = value("whether the points of a wall share stiffness and damping")
    pulls: bool = value("whether a damper may pull, as printed")
    begins_free: bool = value("whether the spring of a contact begins without a force")
    friction: FrictionLaw = value("friction law")
    bounce: float = value("approach velocity beyond which rigid contacts bounce", unit="m/s")
    lemke: int = value("most contacts that go to the Lemke solver; -1: none do, not even a step without contacts")
    tolerance: float = value("tolerance of the Gauss-Seidel solver", unit="m/s")

    @classmethod
    def of(cls, parameters: ContactParameters) -> Material:
        return cls(
            stiffness=parameters.stiffness,
            damping=parameters.damping,
            shared=parameters.per == "wall",
            pulls=parameters.penalty == "printed",
            begins_free=parameters.penalty == "consistent",
            friction=FrictionLaw.of(parameters.friction),
            bounce=parameters.bounce,
            lemke=parameters.most_lemke or -1,
            tolerance=parameters.tolerance,
        )


@record
class ResponseArrays(NamedTuple):
    """What the kernels of a step work on; see `ContactResponse` for what it shares."""

    rows: RowArrays = value("contacts")
    body: BodyArrays = value("bodies that they are of")
    scaled: ScaledContacts = value("contacts in scaled coordinates")
    impulses: Impulses = part(Impulses, "impulses of the step")
    moments: Moments = value("rolling and torsional friction")
    material: Material = value("material of the contacts")
    tangent: np.ndarray = array("first tangents in world axes", "contacts", 3)
    before: np.ndarray = array("velocity before the step along normal, tangent 1, tangent 2", "contacts", 3, unit="m/s")
    after: np.ndarray = array("the same after the step", "contacts", 3, unit="m/s")
    u_before: np.ndarray = array(
        "scaled velocity that contacts meet: before the step, or as early damping of joints leaves it",
        "nv",
        unit="kg^1/2 m/s",
    )
    du: np.ndarray = array("change of the scaled velocity by the contacts", "nv", unit="kg^1/2 m/s")
    wrench: np.ndarray = array("wrench of the contacts at the hand, force and torque in world axes", 6, unit="N, N m")
    u: np.ndarray = array(
        "scaled velocity: at first without contacts, in the end after the step", "nv", unit="kg^1/2 m/s"
    )
    external: np.ndarray = array("change of u in the step by forces other than contacts", "nv", unit="kg^1/2 m/s")
    counts: np.ndarray = array("numbers of contacts and of what methods remember, see CONTACTS", 12, dtype=np.int64)
    amounts: np.ndarray = array("energies, see STORED", 6, unit="J")
    energy: np.ndarray = array("energy balance at the beginning of the step", 8, unit="J")
    flows: np.ndarray = shared("values of the `EnergyBalance`", 8, unit="J")
    start: np.ndarray = shared("energy at the start, of the `EnergyBalance`", 1, unit="J")
    watch: np.ndarray = shared("what the `EnergyBalance` watches", 11)
    method: Any = value("memory of the method")


class Keeper(NamedTuple):
    """What keeps the memory of a contact method while bodies sleep.

    Attributes:
        numbers: what it remembers of a contact, see `records.numbers`.
        lay_aside: kernel of packed `ResponseArrays`, `SleepArrays` and two numbers: take the memory of the contacts
            from the first to before the second out of that of the step before, and fill in their elastic energy.
        take_up: kernel of packed `ResponseArrays`, `SleepArrays`, the number of a contact, and a row that the step
            before did not use: give its memory back, as if that had been its row.
    """

    numbers: Any
    lay_aside: Any
    take_up: Any


class ContactResponse:
    """Contacts on the bodies of a model; derived classes are the methods.

    Args:
        body: whose contacts they are.
        parameters: material; may be replaced between two steps.
        capacity: rows at most.

    Attributes:
        du: what the contacts of the last step do to the scaled velocity, (nv,); u: that after the step, (nv,).
        wrench: the same at the hand, in world axes [N, N m] (6,); of linkages only contacts of the held body itself
            count, see `haptic_sim.hand.Hand.wrench` for all.
        balance: where the energy is; energy: the same as of the beginning of the step, (8,) [J].
        counts: contacts, state and more as kernels have them, see `ResponseArrays`.
    """

    _respond: Callable[[Packed, int, float], None]
    """Kernel of the method: packed (of `ResponseArrays`), count, period."""
    step_kernel: Any
    """The same within a step, see `build_step`: packed, count, wrench, period."""
    _method: Any
    """Memory of the method, a record."""
    foreign: str = ""
    """Name of the method, if it is of another package."""
    SPRUNG: ClassVar[bool] = False
    """Whether there are springs, which moments of rolling and torsional friction may press, see `moments`."""

    DERIVED = ("_packed", "_packed_of")

    def __init__(self, body: Multibody, parameters: ContactParameters, capacity: int):
        self.parameters = parameters
        self.capacity = capacity
        self._scaled = ScaledContacts.allocate(capacity, *body.contact_trees)
        self.balance = balance = EnergyBalance()
        self._arrays = a = allocate(
            ResponseArrays,
            {"contacts": capacity, "nv": body.nu},
            **dict.fromkeys(("rows", "body", "material", "method")),  # see `pack`
            scaled=self._scaled,
            moments=Moments.allocate(capacity, body, self.SPRUNG),
            flows=balance.values,
            start=balance.start,
            watch=balance.watch,
        )
        self.impulses, self.tangent, self.energy = a.impulses, a.tangent, a.energy
        self.du, self.wrench, self.u, self.counts = a.du, a.wrench, a.u, a.counts
        self.counts[STATE] = FREE
        self._packed: Packed | None = None
        self._packed_of: tuple[Any, ...] = ()

    @property
    def scaled(self) -> ScaledContacts:
        """Contacts of the last step in scaled coordinates."""
        if self._packed is not None:
            fill_scaled(self._packed)
        return self._scaled

    @property
    def contacts(self) -> int:
        """Number of contacts."""
        return int(self.counts[CONTACTS])

    @property
    def sliding(self) -> int:
        """Number of contacts that slide."""
        return int(self.counts[SLIDING])

    @property
    def state(self) -> int:
        """FREE, COLLIDING or RESTING."""
        return int(self.counts[STATE])

    @property
    def unresolved(self) -> int:
        """Steps whose impulses did not converge and were damped."""
        return int(self.counts[UNRESOLVED])

    @property
    def invalid_steps(self) -> int:
        """Steps in which a contact had no impulse, because the method's answer was not finite."""
        return 0

    @property
    def stored(self) -> float:
        """Energy of springs and bonds before the step, and of restitution that is owed [J]."""
        return float(self._arrays.amounts[STORED] + self._arrays.amounts[ASLEEP])

    @property
    def of_fields(self) -> np.ndarray:
        """Energy that fields have stored, which whoever lets them act fills in before a step [J], (1,)."""
        return self._arrays.amounts[FIELDS:]

    @property
    def margin(self) -> float:
        """Up to which separation contacts matter [m]."""
        return 0.0

    @property
    def keeper(self) -> Keeper | None:
        """What keeps its memory while bodies sleep; None: they cannot."""
        return None

    def respond(self, rows: ContactRows, body: Multibody, external: np.ndarray, period: float) -> None:
        """Find du, u, contacts and state for a step, and the wrench where the held body moves by itself.

        Args:
            rows: contacts of `body` as it is.
            external: what forces other than contacts do to u during the step, (nv,).
            period: [s].
        """
        self._arrays.external[:] = external
        self._respond(self.pack(rows, body), rows.count, period)

    def step(self, rows: ContactRows, body: Multibody, wrench: np.ndarray, period: float) -> None:
        """The same with gravity, bias and a wrench at the hand [N, N m] (6,); books it, and finds how the bodies move.

        That is `body.arrays.v` after the step, and `body.arrays.step`, by which the configuration moves.
        """
        self.step_kernel(self.pack(rows, body), rows.count, wrench, period)

    def conclude(self, rows: ContactRows, body: Multibody, wrench: np.ndarray, period: float) -> None:
        """After `respond`: book what was done, and find how the bodies move, as in `step`."""
        end_step(self.pack(rows, body), rows.count, wrench, period)

    def explain_excess(self, rows: ContactRows, period: float) -> str:
        """What added more energy than is left of the supplied one by the beginning of the last step, and what to do.

        Of penalties only springs do: dampers only take. With h^2 k a <= 1 a step of springs adds at most the kinetic
        energy that there is (see `penalties`), where a is the largest eigenvalue of W W^T, each row shared as its
        stiffness is; what overlaps add meanwhile is in proportion to k.
        """
        watch, stiffness, rate = self.balance.watch, self.parameters.stiffness, 1.0 / period
        values = self.balance.values
        supplied, numerical = watch[SUPPLIED], values[NUMERICAL]
        left = max(0.0, watch[NET] - values[DAMPING] - values[FRICTION] - values[IMPACT])
        beyond = f"where {supplied:.3g} J were supplied and {left:.3g} J of them are left"
        if watch[EXCEEDED] == BY_MOTION:
            return (
                f"unstable: integrating the bodies' motion by steps added {numerical:.3g} J, {beyond}: rate = {rate:g} "
                "Hz is too low for motion as fast as this; choose a higher one"
            )
        if self.foreign:
            return (
                f"unstable: contacts of environment.method = {self.foreign} added {numerical:.3g} J, {beyond}: it "
                f"drives or pulls, is too stiff at rate = {rate:g} Hz, or says wrongly what it stores; check the signs "
                "of its impulses, and `stored`"
            )
        parameters = self.parameters
        printed = [
            f"contact.{key} = printed"
            for key, is_printed in (
                ("friction.form", parameters.friction.code != 0 and parameters.friction.form == "printed"),
                ("penalty", parameters.penalty == "printed"),
            )
            if is_printed
        ]
        if printed:
            return (
                f"unstable: contacts whose laws are explicit, held over a step, added {numerical:.3g} J, {beyond}: "
                f"{' and '.join(printed)}, for which stiffness or damping is too large at rate = {rate:g} Hz; "
                "choose consistent, or a higher rate"
            )
        if self.remedy and period * period * stiffness * self._mobility(rows) < WELL_SAMPLED:
            return (
                f"unstable: overlaps that grew while impulses replaced penalties stored {numerical:.3g} J in springs, "
                f"{beyond}: {self.remedy}"
            )
        return (
            f"unstable: springs of penalties, held over a step, added {numerical:.3g} J, {beyond}: contact.stiffness = "
            f"{stiffness:g} N/m is too large for these bodies at rate = {rate:g} Hz; choose a smaller stiffness, a "
            "higher rate, or environment.method = constraint"
        )

    @property
    def remedy(self) -> str:
        """What to do about overlaps that grow while impulses replace penalties; empty if there are no such impulses."""
        return ""

    def _mobility(self, rows: ContactRows) -> float:
        """Largest eigenvalue of W W^T over the normal rows of contacts that overlap [1/kg]."""
        touching = [i for i in range(rows.count) if rows.separation[i] < 0.0]
        W, scaled = np.zeros((len(touching), self.u.size)), self.scaled
        for k, i in enumerate(touching):
            for side in range(2):
                tree = scaled.tree[i, side]
                if tree >= 0:
                    first, size = scaled.start[tree], scaled.size[tree]
                    W[k, first : first + size] += scaled.W[i, 0, side, :size]
            if self.parameters.per == "wall":
                W[k] /= np.sqrt(sum(rows.wall[j] == rows.wall[i] for j in touching))
        return float(np.linalg.norm(W, 2) ** 2) if touching else 0.0

    def pack(self, rows: ContactRows, body: Multibody) -> Packed:
        """What kernels work on."""
        packed, of = self._packed, self._packed_of
        if packed is None or rows is not of[0] or body is not of[1] or self.parameters is not of[2]:
            self.balance.watch[CHANGED] = 1.0
            self._packed_of = rows, body, self.parameters
            packed = self._packed = Packed(
                self._arrays._replace(
                    rows=rows.arrays, body=body.arrays, material=Material.of(self.parameters), method=self._method
                )
            )
        return packed


def build_step(respond: Any) -> Any:
    """The kernel of a whole step, in which the kernel `respond` of a method finds the impulses."""

    @kernel
    def step(packed, count, wrench, period):
        begin_step(packed, wrench, period)
        respond(packed, count, period)
        end_step(packed, count, wrench, period)

    return step


@kernel
def begin_step(packed, wrench, period):
    """Find what gravity, bias and a wrench at the hand do to u."""
    a = packed.arrays
    body = a.body
    push_scaled(body.L, body.start, body.moving, body.J_H, body.bias, wrench, period, a.external)


@kernel
def end_step(packed, count, wrench, period):
    """Enter what was done during the step, in which `wrench` acted at the hand, and find v after it."""
    a = packed.arrays
    body = a.body
    elastic = a.amounts[STORED] + a.amounts[ASLEEP] + body.joints.stored[0] + a.amounts[FIELDS]
    open_balance(a.flows, a.start, body.kinetic_energy[0], body.potential_energy[0], elastic)
    watch_balance(a.flows, a.watch, period * period * body.falling)
    for i in range(a.energy.shape[0]):
        a.energy[i] = a.flows[i]
    _book(packed, count, wrench, period)
    find_velocity(body, a.u, period)


@kernel
def set_up(packed, count, period):
    """Put the contacts of `ResponseArrays` into scaled coordinates, and begin with the laws of the joints."""
    a = packed.arrays
    body = a.body
    a.moments.acts[1] = 0
    a.amounts[LOST] = math.inf
    if body.joints.damped or body.joints.nonsmooth:
        begin_joints(body.joints, body.v, period)
    for j in range(a.u.shape[0]):
        a.u_before[j] = body.u[j]
        a.u[j] = body.u[j] + a.external[j]
    free = body.ahead if body.rank[1] > body.rank[0] else a.u
    scaled, hand, counts = a.scaled, body.p_WH, a.counts
    single = body.single.kind == FREE_BODY and find_frames(count, a.rows, body.W_H, hand, free, scaled, a.tangent)
    counts[OF_HAND] = single and not body.planes
    counts[UNFILLED] = count if single else 0
    counts[FORESEEN] = counts[EARLY] = 0
    if counts[OF_HAND]:
        find_velocities(a, count, body.u, a.before)
        return
    if single:
        fill_scaled(packed)
    else:
        assemble(count, a.rows, body.J_W, body.support, body.tree_of, body.L, free, scaled, a.tangent)
    if body.planes:
        append_planes(count, a.rows, body.start.shape[0], a.scaled)
    if body.rank[1] > 0:
        constrain_contacts(count, a.scaled, body.Q, body.part, body.rank, body.reaction)
    find_velocities(a, count, body.u, a.before)


@kernel
def damp_early(packed, count, period):
    """Let damping of the joints that are `early` act now, so that contacts meet the velocities that it leaves."""
    a = packed.arrays
    a.counts[EARLY] = 1
    change = a.du  # which is not found yet
    find_early_damping(a.body.joints, a.body, period, change)
    for j in range(change.shape[0]):
        a.u_before[j] += change[j]
        a.external[j] -= change[j]
    find_velocities(a, count, a.u_before, a.before)


@kernel
def fill_scaled(packed):
    """Fill the rows of W that `set_up` has left, for what needs them."""
    a = packed.arrays
    body = a.body
    fill_rows(a.counts[UNFILLED], a.rows, body.W_H, body.p_WH, a.scaled, a.tangent)
    a.counts[UNFILLED] = 0


@kernel
def find_velocities(a, count, u, velocity):
    """Fill `velocity` (C, 3) of the contacts with the scaled velocity u."""
    body, scaled = a.body, a.scaled
    if a.counts[OF_HAND]:
        velocities_of(twist_of(body.W_H, u), count, a.rows, body.p_WH, a.tangent, scaled.offset, velocity)
    else:
        contact_velocities(count, scaled, u, velocity)


@kernel
def add_up(packed, count, period):
    """Find what the impulses of `ResponseArrays` do to u and at the hand, and let the joints obey their laws."""
    a = packed.arrays
    if not a.counts[FORESEEN]:
        _add_impulses(packed, count, period)
    end_joints(a.body.joints, a.body, period, a.u, a.du)


@kernel
def foresee(packed, count, period):
    """Find what the impulses and the laws of joints do to u, and the velocities of the contacts after the step.

    `add_up` then need not.
    """
    a = packed.arrays
    a.counts[FORESEEN] = 1
    _add_impulses(packed, count, period)
    find_velocities(a, count, a.u, a.after)


@kernel
def _add_impulses(packed, count, period):
    """Fill wrench and du with what the impulses do, and u with what they and the laws of joints do."""
    a = packed.arrays
    _collect(count, a.rows, a.tangent, a.impulses.p, a.body.hand, a.body.p_WH, period, a.wrench)
    if a.counts[OF_HAND]:
        _push(a.body.W_H, a.wrench, period, a.du)
    else:
        for j in range(a.du.shape[0]):
            a.du[j] = 0.0
        apply_impulses(count, a.scaled, a.impulses.p, a.du)
    if a.moments.acts[1]:
        for j in range(a.du.shape[0]):
            a.du[j] += a.moments.kick[j]
    for j in range(a.u.shape[0]):
        a.u[j] = a.u_before[j] + a.external[j] + a.du[j]
    settle_joints(a.body.joints, a.body, period, a.u)
    a.moments.acts[0] = resists(count, a.rows.resistance)
    if a.moments.acts[0]:
        _resist_rotation(packed, count, period)
    else:
        a.moments.known[0] = 0
        for r in range(a.body.rank[1]):
            a.body.turned[r] = 0.0


@kernel
def resist_impacts(packed, count, period, rubs, replaced):
    """Let rolling and torsional friction be part of impacts, before anything else acts; fills their moments and `kick`.

    Args:
        rubs: whether friction of the impacts obeys Coulomb's law.
        replaced: whether the impulses replace springs, so that overlaps that the moments let grow store energy.
    """
    a = packed.arrays
    body, moments, p, kick, free = a.body, a.moments, a.impulses.p, a.moments.kick, a.moments.u
    if not resists(count, a.rows.resistance):
        return
    fill_scaled(packed)
    _find_rotations(packed, count)
    for j in range(kick.shape[0]):
        kick[j] = a.u_before[j]
    for i in range(count):
        if a.impulses.impact[i]:
            for d in range(3):
                apply_impulse(a.scaled, i, d, p[i, d], kick)
    for j in range(kick.shape[0]):
        free[j] = moments.start[j] = kick[j]
    begin_impact_moments(count, a.scaled, a.rows, a.impulses.impact, rubs, a.before, p, moments)
    known, moments.known[0] = moments.known[0], 0  # those are of moments that last
    settle_moments(count, a.scaled, a.rows, a.tangent, moments, p, kick)
    moments.known[0] = known
    if replaced:
        keep_moments_passive(count, a.scaled, body.joints, period, True, moments, p, kick)
    for j in range(kick.shape[0]):
        moments.start[j], kick[j] = kick[j], 0.0
    for i in range(count):
        moments.mu[i] = 0.0
        for d in range(3):
            moments.of_impact[i, d] = moments.moment[i, d]
            apply_impulse(moments.contacts, i, d, moments.moment[i, d], kick)
    moments.acts[1] = 1


@kernel
def _find_rotations(packed, count):
    """Fill in the rows of the relative rotations at the contacts."""
    a = packed.arrays
    body, moments = a.body, a.moments
    assemble_rotations(count, a.rows, body.J_W, body.support, body.tree_of, body.L, a.u, moments.contacts, a.tangent)
    if body.rank[1] > 0:
        constrain_contacts(count, moments.contacts, body.Q, body.part, body.rank, moments.reaction)


@kernel
def _resist_rotation(packed, count, period):
    """Add rolling and torsional friction to wrench, du and u, and to the tangential impulses that go with it."""
    a = packed.arrays
    body, moments, free, p, of_impact = a.body, a.moments, a.moments.u, a.impulses.p, a.moments.acts[1]
    fill_scaled(packed)
    _find_rotations(packed, count)
    contact_velocities(count, moments.contacts, a.u_before, moments.before)
    for j in range(free.shape[0]):
        free[j] = a.u[j]
        if not of_impact:
            moments.start[j] = a.u_before[j]
    for i in range(count):
        moments.normal[i] = p[i, 0] - (moments.struck[i] if of_impact else 0.0)
    settle_moments(count, a.scaled, a.rows, a.tangent, moments, p, a.u)
    if moments.sprung:
        keep_moments_passive(count, a.scaled, body.joints, period, False, moments, p, a.u)
    remember_moments(count, a.rows, a.tangent, moments, p)
    for r in range(body.rank[1]):
        s = 0.0
        for i in range(count):
            for d in range(3):
                moment = moments.moment[i, d] + (moments.of_impact[i, d] if of_impact else 0.0)
                s += moment * moments.reaction[i, d, r]
        body.turned[r] = s
    contact_velocities(count, moments.contacts, a.u, moments.after)
    for j in range(free.shape[0]):
        a.du[j] += a.u[j] - free[j]
    _collect(count, a.rows, a.tangent, p, body.hand, body.p_WH, period, a.wrench)
    collect_moments(count, a.rows, a.tangent, moments.moment, body.hand, period, a.wrench)
    if of_impact:
        collect_moments(count, a.rows, a.tangent, moments.of_impact, body.hand, period, a.wrench)


@kernel
def _push(W_H, wrench, period, du):
    """Fill du (nv,) with what a wrench at the hand does to the scaled velocity over a period."""
    f0, f1, f2, f3, f4, f5 = wrench[0], wrench[1], wrench[2], wrench[3], wrench[4], wrench[5]
    for k in range(du.shape[0]):
        s = W_H[0, k] * f0 + W_H[1, k] * f1 + W_H[2, k] * f2 + W_H[3, k] * f3 + W_H[4, k] * f4 + W_H[5, k] * f5
        du[k] = period * s


@kernel
def _collect(count, rows, tangent, p, hand, p_WH, period, wrench):
    """Sum up what the impulses that act on the hand's body itself are at the hand."""
    body, coordinate, normal, point = rows.body, rows.coordinate, rows.normal, rows.point
    hx, hy, hz = p_WH[0], p_WH[1], p_WH[2]
    Fx = Fy = Fz = Tx = Ty = Tz = 0.0
    for i in range(count):
        if coordinate[i] >= 0 or (p[i, 0] == 0.0 and p[i, 1] == 0.0 and p[i, 2] == 0.0):
            continue
        sign = 0.0
        if body[i, 1] == hand:
            sign += 1.0
        if body[i, 0] == hand:
            sign -= 1.0
        if sign == 0.0:
            continue
        nx, ny, nz = normal[i, 0], normal[i, 1], normal[i, 2]
        tx, ty, tz = tangent[i, 0], tangent[i, 1], tangent[i, 2]
        bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        s = sign / period
        fx = s * (p[i, 0] * nx + p[i, 1] * tx + p[i, 2] * bx)
        fy = s * (p[i, 0] * ny + p[i, 1] * ty + p[i, 2] * by)
        fz = s * (p[i, 0] * nz + p[i, 1] * tz + p[i, 2] * bz)
        rx, ry, rz = point[i, 0] - hx, point[i, 1] - hy, point[i, 2] - hz
        Fx, Fy, Fz = Fx + fx, Fy + fy, Fz + fz
        Tx, Ty, Tz = Tx + (ry * fz - rz * fy), Ty + (rz * fx - rx * fz), Tz + (rx * fy - ry * fx)
    wrench[0], wrench[1], wrench[2], wrench[3], wrench[4], wrench[5] = Fx, Fy, Fz, Tx, Ty, Tz


@kernel
def _book(packed, count, wrench, period):
    """Work of each mechanism at the mean velocity of the step, which is exactly what changes the kinetic energy.

    What a mechanism that can only dissipate would have added is `numerical`, which closes the balance. Of impacts
    only the sum over all of them is judged: within an impact velocities change in an order that their mean does not
    tell, so that the share of one contact, or of friction, may be negative though the impact as a whole dissipates.
    So may that of damping and friction of joints that impacts turn back. Where damping acts early, the sum over joints
    and impacts is judged.
    """
    a = packed.arrays
    impulses, u, u_after, W_H, energy = a.impulses, a.body.u, a.u, a.body.W_H, a.flows
    before, after, offset, impact, loosened = a.before, a.after, a.scaled.offset, impulses.impact, impulses.loosened
    p, spring, bond, joints = impulses.p, impulses.spring, impulses.bond, a.body.joints.work
    for i in range(6):
        s = 0.0
        for j in range(u.shape[0]):
            s += W_H[i, j] * 0.5 * (u[j] + u_after[j])
        energy[INJECTED] += period * wrench[i] * s
        a.watch[HELD] += period * wrench[i] * (s - a.body.twist[i])
    friction = a.amounts[RELEASED]
    added = friction - energy[ELASTIC]  # by penalties and bonds, with the elastic energy after the step
    normal, tangential = joints[BY_LIMITS] - a.amounts[KEPT], 0.0  # of impacts
    damped = rubbed = 0.0  # by penalties
    struck = joints[BY_LIMITS] != 0.0
    if not a.counts[FORESEEN]:
        find_velocities(a, count, u_after, after)
    if a.counts[EARLY]:
        find_velocities(a, count, u, before)
        if a.moments.acts[0]:
            contact_velocities(count, a.moments.contacts, u, a.moments.before)
    injected = 0.0  # by surroundings that move
    for i in range(count):
        n, t1, t2 = (
            0.5 * (before[i, 0] + after[i, 0]),
            0.5 * (before[i, 1] + after[i, 1]),
            0.5 * (before[i, 2] + after[i, 2]),
        )
        injected -= p[i, 0] * offset[i, 0]
        held = bond[i, 0] * t1 + bond[i, 1] * t2  # work of a bond that sticks, and of all other friction
        slid = (p[i, 1] - bond[i, 0]) * t1 + (p[i, 2] - bond[i, 1]) * t2
        if impact[i]:
            struck = True
            normal -= (p[i, 0] - spring[i]) * n
            tangential -= slid
            friction += loosened[i]
            added += spring[i] * n + held + loosened[i]
        else:
            damped -= (p[i, 0] - spring[i]) * n
            rubbed += loosened[i] - slid
            added += p[i, 0] * n + held + slid
    energy[INJECTED] += injected
    if a.moments.acts[0]:
        turned = 0.0
        for i in range(count):
            energy[INJECTED] += driven_work(i, a.moments, a.moments.moment)
            turned += work_of_moments(i, a.moments, a.moments.moment)
            if a.moments.acts[1]:
                energy[INJECTED] += driven_work(i, a.moments, a.moments.of_impact)
                tangential -= work_of_moments(i, a.moments, a.moments.of_impact)
        friction += max(0.0, -turned)
        added += max(0.0, turned)
    damped, rubbed = max(0.0, damped), max(0.0, rubbed)  # what drives does so by sampling
    added += damped + rubbed
    damped, friction = damped + joints[BY_DAMPING], friction + rubbed + joints[BY_FRICTION]
    normal += min(0.0, damped) + min(0.0, friction)
    damped, friction = max(0.0, damped), max(0.0, friction)
    if tangential < 0.0:
        normal, tangential = normal + tangential, 0.0
    elif normal < 0.0:
        normal, tangential = 0.0, tangential + normal
    if a.counts[EARLY]:  # contacts met less than the velocities before the step: the sum is right
        damped += min(0.0, normal + min(0.0, tangential))
        friction += min(0.0, damped)
    energy[DAMPING] += max(0.0, damped)
    energy[FRICTION] += max(0.0, friction) + max(0.0, tangential)
    energy[IMPACT] += max(0.0, min(normal, a.amounts[LOST]))  # what it takes from implicit springs is not lost
    a.watch[PENALTIES] += added
    if struck:
        moved = 0.0
        for j in range(u.shape[0]):
            moved += a.external[j] * (u[j] - u_after[j])
        a.watch[IMPACTS] += max(0.0, 0.5 * moved)
