"""Controllers between device and virtual tool; pure cores that know nothing of ROS."""
