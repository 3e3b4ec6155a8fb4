"""What a run returns, and facts about it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"metrics"})
