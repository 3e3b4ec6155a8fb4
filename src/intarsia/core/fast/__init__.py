"""Faster equivalents of plain loops in :mod:`intarsia.core.grouping`; tests compare both."""
