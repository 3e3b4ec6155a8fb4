"""Densities that are fitted to local clusters, and the forces between them; a new family is one file and one line here."""

from intarsia.core.densities.base import Clustered as Clustered
from intarsia.core.densities.base import Density as Density
from intarsia.core.densities.base import Family as Family
from intarsia.core.densities.base import density_names as density_names
from intarsia.core.densities.base import families as families
from intarsia.core.densities.base import family_of as family_of
from intarsia.core.densities.base import fit_densities as fit_densities
from intarsia.core.densities.base import register as register
from intarsia.core.densities.base import unregister as unregister
from intarsia.core.densities.dirichlet import DirichletFamily
from intarsia.core.densities.discrete import DiscreteFamily
from intarsia.core.densities.gaussian_fit import GaussianFamily

register(GaussianFamily())
register(DirichletFamily())
register(DiscreteFamily())
