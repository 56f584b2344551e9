"""Fields within the steps of a world: their forces, what hands feel of them, and their energies.

A field acts on a point of a body by F = f - B (v - m) + p, the parts of a `FieldAnswer`. Held over a step of the period
T, stiff springs and dampers on light bodies would be unstable. So, as pulls and springs of joints have it, the spring
is that of the trapezoidal rule, x_k + T/4 (v' - v) in place of x_k (v at the middle of the step before, v' of this
one), with the bound k of its stiffness, and the damper is at the end of the step:

    F = f + p - k T/4 (v' - v) - B (v' - m),   v' = v_free + T A F,

with the mobility A of the point, and v_free after the step without F (nor contacts). For one spring of the stiffness
k the step is one of a mass m that is larger by T^2 k / 4, which is stable for every k. It conserves
1/2 m v^2 + 1/2 k x^2 with x at the middle of the step before, as v is: that is the energy which is booked as stored.
For a smaller stiffness than its bound it is stable all the more. With several fields on a body each sees what those
before it do: then each is stable with the inertia that those before it have made larger.

**The energy balance.** `stored` is elastic energy. The work of the damper at the mean velocity of the step less what
the medium supplies is dissipated, where it is not negative; what medium and push do at the mean velocity is injected.
Where the strength s of a field changes, as it is switched on or off, the difference (s' - s) of its stored energy is
injected into the world, or taken from it: `switched` of its own books.

**A region** fades the field in over its edge: with the part w of the depth, the stored energy is w (U - U_far) + U_far,
so that it is conserved there, too: what the field stores beyond U_far, where it ends, pushes out of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.dynamics.energy import DAMPING, INJECTED
from haptic_sim.dynamics.multibody import BodyArrays, Multibody, push_scaled
from haptic_sim.fields.distances import signed_distance
from haptic_sim.fields.law import Drawn, FieldAnswer, FieldPlace, Interval
from haptic_sim.hand import Hand
from haptic_sim.kernels import bind, call_at, kernel
from haptic_sim.laws import address_of
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError, did_you_mean
from haptic_sim.records import allocate, array, record, shared, value

STORED, DISSIPATED, SUPPLIED, SWITCHED = range(4)
"""Places in the books of a field [J]."""
BOOKS = ("stored", "dissipated", "supplied", "switched")


@dataclass(frozen=True)
class Field:
    """A field of a world.

    Attributes:
        name: in the world; kind: its type; title: of the body on which it acts.
        joint: that carries the body; point: at which it acts, in the joint's axes [m], (3,).
        law: kernel; keys: numbers that it gets, (n,).
        region: numbers of the shape within which it acts (`distances`), (m,); m = 0: everywhere.
        edge: depth over which it fades in there [m].
        active: intervals in which it acts [s]; None: always. fade: duration of switching [s].
        stiffness: its largest one [N/m]; 0: unknown.
        drawn: what is drawn of it, its region among that.
        level: part of its strength that switches leave at the start.
    """

    name: str
    kind: str
    title: str
    joint: int
    point: np.ndarray
    law: Any
    keys: np.ndarray
    region: np.ndarray = field(default_factory=lambda: np.zeros(0))
    edge: float = 1.0
    active: tuple[Interval, ...] | None = None
    fade: float = 0.05
    stiffness: float = 0.0
    drawn: Drawn = field(default_factory=Drawn)
    level: float = 1.0

    def strength(self, time: float) -> float:
        """Part of the field that acts at a time [s], from 0 to 1; it fades in straight lines, but for the start."""
        if self.active is None:
            return 1.0
        found = 0.0
        for on, off in self.active:
            if time >= on:
                end = time if off is None else min(time, off)
                found = 1.0 if on == 0.0 else min((end - on) / self.fade, 1.0)
                if off is not None and time > off:
                    found = max(found - (time - off) / self.fade, 0.0)
        return found


@record
class FieldArrays(NamedTuple):
    """A `Field` for kernels; rows of matrices: translation, rotation."""

    body: BodyArrays = value("the bodies")
    energies: np.ndarray = shared("values of the `EnergyBalance`", 8, unit="J")
    address: int = value("address of the compiled law")
    keys: np.ndarray = shared("numbers that the law gets", "keys")
    region: np.ndarray = shared("numbers of the region", "region")
    edge: float = value("depth over which the region begins", unit="m")
    planar: bool = value("whether everything moves in the plane of x and y")
    joint: int = value("joint of the body")
    tree: int = value("its tree")
    p_WJ: np.ndarray = shared("position of the joint", 3, unit="m")
    R_WJ: np.ndarray = shared("orientation of the joint", 3, 3)
    point: np.ndarray = shared("point at which it acts, axes of the joint", 3, unit="m")
    strength: np.ndarray = array("part of the field that acts, and that in the step before; -1: none yet", 2, fill=-1)
    place: Packed = value("`FieldPlace`")
    answer: Packed = value("`FieldAnswer`")
    J: np.ndarray = array("Jacobian of the point", 6, "nv")
    W: np.ndarray = array("J L^-T", 6, "nv")
    A: np.ndarray = array("mobility of the point", 6, 6)
    C: np.ndarray = array("factor of the velocity after the step", 6, 6)
    K: np.ndarray = array("matrix that is solved for the implicit part", 6, 6)
    wrench: np.ndarray = array("wrench at the point in the step, world axes", 6, unit="N, N m")
    drag: np.ndarray = array("the damper's part of it", 6, unit="N, N m")
    driven: np.ndarray = array("velocity of the medium", 6, unit="m/s, rad/s")
    push: np.ndarray = array("force whose work is supplied", 3, unit="N")
    implicit: np.ndarray = array("implicit part of the wrench", 6, unit="N, N m")
    before: np.ndarray = array("scaled velocity before the step", "nu")
    du: np.ndarray = array("change of u in the step without the field, then by it", "nu")
    books: np.ndarray = array("energy that it stores, dissipated, supplied, and got by switching", 4, unit="J")


class Fields:
    """The fields of a world, within the steps of its `Multibody`.

    `begin` before a step lets them act, through the forces of the bodies (`bias`); `end` after it books their work.

    Args:
        body: the bodies, with the tool's hand; hand: there.
        others: bodies and hands of further hands.
        fields: of the world.
        u: scaled velocity after the step (nu,); energies: values of the `EnergyBalance`.
        stored: the energy that all of them have stored, to be filled in [J], (1,).
        period: of a step [s]; planar: whether everything moves in the plane.

    Attributes:
        felt: wrench of the fields on the tool of each hand, at the hand in the last step [N, N m], (hands, 6).

    Raises:
        ParameterError: a stiffness that steps of this period cannot render.
    """

    def __init__(
        self,
        body: Multibody,
        hand: Hand,
        others: Sequence[tuple[Multibody, Hand]],
        fields: tuple[Field, ...],
        u: np.ndarray,
        energies: np.ndarray,
        stored: np.ndarray,
        period: float,
        *,
        planar: bool = False,
    ):
        self.period, self.names = period, tuple(one.name for one in fields)
        self._fields, self._u, self._stored = fields, u, stored
        place, answer = Packed(allocate(FieldPlace)), Packed(allocate(FieldAnswer))
        self._arrays = tuple(_arrays_of(one, body, energies, place, answer, planar) for one in fields)
        if problems := list(too_stiff(body, fields, period)):
            raise ParameterError(problems)
        packed = tuple(map(Packed, self._arrays))
        nothing = np.zeros(6)
        self._act = [(bind(act, one, period, nothing), one) for one in packed]
        self._book = [(bind(book, one, period, u), one) for one in packed]
        self._level = np.array(2 * [[one.level for one in fields]])  # strength by switches, at present and wanted
        hands = [(body, hand), *others]
        self.felt = np.zeros((len(hands), 6))
        self._du = np.zeros(body.nu)
        self._hands = [(one.arrays, its_hand, _listened(self._arrays, one.arrays)) for one, its_hand in hands]
        self._linked = np.zeros(6)

    @property
    def books(self) -> dict[str, dict[str, float]]:
        """Energy of each field at the start of the last step, and its work since the start [J], by name."""
        return {
            name: dict(zip(BOOKS, one.books.tolist(), strict=True))
            for name, one in zip(self.names, self._arrays, strict=True)
        }

    def switch(self, strengths: Mapping[str, float]) -> None:
        """Let fields fade to a part of their strength from now on, those that are not named to all of it.

        Raises:
            ParameterError: there is no such field, or a strength is not from 0 to 1.
        """
        if problems := list(switch_problems(strengths, self.names)):
            raise ParameterError(problems)
        self.set_levels(strengths)

    def set_levels(self, strengths: Mapping[str, float]) -> None:
        """Set strengths that have been checked, as `switch`; names of fields of other bodies are ignored."""
        self._level[1] = [strengths.get(name, 1.0) for name in self.names]

    def begin(self, tick: int, wrench: np.ndarray) -> None:
        """Let the fields act in a step.

        Args:
            tick: of the step.
            wrench: that acts on the tool at its hand besides [N, N m], (6,).
        """
        time, total = max(tick, 0) * self.period, 0.0
        level, wanted = self._level
        for k, (one, arrays) in enumerate(zip(self._fields, self._arrays, strict=True)):
            step = self.period / one.fade
            level[k] += min(max(wanted[k] - level[k], -step), step)
            arrays.strength[0] = level[k] * one.strength(time)
        for call, packed in self._act:
            call(packed, self.period, wrench)
        for arrays in self._arrays:
            total += arrays.books[STORED]
        self._stored[0] = total
        for felt, (body, hand, listened) in zip(self.felt, self._hands, strict=True):
            felt[:] = 0.0
            linked = False
            for arrays in listened:
                if arrays.joint == body.hand:
                    _add_wrench(arrays, body.p_WH, felt)
                else:
                    self._du[:] = arrays.du if not linked else self._du + arrays.du
                    linked = True
            if linked:
                hand.wrench(self._du, self.period, self._linked)
                felt += self._linked

    def end(self) -> None:
        """Book what the fields did in the step."""
        for call, packed in self._book:
            call(packed, self.period, self._u)


def switch_problems(
    strengths: Mapping[str, float], names: Sequence[str], key: str = "environment.fields"
) -> Iterator[str]:
    """Reasons why fields cannot be set to these strengths, by name; one line each."""
    for name, strength in strengths.items():
        if name not in names:
            yield f"{key}.{name}: unknown field" + (did_you_mean(name, names) if names else "; the world has none")
        elif not 0.0 <= strength <= 1.0:
            yield f"{key}.{name} = {strength:g}: must be from 0 to 1"


def _listened(fields: Sequence[FieldArrays], body: BodyArrays) -> tuple[FieldArrays, ...]:
    """The fields that a hand feels: those on its tree."""
    return tuple(one for one in fields if one.tree == body.hand_tree)


def _add_wrench(arrays: FieldArrays, p_WH: np.ndarray, felt: np.ndarray) -> None:
    """Add the wrench at the point, taken at the hand."""
    p, F = arrays.place.lent.position, arrays.wrench
    x, y, z = (p - p_WH).tolist()
    fx, fy, fz, tx, ty, tz = F.tolist()
    felt += (fx, fy, fz, tx + y * fz - z * fy, ty + z * fx - x * fz, tz + x * fy - y * fx)


def _arrays_of(
    one: Field, body: Multibody, energies: np.ndarray, place: Packed, answer: Packed, planar: bool
) -> FieldArrays:
    placement = body.data.oMi[one.joint]
    keys = np.ascontiguousarray(one.keys, float)
    place = Packed(allocate(FieldPlace))  # of its own: the hands read it after all have acted
    address = address_of(one.law, place, answer)
    return allocate(
        FieldArrays,
        {"nv": body.nv, "nu": body.nu},
        body=body.arrays,
        energies=energies,
        address=address,
        keys=keys,
        region=np.ascontiguousarray(one.region, float),
        edge=float(one.edge),
        planar=planar,
        joint=one.joint,
        tree=int(body.trees.of_joint[one.joint]),
        p_WJ=placement.translation,
        R_WJ=placement.rotation,
        point=np.array(one.point, float),
        place=place,
        answer=answer,
    )


def too_stiff(body: Multibody, fields: Sequence[Field], period: float) -> Iterator[str]:
    """A sentence for each field whose stiffness a step of this period cannot render at the start.

    With T^2 k a / 4 = 1, a the largest mobility of the point, an explicit step is at its limit of stability, and the
    mass that an implicit one adds is that of the body: beyond it, the motion is that of the method, not of the field.
    Fields on one body count together.
    """
    for one in fields:
        if not one.stiffness > 0.0:
            continue
        others = sum(other.stiffness for other in fields if other.joint == one.joint and other is not one)
        most = 4.0 / (period * period * _mobility(body, one))
        if one.stiffness + others > most:
            beside = f" beside {others:.4g} N/m of other fields" if others > 0.0 else ""
            yield (
                f"scene.fields.{one.name}: its stiffness of {one.stiffness:.4g} N/m{beside} on {one.title} is too "
                "large for the "
                f"rate of {1.0 / period:g} Hz: together at most {0.99 * most:.3g} N/m; make it softer or the "
                "body heavier, or choose a higher rate"
            )


def _mobility(body: Multibody, one: Field) -> float:
    """Largest eigenvalue of the inverse inertia of the point [1/kg]."""
    a, placement = body.arrays, body.data.oMi[one.joint]
    point = placement.act(one.point)
    J = np.where(a.support[one.joint][:, None], body.J_W, 0.0)
    rows = (J[:, :3] + np.cross(J[:, 3:], point)).T
    D = body.by_coordinates(body.D)
    part = np.flatnonzero(a.support[one.joint])
    whole = np.concatenate([np.arange(s, s + n) for s, n in zip(a.start, a.size, strict=True) if s <= part[0] < s + n])
    rows, D = rows[:, whole], D[np.ix_(whole, whole)]
    return float(np.linalg.eigvalsh(rows @ np.linalg.solve(D, rows.T)).max())


@kernel
def act(packed, period, wrench):
    """Let a field act in a step, beside a wrench on the tool at the hand."""
    a = packed.arrays
    body, tree = a.body, a.tree
    first = body.start[tree]
    end = first + body.size[tree]
    place, answer = a.place.arrays, a.answer.arrays
    for j in range(body.u.shape[0]):
        a.before[j] = body.u[j]
    for i in range(3):
        s = a.p_WJ[i]
        for k in range(3):
            s += a.R_WJ[i, k] * a.point[k]
        place.position[i] = s
    _find_rows(a, first, end)
    for i in range(6):
        s = 0.0
        for j in range(first, end):
            s += a.W[i, j] * body.u[j]
        a.implicit[i] = s  # velocity of the point, until it is solved
    for i in range(3):
        place.velocity[i], place.angular_velocity[i] = a.implicit[i], a.implicit[3 + i]
    # The kinetic energy is that of the middle of the step before, and so is the energy that is stored.
    for i in range(3):
        place.position[i] -= 0.5 * period * place.velocity[i]
    stored, _ = _ask(a)
    for i in range(3):
        place.position[i] += 0.5 * period * place.velocity[i]
    _, stiffness = _ask(a)
    s, old = a.strength[0], a.strength[1]
    switched = (s - old) * stored if old >= 0.0 else 0.0
    a.strength[1] = s
    a.books[STORED] = s * stored
    a.books[SWITCHED] += switched
    a.energies[INJECTED] += switched
    for i in range(3):
        a.push[i] = s * answer.push[i]
        a.driven[i], a.driven[3 + i] = answer.medium[i], answer.spin[i]
        a.wrench[i], a.wrench[3 + i] = s * answer.force[i] + a.push[i], 0.0
        for k in range(3):
            a.C[i, k] = s * answer.damping[i, k]
            a.C[i, 3 + k] = a.C[3 + i, k] = 0.0
            a.C[3 + i, 3 + k] = s * answer.turn_damping[0] if i == k else 0.0
    _solve(a, first, end, 0.25 * period * s * stiffness, period, wrench)
    bias, J = body.bias, a.J
    for j in range(first, end):
        force = 0.0
        for i in range(6):
            force += J[i, j] * a.wrench[i]
        bias[j] -= force
    for j in range(a.du.shape[0]):
        a.du[j] = 0.0
    for j in range(first, end):
        for i in range(6):
            a.du[j] += period * a.W[i, j] * a.wrench[i]


@kernel
def _find_rows(a, first, end):
    """Fill J and W at the point."""
    body, p, J, W = a.body, a.place.arrays.position, a.J, a.W
    L, J_W = body.L, body.J_W
    for j in range(first, end):
        if body.support[a.joint, j]:
            wx, wy, wz = J_W[j, 3], J_W[j, 4], J_W[j, 5]
            J[0, j] = J_W[j, 0] + wy * p[2] - wz * p[1]
            J[1, j] = J_W[j, 1] + wz * p[0] - wx * p[2]
            J[2, j] = J_W[j, 2] + wx * p[1] - wy * p[0]
            J[3, j], J[4, j], J[5, j] = wx, wy, wz
    for j in range(first, end):
        for i in range(6):
            s = J[i, j]
            for k in range(first, j):
                s -= L[j, k - first] * W[i, k]
            W[i, j] = s / L[j, j - first]


@kernel
def _ask(a):
    """Fill in the answer of the law, as far as it is finite, within the region; returns its energy and stiffness."""
    answer = a.answer.arrays
    _clear(answer)
    if a.strength[0] <= 0.0 and a.strength[1] <= 0.0:
        return 0.0, 0.0
    w, slope, nx, ny, nz = 1.0, 0.0, 0.0, 0.0, 0.0
    if a.region.shape[0] > 0:
        p = a.place.arrays.position
        d, nx, ny, nz = signed_distance(a.region, 0, p[0], p[1], p[2])
        z = min(max(-d / a.edge, 0.0), 1.0)
        w, slope = z * z * (3.0 - 2.0 * z), 6.0 * z * (1.0 - z) / a.edge
    call_at(a.address, a.place.arrays, a.keys, answer)
    total = answer.stored[0] + answer.far[0] + answer.stiffness[0] + answer.turn_damping[0]
    for i in range(3):
        total += answer.force[i] + answer.medium[i] + answer.spin[i] + answer.push[i]
        for k in range(3):
            total += answer.damping[i, k]
    if not math.isfinite(total):
        _clear(answer)
        return 0.0, 0.0
    beyond = answer.stored[0] - answer.far[0]
    stiffness = w * answer.stiffness[0]
    if slope > 0.0:  # where the region ends, the energy bends by as much as its fading does
        size = math.sqrt(answer.force[0] ** 2 + answer.force[1] ** 2 + answer.force[2] ** 2)
        stiffness += 2.0 * slope * size + 6.0 * abs(beyond) / (a.edge * a.edge)
    answer.force[0] = w * answer.force[0] + slope * beyond * nx
    answer.force[1] = w * answer.force[1] + slope * beyond * ny
    answer.force[2] = w * answer.force[2] + slope * beyond * nz
    answer.turn_damping[0] *= w
    for i in range(3):
        answer.push[i] *= w
        for k in range(3):
            answer.damping[i, k] *= w
    if a.planar:
        answer.force[2] = answer.push[2] = answer.medium[2] = answer.spin[0] = answer.spin[1] = 0.0
    return answer.far[0] + w * beyond, stiffness


@kernel
def _clear(answer):
    """Let a field do nothing."""
    answer.stored[0] = answer.far[0] = answer.stiffness[0] = answer.turn_damping[0] = 0.0
    for i in range(3):
        answer.force[i] = answer.medium[i] = answer.spin[i] = answer.push[i] = 0.0
        for k in range(3):
            answer.damping[i, k] = 0.0


@kernel
def _solve(a, first, end, added, period, wrench):
    """Add to the wrench what depends on the velocity after the step; `added` is k T / 4 [kg/s].

    With C = B + k T/4, G = -C (v_free + T A f) + B m + k T/4 v - T C A G is solved for G.
    """
    body, C, K, A, W, G, du, drag = a.body, a.C, a.K, a.A, a.W, a.implicit, a.du, a.drag
    damped = added > 0.0
    for i in range(6):
        for k in range(6):
            damped = damped or C[i, k] != 0.0
        drag[i] = 0.0
    if not damped:
        return
    push_scaled(body.L, body.start, body.size, body.J_H, body.bias, wrench, period, du)
    for i in range(6):
        for k in range(i + 1):
            s = 0.0
            for j in range(first, end):
                s += W[i, j] * W[k, j]
            A[i, k] = A[k, i] = s
    for i in range(6):
        s = G[i]  # velocity before the step
        for j in range(first, end):
            s += W[i, j] * du[j]
        for k in range(6):
            s += period * A[i, k] * a.wrench[k]
        drag[i] = s  # velocity after the step without G
    for i in range(6):
        now = added * G[i] if i < 3 else 0.0
        for k in range(6):
            now += C[i, k] * a.driven[k]
        K[i, 0] = now
    for i in range(3):
        C[i, i] += added
    for i in range(6):
        s = K[i, 0]
        for k in range(6):
            s -= C[i, k] * drag[k]
        G[i] = s
    for i in range(6):
        for k in range(6):
            s = 1.0 if i == k else 0.0
            for m in range(6):
                s += period * C[i, m] * A[m, k]
            K[i, k] = s
    _eliminate(K, G)
    for i in range(6):
        a.wrench[i] += G[i]
        for k in range(6):
            drag[i] += period * A[i, k] * G[k]  # now the velocity after the step
    for i in range(3):
        C[i, i] -= added
    for i in range(6):
        s = 0.0
        for k in range(6):
            s -= C[i, k] * (drag[k] - a.driven[k])
        G[i] = s
    for i in range(6):
        drag[i] = G[i]


@kernel
def _eliminate(K, x):
    """Solve K x = x for six unknowns, by elimination with the largest pivot of a column."""
    for c in range(6):
        best = c
        for i in range(c + 1, 6):
            if abs(K[i, c]) > abs(K[best, c]):
                best = i
        if best != c:
            for k in range(c, 6):
                K[c, k], K[best, k] = K[best, k], K[c, k]
            x[c], x[best] = x[best], x[c]
        for i in range(c + 1, 6):
            part = K[i, c] / K[c, c]
            for k in range(c, 6):
                K[i, k] -= part * K[c, k]
            x[i] -= part * x[c]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            x[i] -= K[i, k] * x[k]
        x[i] /= K[i, i]


@kernel
def book(packed, period, u):
    """Book what a field did in a step; u: scaled velocity after it."""
    a = packed.arrays
    first = a.body.start[a.tree]
    end = first + a.body.size[a.tree]
    dissipated = supplied = 0.0
    for i in range(6):
        mean = 0.0
        for j in range(first, end):
            mean += 0.5 * a.W[i, j] * (a.before[j] + u[j])
        dissipated -= period * a.drag[i] * (mean - a.driven[i])
        supplied += period * a.drag[i] * a.driven[i]
        if i < 3:
            supplied += period * a.push[i] * mean
    dissipated = max(dissipated, 0.0)
    a.books[DISSIPATED] += dissipated
    a.books[SUPPLIED] += supplied
    a.energies[DAMPING] += dissipated
    a.energies[INJECTED] += supplied
