"""The paper's two algorithms once more, slow and plain, and their agreement with ``preset="paper"``.

``distances``, ``algorithm_1`` and ``algorithm_2`` are written from the paper and ``docs/theory/errata.md`` alone, line by
line, with loops and numpy; matchings are tried out one by one. They share no code with the package. ``studies`` draws
random studies, and the tests run both implementations on each of them. Both start from the same local clusters, because the
paper leaves the local algorithm open, and from the same random numbers of proxies.
"""
