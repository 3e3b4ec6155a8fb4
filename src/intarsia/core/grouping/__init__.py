"""Grouping of local clusters: objectives, the paper's methods, a search, the merge tree and the choice of K."""
