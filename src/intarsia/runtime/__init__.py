"""How requests travel to participants and replies back, and the loop that drives a run."""
