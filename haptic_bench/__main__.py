"""`python -m haptic_bench`: the command line."""

from haptic_bench.set_up import failures

failures.end_at_signals()

import sys  # noqa: E402 (a signal ends this program from its first instruction on)

from haptic_bench.commands import command_line  # noqa: E402

sys.exit(command_line.main(sys.argv[1:]))
