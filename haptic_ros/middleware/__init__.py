"""Code that relies on the middleware: all that uses more than its documented interface, each with its reason.

    reception.py  messages taken on an rcl wait set beside the executor, with the identity of their publisher
    context.py    start of ROS 2, after the ports of killed processes are removed
    fast_dds.py   files of Fast DDS in shared memory, which a killed process leaves; names of its threads
    process.py    end of a process without the middleware's destructors; Linux' prctl

Each says with which versions it was tested, and what would make it superfluous. Nothing of the middleware is replaced.
"""
