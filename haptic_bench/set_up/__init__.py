"""Preparation of the environment of a checkout, before its packages can be imported: standard library only."""
