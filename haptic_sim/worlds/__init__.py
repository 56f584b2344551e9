"""Worlds: parameters of bodies, linkages, robot files, constraints and scenes, and the models built from them."""
