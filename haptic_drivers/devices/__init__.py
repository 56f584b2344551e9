"""Hardware devices: the interface that a driver implements, its data, and one module for each kind of device.

A device is three files: `NAME.py` here, its data in `config/devices`, and its test. The modules here may have clocks,
threads and ports, as no core does.
"""
