"""Motions of linkages and bodies: trajectories, the forces by which they are followed, and springs to a hand."""
