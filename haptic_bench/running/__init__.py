"""Ways to run an experiment: in one process, or as the ROS graph."""
