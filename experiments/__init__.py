"""Measurements on real datasets. Never imported by the package."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: one thread per process, as many processes as cores
