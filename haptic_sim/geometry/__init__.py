"""Geometry of bodies: shapes and meshes as parameters; collision detection in `collision`."""
