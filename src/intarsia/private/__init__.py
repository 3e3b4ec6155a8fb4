"""Private studies: an algorithm that runs another one on synthetic tables, which it draws from noisy sketches."""

from intarsia.private.algorithm import PrivateAlgorithm
from intarsia.private.sums import PrivateSums  # which says how a private study runs on secure sums

__all__ = ["PrivateAlgorithm", "PrivateSums"]
