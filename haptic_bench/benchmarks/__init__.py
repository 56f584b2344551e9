"""What a tick, a graph and a start cost."""
