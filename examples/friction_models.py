"""Four friction models under the same force: a peg in a slot, pushed with 0.1 sin(0.4 pi t) N (THESIS 4.3.1).

Two walls press on it with 0.175 N each; with a static coefficient of 0.25 it should begin to slip at 0.0875 N.
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import run, save_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

curves = {}
for model in ("reset_integrator", "karnopp", "dahl", "coulomb"):
    trial = run("peg_friction", {"contact.friction.model": model}, duration=2.5)
    moved = 1e6 * np.abs(trial.samples["tool_px"])
    first = trial.metrics["first_slip_time"]
    print(f"{model}: slips at {first:.3f} s, under {0.1 * np.sin(0.4 * np.pi * first):.4f} N")
    curves[model] = (trial.samples["time"][1:], np.maximum(moved[1:], 1e-2))

title = "A peg begins to slip: creep and the strain of bonds before, motion after"
save_figure(folder / "friction_models.svg", title, curves, "time [s]", "distance from the start [\u00b5m]", log_y=True)
