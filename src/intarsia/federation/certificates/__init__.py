"""Keys and certificates of a federation."""
