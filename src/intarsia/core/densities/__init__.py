"""Densities that are fitted to local clusters, and the forces between them."""
