"""Exact constraints on a virtual tool: holonomic and nonholonomic (FAULRING, YUN). No ROS, no files."""
