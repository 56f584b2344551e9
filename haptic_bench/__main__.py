"""`python -m haptic_bench`: the command line, which first repairs an incomplete environment of a checkout."""

from haptic_bench.set_up import failures

failures.end_at_signals()

import sys  # noqa: E402 (a signal ends this program from its first instruction on)

from haptic_bench.commands import command_line  # noqa: E402


def mend(error: ImportError) -> None:
    """Mend the environment of a checkout; see `start.mend`."""
    from haptic_bench.commands import start  # of no use to a program whose imports do not fail

    start.mend(error)


sys.exit(command_line.main(sys.argv[1:], mend))
