"""Intarsia: one clustering over tables that share only some of their columns and none of their rows.

``intarsia.cluster({"a": table_a, "b": table_b})`` is the way in. The public names are listed once, in ``__init__.pyi``;
each is imported when it is first used, so that ``import intarsia`` is quick.
"""

import lazy_loader

from intarsia._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
