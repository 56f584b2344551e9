"""Loads the kernels that most trials call, by a few ticks of some: for the process that others are forked from."""

from haptic_bench import run

for settings in ({}, {"local_model.type": "full", "environment.rate": 60}):
    run("corner_peg", {"analysis": "trial", **settings}, duration=0.02)
