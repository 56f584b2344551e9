"""`python -m haptic_bench`: the command line."""

from haptic_bench.set_up import failures

failures.end_at_signals()

import gc  # noqa: E402 (a signal ends this program from its first instruction on)
import logging  # noqa: E402
import sys  # noqa: E402

from haptic_bench.commands import command_line  # noqa: E402

# Imports and kernels are some 300 000 objects that stay. With Python's own thresholds the collector looks through them
# so often that it takes a seventh of the time of a short run; at every 100 000 objects, a twentieth. A trial of a sweep
# leaves some 10 000 objects to it.
gc.set_threshold(500_000, 20, 20)
# trimesh logs what it finds of colors and images in the files of meshes, with tracebacks; nobody asked for them.
logging.getLogger("trimesh").addHandler(logging.NullHandler())

failures.leave(command_line.main(sys.argv[1:]))
