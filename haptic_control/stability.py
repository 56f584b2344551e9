"""Whether the sampled loop that a controller closes between device and virtual tool can be stable.

For small motions from rest, without contact and without the operator, a tick (docs/architecture.md) is a linear map of
the state. With the difference r of the poses of tool and device and u that of their twists, in world axes at the hand,
a spring K and a damper B that act on both sides give

    Fc(k) = K r(k) + B u(k)
    u(k+1) = u(k) - T (W_t + W_d) Fc(k),   r(k+1) = r(k) + T u(k+1)

W_t = J D^-1 J^T is the inverse inertia of the tool at the hand, W_d that of the device. The common motion of both does
not enter. Substituting z^k r: det(z^2 - (2 - T^2 A K - T A B) z + 1 - T A B) = 0 with A = W_t + W_d. The loop is stable
exactly if

    no eigenvalue of A (T^2 K + 2 T B) is larger than 4.

For one direction of reduced mass m this is Jury's criterion of z^2 - (2 - kappa - beta) z + 1 - beta with
kappa = T^2 K / m and beta = T B / m: kappa >= 0, beta <= 2 and kappa + 2 beta <= 4, of which the first and the last
imply the second. In all six: A, K and B are symmetric without negative eigenvalues, so with r = A^1/2 x the loop is one
of symmetric matrices. For an eigenvector x (of length 1) of a root z the same polynomial holds, with
kappa = x^* T^2 A^1/2 K A^1/2 x and beta likewise: no root is outside the unit circle if kappa + 2 beta <= 4 for every
x. If it is more for some x, the symmetric matrix of the polynomial has a negative eigenvalue at z = -1; at
z -> -infinity it has none; so it is singular somewhere between, at a root that diverges.

The controllers build the map of their own loop (a matrix whose first states are r); this module has the common part.
The oscillation of a spring without a damper between two inertias neither grows nor decays: it is not refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from haptic_sim.dynamics.held_motion import held_motion
from haptic_sim.parameters import Parameters, quantity, six

TOLERANCE = 1e-6  # growth in a tick that counts as none: double eigenvalues at 1 are found to about 1e-8
LIMIT = 4.0  # of the eigenvalues of A (T^2 K + 2 T B)
OBSERVER_PROBLEM = (
    "controller.operator_wrench = observed: with the inertia and damping that it is to know of the device, which are "
    "not the device's, the observed wrench moves the tool ever faster at rate = {rate:g} Hz; leave out "
    "controller.device_mass, device_inertia, device_matrix and device_damping, or lower controller.force_scale"
)
_NAMES = ("along x", "along y", "along z", "in rotation about x", "in rotation about y", "in rotation about z")


def _thirty_six(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) != 36:
        raise ValueError(f"has {len(values)} values: must have 36, the rows of a matrix")
    return values


Matrix = Annotated[tuple[float, ...], AfterValidator(_thirty_six)]
Search = Callable[[Callable[[float], bool]], float]
"""Function that finds the part in [0, 1] of its gains at which a loop does not diverge: `largest`, or `no_search`."""


class CoupledInertias(Parameters):
    """Bodies that a controller couples: inverse inertia of the virtual tool and inertia of the device, at the start."""

    planar: bool = quantity(True, description="Whether everything moves in the plane of x and y")
    tool: Matrix = quantity(
        (0.0,) * 36,
        unit="1/kg, 1/(kg m), 1/(kg m^2)",
        description="Inverse inertia of the tool at the hand, J D^-1 J^T in world axes, row by row",
    )
    device: tuple[float, float] | None = quantity(
        None,
        unit="kg, kg m^2",
        description="Mass of the device, and its inertia about any axis through the hand point; null: not known, and "
        "the loop is not checked",
    )
    driven: Matrix = quantity(
        tuple(np.eye(6).ravel().tolist()),
        description="Projection of a wrench onto the directions in which it moves the device, in world axes, row by "
        "row; where the device has no motor, or an inertia that is not known, it counts as held",
    )
    damping: tuple[float, float] | None = quantity(
        None,
        unit="N s/m, N m s/rad",
        description="Viscous damping of the device, whose motion is then exact under held wrenches; null: an ideal "
        "device, integrated as the tool is, and the passivity of the hand's port is not checked",
    )
    contact: tuple[float, float] | None = quantity(
        None, unit="N/m, N s/m", description="Stiffness and damping of penalty contacts; null: contacts are rigid"
    )
    force_sensor: bool = quantity(
        True, description="Whether the device measures the operator's wrench; else it reports zero, as hardware does"
    )
    integrator: int = quantity(
        2,
        description="Integrator of the tool's position, the method of BROWN Table 1: the velocity before, that after, "
        "or the mean of both",
        ge=1,
        le=3,
    )
    difference: float | None = quantity(
        None,
        description="Part by which the measured twist of the device follows the backward difference of its pose in a "
        "tick, 1: without a filter; null: the twist is exact",
        gt=0.0,
        le=1.0,
    )
    obeyed: tuple[float, float] = quantity(
        (1.0, 1.0),
        description="Part of a commanded acceleration that a device with an inner servo takes, in translation and in "
        "rotation",
    )
    drag: tuple[float, float] = quantity(
        (0.0, 0.0),
        unit="1/s",
        description="Acceleration of such a device per its speed, where it compensates for more friction than it has",
    )
    felt: Matrix = quantity(
        (0.0,) * 36,
        unit="kg, kg m, kg m^2",
        description="Inertia that its force sensor adds to the operator's wrench, times the last acceleration",
    )

    @property
    def axes(self) -> np.ndarray:
        """The directions that move, of the six of a wrench."""
        return np.array((0, 1, 5) if self.planar else range(6))

    def of_tool(self) -> np.ndarray:
        """W_t in the directions that move."""
        return np.array(self.tool).reshape(6, 6)[np.ix_(self.axes, self.axes)]

    def per_axis(self, pair: Sequence[float]) -> np.ndarray:
        """A pair of translation and rotation as a value for each direction that moves."""
        return np.repeat(np.array(pair, float), 3)[self.axes]

    @property
    def ideal(self) -> bool:
        """Whether the equations of this module hold: semi-implicit Euler on both sides, and an exact twist."""
        return self.damping is None and self.integrator == 2 and self.difference is None

    def driven_axes(self) -> np.ndarray:
        """The projection `driven` in the directions that move."""
        return np.array(self.driven).reshape(6, 6)[np.ix_(self.axes, self.axes)]

    def of_device(self) -> np.ndarray:
        """W_d in the directions that move: 0 where the device counts as held."""
        assert self.device is not None
        return self.driven_axes() / self.per_axis(self.device)[:, None]

    def device_step(self, period: float) -> tuple[np.ndarray, ...]:
        """(a, b, d, e) of a step of the device: v' = a v + b F, dx = d v + e F [1, s/kg, s, s^2/kg].

        a and d are (n, 1), b and e (n, n).
        """
        assert self.device is not None
        T = period
        if self.damping is None:
            steps = [(1.0, T / m, T, T**2 / m) for m in self.device]
        else:
            steps = [held_motion(m, c, T) for m, c in zip(self.device, self.damping, strict=True)]
        a, b, d, e = (self.per_axis(pair)[:, None] for pair in zip(*steps, strict=True))
        driven = self.driven_axes()
        return a, b * driven, d, e * driven

    def describe(self, axis: int, tool: bool = True) -> str:
        """The direction, and between which inertias it is: `axis` counts those that move."""
        k = int(self.axes[axis])
        unit = "kg" if k < 3 else "kg m^2"
        text = _NAMES[k]
        if self.device is not None:
            inverse = self.tool[7 * k]
            of = f"device of {self.device[k // 3]:.3g} {unit}" if self.driven[7 * k] > 0.0 else "held device"
            text += f", between a {of}"
            if tool and inverse > 0.0:
                text += f" and a tool of {1.0 / inverse:.3g} {unit} there"
        return text


def growth(loop: np.ndarray) -> float:
    """Growth of the state of a linear map in a tick, in the worst direction: its spectral radius."""
    return float(np.abs(np.linalg.eigvals(loop)).max(initial=0.0))


def diverges(loop: np.ndarray) -> bool:
    """Whether a sampled loop grows."""
    return not growth(loop) <= 1.0 + TOLERANCE


def worst(loop: np.ndarray, weights: np.ndarray) -> int:
    """Direction in which a loop grows most: of its first states r, that with the largest part of sum(weights r^2)."""
    values, vectors = np.linalg.eig(loop)
    r = vectors[: weights.size, np.argmax(np.abs(values))]
    return int(np.argmax(weights * np.abs(r) ** 2))


def linear_map(tick: Callable[..., Sequence[np.ndarray]], blocks: int, n: int) -> np.ndarray:
    """The matrix of a linear `tick`, which takes and returns so many blocks of n values of a state."""
    return np.vstack(tick(*np.split(np.eye(blocks * n), blocks)))


def spring_loop(stiffness: np.ndarray, damping: np.ndarray, period: float) -> np.ndarray:
    """The map of (r, u) with u' = u - T (stiffness r + damping u), r' = r + T u'; matrices (n, n) [1/s^2, 1/s]."""
    n = stiffness.shape[0]
    u = np.hstack([-period * stiffness, np.eye(n) - period * damping])
    r = np.hstack([np.eye(n), np.zeros((n, n))])
    return np.vstack([r + period * u, u])


def largest(diverging: Callable[[float], bool], least: float = 1e-9) -> float:
    """The largest part in [0, 1] at which a loop does not diverge, 0 if there is none above `least`."""
    high = 1.0
    if not diverging(high):
        return high
    while diverging(low := 0.8 * high):
        high = low
        if high < least:
            return 0.0
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if diverging(middle) else (middle, high)
    return low


def no_search(diverging: Callable[[float], bool]) -> float:
    """Result 0 in place of `largest`, where the question is whether a loop diverges, not which gains are stable."""
    return 0.0


def largest_gains(
    stiffness: np.ndarray,
    damping: np.ndarray,
    inverse_inertia: np.ndarray,
    period: float,
    diverging: Callable[[np.ndarray, np.ndarray], bool],
    search: Search = largest,
) -> tuple[np.ndarray, np.ndarray]:
    """The largest stiffness and damping (n,) up to the given ones at which a coupling does not diverge.

    No gain is more than a common part of what its direction could have if the others had none. The stiffness stays,
    unless it takes half or more of what there is.

    Args:
        stiffness, damping: as given, which diverge.
        inverse_inertia: what a wrench between device and tool accelerates one against the other, the diagonal of A.
        period: T [s].
        diverging: whether a stiffness and a damping do.
        search: finds a part at which they do not.
    """
    with np.errstate(divide="ignore"):
        most = LIMIT / inverse_inertia  # of T^2 K + 2 T B; infinite where nothing moves
    springs = period**2 * stiffness
    margin = (most - springs) / (2.0 * period)
    if bool(np.all(2.0 * springs <= most)):
        part = search(lambda c: diverging(stiffness, np.minimum(damping, c * margin)))
        if part > 0.0:
            return stiffness, np.minimum(damping, part * margin)
    with np.errstate(divide="ignore"):
        share = np.minimum(most / (springs + 2.0 * period * damping), np.finfo(float).max)
    part = search(lambda c: diverging(*(np.minimum(1.0, c * share) * gains for gains in (stiffness, damping))))
    factor = np.minimum(1.0, part * share)
    return factor * stiffness, factor * damping


def settings(
    names: Sequence[str], given: Sequence[tuple[float, ...]], found: Sequence[np.ndarray], axes: np.ndarray
) -> tuple[str, str]:
    """The gains that are to be lowered, as they are and as they would be set.

    Args:
        names: of gains of the controller.
        given: their values, three or six.
        found: what they should be in the directions that move, of which `axes` are the numbers.
    """
    places = {3: (0, 1, 5), 6: tuple(range(6))}
    are, would = [], []
    for name, values, less in zip(names, given, found, strict=True):
        known = dict(zip(axes.tolist(), less.tolist(), strict=True))
        texts = [
            rounded_down(known[k]) if k in known and known[k] < value else _exact(value)
            for k, value in zip(places[len(values)], values, strict=True)
        ]
        if bool(np.any(less < np.array(six(values))[axes])):
            are.append(f"controller.{name} = [{', '.join(map(_exact, values))}]")
            would.append(f"controller.{name}=[{','.join(texts)}]")
    return ", ".join(are), " ".join(would)


def _exact(value: float) -> str:
    """A number as short as it can be read back the same."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def rounded_down(value: float) -> str:
    """A number with three digits, not more than it is."""
    if not value > 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / unit) * unit:.3g}"
