"""Measurements on real datasets. Never imported by the package."""
