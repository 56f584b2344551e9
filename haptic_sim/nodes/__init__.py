"""ROS 2 nodes of the world."""
