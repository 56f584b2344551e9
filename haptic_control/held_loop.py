"""Whether the sampled loop of a device between an operator's arm and a virtual coupling can be stable.

The arm is a spring K_a and a damper B_a from the device to a place that the arm leads; its wrench, like that of the
coupling K, B, is held over a tick. For small motions x_d of the device and x_t of the tool about rest, without contact,

    F_d(k) = -K_a x_d - B_a v_d + K (x_t - x_d) + B (v_t - v_d)
    F_t(k) =                     -K (x_t - x_d) - B (v_t - v_d)

With semi-implicit Euler on both sides and the inverse inertia W of both together this is v' = v - T W (K_2 x + B_2 v),
x' = x + T v', with symmetric K_2 and B_2 without negative eigenvalues: as in `haptic_control.stability` it is stable
exactly if no eigenvalue of W (T^2 K_2 + 2 T B_2) is larger than 4. Of the arm alone this is T^2 K_a + 2 T B_a <= 4 m.
The spectral radius of the map says the same, and holds for the other integrators, too.
"""

from __future__ import annotations

import numpy as np

from haptic_control.stability import CoupledInertias, diverges, largest, linear_map, rounded_down

Pair = tuple[float, float]
_KEYS = (("stiffness", "damping"), ("turn_stiffness", "turn_damping"))
_UNITS = (("N/m", "N s/m"), ("N m/rad", "N m s/rad"))
_DEVICE = (("device.mass", "kg"), ("device.inertia", "kg m^2"))


def held_loop(
    arm: tuple[np.ndarray, np.ndarray], coupling: tuple[np.ndarray, np.ndarray], inertias: CoupledInertias, rate: float
) -> np.ndarray:
    """The map of (x_d, v_d, x_t, v_t) of a tick.

    Args:
        arm: stiffness and damping (n,) in the directions that move.
        coupling: stiffness and damping (n, n) there.
        inertias: of device and tool; that of the device is known.
        rate: of ticks [Hz].
    """
    T, n = 1.0 / rate, inertias.axes.size
    (K_a, B_a), (K, B), W_t = (np.diag(gains) for gains in arm), coupling, inertias.of_tool()
    a, b, d, e = inertias.device_step(T)
    after = {1: 0.0, 2: 1.0, 3: 0.5}[inertias.integrator]  # part of the velocity after the step in the tool's motion

    def tick(x_d: np.ndarray, v_d: np.ndarray, x_t: np.ndarray, v_t: np.ndarray) -> tuple[np.ndarray, ...]:
        on_device = K @ (x_t - x_d) + B @ (v_t - v_d)
        F_d = on_device - K_a @ x_d - B_a @ v_d
        moved = v_t - T * W_t @ on_device
        return x_d + d * v_d + e @ F_d, a * v_d + b @ F_d, x_t + T * (after * moved + (1.0 - after) * v_t), moved

    return linear_map(tick, 4, n)


def arm_problem(
    stiffness: Pair,
    damping: Pair,
    coupling: tuple[np.ndarray, np.ndarray],
    inertias: CoupledInertias,
    rate: float,
) -> str:
    """Reason why an operator's arm diverges with a device and a coupling that are stable without it.

    Args:
        stiffness, damping: of the arm, in translation and in rotation.
        coupling: stiffness and damping (6, 6) of all that acts between device and tool.
        inertias: of device and tool.
        rate: of ticks [Hz].

    Returns:
        A line that begins with the arm's keys and names the stable gains; empty if nothing diverges, if the inertia of
        the device is not known, or where its twist is a difference of poses.
    """
    if inertias.device is None or inertias.difference is not None:
        return ""
    axes = inertias.axes
    between = tuple(gains[np.ix_(axes, axes)] for gains in coupling)
    given = tuple(inertias.per_axis(pair) for pair in (stiffness, damping))

    def fails(*parts: np.ndarray) -> bool:
        """Whether the loop diverges with these parts of the arm's stiffness and damping."""
        scaled = (part * gains for part, gains in zip(parts, given, strict=True))
        return diverges(held_loop(tuple(scaled), between, inertias, rate))

    present = np.zeros(axes.size)
    for kind in range(2):  # translation, then rotation beside it
        before, own = present, (axes // 3 == kind).astype(float)
        present = before + own
        if not fails(present, present):
            continue
        k, b = stiffness[kind], damping[kind]
        part = largest(lambda c: fails(before + own, before + c * own))  # noqa: B023 -- called here only
        would = (k, part * b)
        if part == 0.0:
            part = largest(lambda c: fails(before + c * own, before + c * own))  # noqa: B023
            would = (part * k, part * b)
        are, texts, halves = [], [], []
        for name, unit, value, less in zip(_KEYS[kind], _UNITS[kind], (k, b), would, strict=True):
            if less < value:
                are.append(f"operator.{name} = {value:g} {unit}")
                texts.append(f"operator.{name}={rounded_down(less)}")
                halves.append(f"operator.{name}={rounded_down(0.5 * less)}")
        key, unit = _DEVICE[kind]
        return (
            f"{', '.join(are)}: the sampled arm diverges at rate = {rate:g} Hz with a device of "
            f"{inertias.device[kind]:.3g} {unit} and its coupling to the tool; the largest stable values: "
            f"{' '.join(texts)}; recommended, for a margin: {' '.join(halves)}; lower it, raise the rate, or give the "
            f"tool, or the device ({key}), more inertia"
        )
    return ""
