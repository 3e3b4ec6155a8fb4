"""Exact results with less computation: closest pairs by bounds, the farthest pair, sums of groups."""
