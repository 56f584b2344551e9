"""ROS 2 nodes of the bench: the recorder, several nodes in one process, and an environment without a device."""
