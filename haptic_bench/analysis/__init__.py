"""What studies and reports share: metrics and claims, figures, readable units, the health of a realtime trial."""
