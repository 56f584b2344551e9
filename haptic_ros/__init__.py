"""The parts that all ROS 2 nodes share: servo thread, leader, inbox, lifecycle, parameters, process. No physics."""
