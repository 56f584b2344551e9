"""Worlds as parameters, and as what is simulated: bodies, linkages, files of robots, constraints; scenes."""
