"""Parts that several analyses share."""
