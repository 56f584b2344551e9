"""ROS 2 nodes of a robot."""
