"""What institutions agree on and keep in a federation, without any engine."""
