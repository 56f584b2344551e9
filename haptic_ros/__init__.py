"""What serves every ROS 2 node: servo thread, leader of the tick, inbox, lifecycle, parameters, process. No physics."""
