"""A robot that a hand moves: adapters to the controllers of others, what keeps the arm safe, and a simulated arm.

The cores know nothing of ROS, files or clocks; time is counted in servo periods.
"""
