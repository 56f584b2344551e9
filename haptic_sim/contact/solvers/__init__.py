"""Solvers of impulses, for normal contact and with friction: in mass-scaled coordinates, without state."""
