"""ROS 2 nodes of the controllers."""
