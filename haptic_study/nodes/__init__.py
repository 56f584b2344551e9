"""ROS 2 nodes of studies."""
