"""Device and world apart: a communication link with delay, jitter and loss, and the guards that keep it passive.

A relay has two ends. The device's end takes each DeviceState, sends what crosses of it, and gives the driver its
DeviceCommand; the world's end gives the controller its DeviceState, and sends the wrench of the DeviceCommand back.
"""
