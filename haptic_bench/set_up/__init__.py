"""What runs before there is an environment, and makes it: standard library only."""
