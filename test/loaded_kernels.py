"""Loads what most commands and trials need, by short trials: for the process that others are forked from."""

import contextlib
import gc
import io
import tempfile

import starting

from haptic_bench.commands import command_line
from haptic_bench.recording import bag

bag.message_types()
bag.own_types()
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), starting.blank_pages():
    for i, settings in enumerate(([], ["--set", "local_model.type=full", "--set", "environment.rate=60"])):
        command = ["run", "corner_peg", "--mode", "offline", "--duration", "0.02", "--set", "analysis=trial", *settings]
        assert command_line.main([*command, "--out", f"{folder}/{i}"]) == 0
gc.collect()
gc.freeze()  # nothing that the collectors of the others need look at
