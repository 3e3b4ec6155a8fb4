"""Which local clusters belong together: objective, methods, search, tree."""
