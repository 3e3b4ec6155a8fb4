"""Doctests of modules whose extra is not installed are left out. Ignoring all import errors would hide broken tests, too."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("nvflare") else ["intarsia/federation/flare"]
