"""Loads what most trials need, by a few ticks of some: for the process that others are forked from."""

import gc

from haptic_bench import run
from haptic_bench.recording import bag

bag.message_types()
for settings in ({}, {"local_model.type": "full", "environment.rate": 60}):
    run("corner_peg", {"analysis": "trial", **settings}, duration=0.02)
gc.collect()
gc.freeze()  # nothing that the collectors of the others need look at
