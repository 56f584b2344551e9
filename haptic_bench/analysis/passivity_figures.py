"""The figure of a passivity map: level curves of the required damping, as BROWN figures 6 to 9."""

from __future__ import annotations

import numpy as np

from haptic_control.passivity.zwidth import OSCILLATES, ZWidth, ZWidthParameters, required_map, spectral_radius
from haptic_view.figures import BLACK, BLUE, SOLID, VERMILION, Axis, Line, Panel, Style, draw, style_of

LEVELS = (1.1, 1.25, 1.5, 2.0, 4.0)  # of the ratio, beside 1
FINE = 101  # values of stiffness and damping at which a theoretical boundary is drawn


def draw_map(
    alpha: np.ndarray,
    beta: np.ndarray,
    ratio: np.ndarray,
    stable: np.ndarray,
    curves: tuple[np.ndarray, np.ndarray, np.ndarray],
    integrator: int,
) -> Panel:
    """Level curves of the ratio in the stable region, its border, and the exact unity curve beside BROWN's.

    Args:
        alpha (n,), beta (m,): the grid; ratio, stable (n, m).
        curves: largest alpha at each beta (m,), NaN: none: of ratio 1, exact and of BROWN (16); of stability.
        integrator: method of BROWN Table 1.
    """
    unity, equation_16, border = curves
    lines = []
    if np.isfinite(unity).any():
        lines.append(Line(beta, unity, "ratio 1, exact", Style(BLACK, SOLID, 2.0)))
    if integrator == 3 and np.isfinite(unity).any():
        lines.append(Line(beta, 0.5 * unity, "ratio 1, A6 as printed (errata 2)", Style(BLACK, (1.3, 1.3))))
        lines.append(Line(beta, equation_16, "equation 16 as printed (errata 3)", Style(BLACK, (5, 1.8))))
    if min(alpha.size, beta.size) > 1:
        shown = np.where(stable & np.isfinite(ratio), ratio, np.nan)
        for i, level in enumerate(LEVELS):
            curve = _contour(beta, alpha, shown, level)
            if curve[0].size:
                lines.append(Line(*curve, f"ratio {level:g}", Style(style_of(i).colour)))
    if np.isfinite(border).any():
        lines.append(Line(beta, border, "limit of stability", Style("#8a8f98", (5, 1.6, 1.2, 1.6))))
    if not lines:  # nothing to be seen: the whole range is on one side of every curve
        lines.append(Line(beta, np.full(beta.shape, np.nan), "no level curve in this range", Style(BLACK)))
    title = f"Required damping over that of a virtual wall, integrator {integrator}"
    span_x, span_y = ((float(values.min()), float(values.max())) for values in (beta, alpha))
    return draw(
        f"passivity_map_{integrator}",
        title,
        lines,
        Axis("\N{GREEK SMALL LETTER BETA} = B/(K T)", span=span_x if span_x[0] < span_x[1] else None),
        Axis("\N{GREEK SMALL LETTER ALPHA} = K T²/m", span=span_y if span_y[0] < span_y[1] else None),
    )


def draw_zwidth(given: ZWidthParameters, found: ZWidth) -> Panel:
    """The simulated boundary over that of the theory, and where quantisation keeps the loop oscillating."""
    K, B = found.stiffness, found.damping
    lines = [Line(found.boundary[:, 0], found.boundary[:, 1], "simulated boundary", Style(VERMILION), points=True)]
    fine_K, fine_B = (np.linspace(grid[0], grid[-1], FINE) for grid in (K, B))
    with np.errstate(divide="ignore"):
        passive = np.minimum(
            given.device_damping / required_map(given, fine_K, fine_B), 2.0
        )  # 0 where the loop is not stable
    curves = [(passive, f"passive: BROWN (8), b = {given.device_damping:g} N s/m", Style(BLACK, SOLID, 2.0))]
    if found.poles.size:
        whose = "no hand" if given.hand == "none" else f"hand {given.hand}"
        curves.append(
            (spectral_radius(given, fine_K, fine_B), f"stable: poles of the loop, {whose}", Style(BLUE, (5, 1.8)))
        )
    for values, label, style in curves:
        curve = _contour(fine_K, fine_B, values.T, 1.0)
        if curve[0].size:
            lines.append(Line(*curve, label, style))
    oscillates = np.argwhere(found.verdict == OSCILLATES)
    if oscillates.size:
        K_there, B_there = K[oscillates[:, 0]], B[oscillates[:, 1]]
        lines.append(Line(K_there, B_there, "limit cycle of quantisation", Style("#c9ccd1"), points=True))
    title = f"Z-width at {given.rate:g} Hz, " + (
        "virtual wall" if given.mass is None else f"mass {given.mass:g} kg, integrator {given.integrator}"
    )
    spans = (float(K[0]), float(K[-1])), (float(B[0]), float(B[-1]))
    return draw(
        "zwidth", title, lines, Axis("stiffness K [N/m]", span=spans[0]), Axis("damping B [N s/m]", span=spans[1])
    )


def _contour(x: np.ndarray, y: np.ndarray, values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The level curve of values (n, m) at y (n,), x (m,), its pieces separated by NaN."""
    from matplotlib.figure import Figure as Drawing

    finite = values[np.isfinite(values)]
    if not finite.size or not finite.min() < level < finite.max():
        return np.empty(0), np.empty(0)
    pieces = Drawing().add_subplot().contour(x, y, np.ma.masked_invalid(values), levels=[level]).allsegs[0]
    gap = np.full((1, 2), np.nan)
    points = np.concatenate([part for piece in pieces for part in (piece, gap)] or [np.empty((0, 2))])
    return points[:, 0], points[:, 1]
