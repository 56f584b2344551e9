"""First contact with a device: what is asked of the person, expected and found, step by step, as a pure state machine.

The core has no clock and no port: times, readings and answers come in, and the force to write comes out
(`session.Session`). `readings` judges what was read, `push` renders a tenth of the force once presence is confirmed.
"""
