"""ROS 2 nodes of the tool's side: environment and local model."""
