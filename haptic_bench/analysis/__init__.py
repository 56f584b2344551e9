"""The analysis of a trial: its interface, metrics and claims, figures, readable units, health and verdict."""
