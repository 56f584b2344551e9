"""Solvers of contact impulses, with and without friction: in mass-scaled coordinates, without state between steps."""
