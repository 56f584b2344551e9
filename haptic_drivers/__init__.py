"""Devices and the operators that move simulated ones; pure cores that know nothing of ROS."""
