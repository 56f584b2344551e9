"""`python -m haptic_bench`: the command line, and the mending of an environment that lacks something."""

import sys

try:
    from haptic_bench import kernel_cache
    from haptic_bench.cli import main
except ImportError as error:  # also of a shared library that is gone
    if (error.name or "").partition(".")[0] in (
        "haptic_bench",
        "haptic_sim",
        "haptic_control",
        "haptic_drivers",
    ):
        raise  # a fault of our own, which a new environment would not mend
    from haptic_bench.prepare import restart

    restart(str(error))

kernel_cache.refresh()
sys.exit(main(sys.argv[1:]))
