"""The command line: its commands and options, the preparation before it, and its shell."""
