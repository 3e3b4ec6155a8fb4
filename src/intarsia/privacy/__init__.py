"""What may leave a participant, and the record of what left."""
