"""Randomness with an address, so that answers do not depend on who answered first."""

from __future__ import annotations

from hashlib import sha256

import numpy as np


def stream(seed: int, *address: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the address alone, e.g. ``stream(seed, "clinic-a", "summarize")``.

    >>> a, b = stream(0, "clinic-a", 1), stream(0, "clinic-a", 1)
    >>> bool(a.random() == b.random()), bool(a.random() == stream(0, "clinic-b", 1).random())
    (True, False)
    """
    words = "\x1f".join(f"{type(part).__name__}:{part}" for part in address)
    digest = sha256(words.encode(errors="surrogatepass")).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])


def draw_seed(rng: np.random.Generator) -> int:
    """A seed for whatever wants a plain integer (scikit-learn's ``random_state``)."""
    return int(rng.integers(2**31 - 1))


def seed_of(random_state: int | np.random.RandomState | np.random.Generator | None) -> int:
    """Return a seed from an int, a RandomState, a Generator, or, for None, from the operating system."""
    if random_state is None:
        return draw_seed(np.random.default_rng())
    if isinstance(random_state, np.random.Generator):
        return draw_seed(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)
