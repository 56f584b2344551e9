"""A MuJoCo program of one's own with a stylus that can be felt: a hand pushes a plunger in.

The simulation goes at 100 Hz, the hand at 1000 Hz. Three lines make the difference, marked (haptics). While the plunger
moves with the speed v of the hand, its damper resists with c v.
"""

import sys
from pathlib import Path

import mujoco
import numpy as np

from haptic_bench import save_figure
from haptic_sim.contact.response import ContactParameters
from haptic_sim.tool.haptic_tool import HapticTool

DAMPING, SPEED = 40.0, 0.05  # N s/m, m/s
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

model = mujoco.MjModel.from_xml_string(f"""
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body name="plunger" pos="0.06 0 0">
      <joint type="slide" axis="1 0 0" damping="{DAMPING}"/>
      <geom type="box" size="0.03 0.03 0.03" mass="0.5"/>
    </body>
    <body name="stylus" gravcomp="1">
      <freejoint/>
      <geom type="sphere" size="0.01" mass="0.2"/>
    </body>
  </worldbody>
</mujoco>""")
data = mujoco.MjData(model)
contact = ContactParameters(stiffness=5000.0, damping=20.0)
stylus = HapticTool(model, data, "stylus", contact=contact)  # (haptics)

times, felt, wrench = [], [], np.zeros(6)
start, state = stylus.state.pose[:3].copy(), stylus.state
while data.time < 3.0:
    for tick in range(10):  # 1 kHz: of a device, a thread of its own
        time = data.time + 0.001 * tick
        target = start + [SPEED * time, 0.0, 0.0]
        wrench[:3] = 300.0 * (target - state.pose[:3]) - 10.0 * state.twist[:3]
        wrench[3:] = -0.2 * state.pose[3:6] - 0.001 * state.twist[3:]  # keeps the stylus upright
        state = stylus.advance(wrench)  # (haptics)
        times.append(time)
        felt.append(-state.wrench[0])
    stylus.synchronise()  # (haptics)
    mujoco.mj_step(model, data)

pushed = np.array(felt)[np.array(times) > 2.0]
print(f"the hand feels {pushed.mean():.3f} N while it pushes; c v = {DAMPING * SPEED:.3f} N")
curves = {"felt": (times, felt), "c v": (times, [DAMPING * SPEED] * len(times))}
save_figure(folder / "mujoco_loop.svg", "A plunger is pushed in at 0.05 m/s", curves, "time [s]", "force [N]")
