"""Recordings of a trial: its bag, the messages in the order of the ticks, and the tables made from them."""
