"""Benchmarks: the time of a tick, of the ROS graph, of a step with contacts or constraints."""
