"""Claims about resources, measured; see ``make bench``."""
