"""The paper's two algorithms once more, slow and plain, and their agreement with ``preset="paper"``.

``distances``, ``algorithm_1`` and ``algorithm_2`` are written from the paper and ``docs/theory/errata.md``, line by line,
with loops and numpy; matchings are tried out one by one. They share no code with the package. ``studies`` draws random
studies, and the tests run both implementations on each of them. Both start from the same local clusters, because the paper
leaves the local algorithm open, and from the same random numbers of proxies.

Agreement says less where the paper is silent. Four readings were taken from the package after a first comparison, and then
put into words in the errata: Method B's centroids that wait, the start of a round on hidden features, rows for emptied
local clusters, and the margin behind Assumption 3. Studies with ties in the matching are not compared.
"""
