"""A recorded trial as tables of pandas: its samples, and a topic of its bag (`pip install pandas`).

The bag is a rosbag2 with MCAP storage; rosbags reads it where ROS 2 is not installed, with the definitions in the bag.
A block on a slope of 20 degrees slides with g (sin a - mu_k cos a).
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rosbags.highlevel import AnyReader

from haptic_bench import load_trial, run, save_figure

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

with tempfile.TemporaryDirectory() as directory:
    run("incline", {"scene.angle": 20.0}, duration=0.4, out=directory)
    samples = load_trial(directory).to_dataframe()  # a row a tick, the time is the index
    with AnyReader([Path(directory) / "bag"]) as reader:
        rows = [
            (message.tick, stamp * 1e-9, message.twist.linear.x, message.twist.linear.z)
            for connection, stamp, data in reader.messages()
            if connection.topic == "/incline/tool_state"
            for message in [reader.deserialize(data, connection.msgtype)]
        ]
states = pd.DataFrame(rows, columns=["tick", "time", "vx", "vz"]).set_index("time")
states["speed"] = np.hypot(states.vx, states.vz)

print(samples[["speed", "contacts", "energy_friction"]].describe().loc[["mean", "max"]].round(4))
sliding = states.iloc[100:]
acceleration = np.polyfit(sliding.index, sliding.speed, 1)[0]
print(f"{len(states)} messages, acceleration {acceleration:.4f} m/s^2")
slid = samples.speed.rolling(20, center=True).mean().dropna()
curves = {
    "tool_state of the bag": (states.index, states.speed),
    "samples, mean of 20 ms": (slid.index, slid),
}
save_figure(folder / "bag_with_pandas.svg", "A block slides down a slope", curves, "time [s]", "speed [m/s]")
