"""Densities that are fitted to local clusters, and the forces between them.

The registry of families is filled here. A new family is one file and one line in this list.
"""

from intarsia.core.densities.base import (
    Clustered,
    Density,
    Family,
    density_names,
    families,
    family_of,
    fit_densities,
    register,
    unregister,
)
from intarsia.core.densities.dirichlet import DirichletFamily
from intarsia.core.densities.discrete import DiscreteFamily
from intarsia.core.densities.gaussian_fit import GaussianFamily

for _family in (GaussianFamily(), DirichletFamily(), DiscreteFamily()):
    register(_family)

__all__ = [
    "Clustered",
    "Density",
    "Family",
    "density_names",
    "families",
    "family_of",
    "fit_densities",
    "register",
    "unregister",
]
