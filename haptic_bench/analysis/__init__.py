"""What every analysis shows its numbers with: figures, units, the health of a realtime trial."""
