"""Independent solutions that trials are compared with."""
