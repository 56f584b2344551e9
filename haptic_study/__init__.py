"""Studies with people: the order of conditions (`design`) and the measurement of perception (`psychophysics`)."""
