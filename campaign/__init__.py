"""A search for faults: random cases of what a laboratory does to a trial, none of which may end in a fault."""
