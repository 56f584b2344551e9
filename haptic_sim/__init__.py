"""Worlds: scenes, articulated dynamics, contact, the local model; pure cores that know nothing of ROS."""
