"""What bodies look like: shapes and meshes as parameters; collision detection in `collision`."""
