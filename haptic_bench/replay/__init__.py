"""What is done with a recorded trial: played back, simulated again, compared, repaired."""
