"""The root of all errors that this package raises on purpose."""


class HapticsError(Exception):
    """Something cannot be done; the text says what was found, what is allowed, and what to do."""
