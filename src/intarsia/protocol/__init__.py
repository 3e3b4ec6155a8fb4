"""What travels between the coordinator and a participant."""
