"""A sweep: at which slope does a block begin to slide, and with which acceleration?

Coulomb's law: it stays up to the angle atan(mu_s); beyond, it accelerates with g (sin a - mu_k cos a).
"""

import sys
from pathlib import Path

import numpy as np

from haptic_bench import run, save_figure

GRAVITY, STATIC, KINETIC = 9.81, 0.25, 0.2
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

angles = np.array([6.0, 10.0, 12.0, 13.5, 14.5, 15.0, 18.0, 22.0, 26.0, 30.0])  # degrees
accelerations = []
for angle in angles:
    trial = run("incline", {"scene.angle": angle}, duration=0.4)
    time, speed = trial.samples["time"], trial.samples["speed"]
    accelerations.append((speed[-1] - speed[200]) / (time[-1] - time[200]))
    print(f"{angle:.1f} deg: {accelerations[-1]:.5f} m/s^2")

fine = np.linspace(5.0, 31.0, 521)
slope = np.radians(fine)
law = GRAVITY * (np.sin(slope) - KINETIC * np.cos(slope))
law[fine < np.degrees(np.arctan(STATIC))] = 0.0
curves = {"simulated": (angles, accelerations), "Coulomb's law": (fine, law)}
save_figure(
    folder / "slope_sweep.svg",
    "A block on slopes of ten angles",
    curves,
    "slope [degrees]",
    "acceleration [m/s\u00b2]",
    points=["simulated"],
)
