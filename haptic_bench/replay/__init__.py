"""Recorded trials played back, simulated again, compared and repaired."""
