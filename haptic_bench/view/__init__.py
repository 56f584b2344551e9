"""Pictures of trials: what there is to draw, where it is at an instant, and how it is shown."""
