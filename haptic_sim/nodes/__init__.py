"""ROS 2 nodes of the world, and the plumbing that all nodes share."""
