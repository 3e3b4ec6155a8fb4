"""The paper's two algorithms once more, slow and plain, and their agreement with ``preset="paper"``.

``distances``, ``algorithm_1`` and ``algorithm_2`` are written from the paper and ``docs/theory/errata.md`` alone, line by
line, with loops, numpy and the Hungarian method of scipy. They share no code with the package. ``studies`` draws random
studies, and the tests run both implementations on each of them.
"""
