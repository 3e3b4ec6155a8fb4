"""Secure sums: the coordinator learns the total of what participants measured, never one participant's part.

The protocol is the one of Bonawitz et al. (CCS 2017) with double masks, as pure functions without messages and state:
statements (:mod:`.group`), shares (:mod:`.shares`), masks (:mod:`.masks`). What each side learns, and what it does not,
is in ``docs/theory/secure-sums.md``.
"""
