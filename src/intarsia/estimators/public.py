"""The public part of a result: it labels new rows, and says nothing of a single participant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from intarsia.core.mixture import Mixture
from intarsia.core.types import IntArray
from intarsia.estimators.model import Model, names_given
from intarsia.results import model_file
from intarsia.results.outcome import GlobalModel
from intarsia.results.profiles import Separation
from intarsia.results.public import PublicStudy, explanations_of, model_from


class PublicModel(Model):
    """The clusters of a study without local centroids and names of participants, to be shared if they agree.

    ``result.public()`` makes one, ``result.save(path, public=True)`` writes it, and :func:`intarsia.load` reads it. Where no
    entry is hidden, it labels, estimates and explains as the result does, to the last bit, but names no participants.
    ``deviations`` are those of memberships, which are drawn towards the deviation of all clusters.

    Attributes
    ----------
    feature_names : tuple of str
        The union of all columns, in the order of the study.
    """

    def __init__(self, content: PublicStudy) -> None:
        self._content = content
        self.feature_names = content.names_in_order

    @cached_property
    def _model(self) -> GlobalModel:
        return model_from(self._content)

    @property
    def global_model(self) -> GlobalModel:
        """The centroids in common units, and all that labelling a row needs."""
        return self._model

    @property
    def total_sizes(self) -> IntArray:
        """The rows of all participants in each cluster; 0 if they are too few to be shown."""
        return np.asarray(self._content.sizes)

    @property
    def fewest(self) -> int:
        """The smallest number of rows behind an entry that is shown."""
        return self._content.fewest

    @property
    def min_holders(self) -> int:
        """The smallest number of participants behind an entry that is shown."""
        return self._content.min_holders

    @property
    def n_hidden(self) -> int:
        """The number of entries of the centroids that are not known: hidden, or never measured."""
        return int((~self._content.known).sum())

    @property
    def privacy(self) -> str | None:
        """What differential privacy promises for this model, in words; None if the study was not private."""
        return self._content.privacy

    def _gaussians(self) -> Mixture:
        return self._model.mixture(self.total_sizes)

    def explain(self) -> tuple[Separation, ...]:
        """Return the features that separate each cluster from the others, the clearest first; no participants are named."""
        return explanations_of(self._content)

    def rename(self, names: Mapping[int, str]) -> PublicModel:
        """Return the same model with names for some clusters, as :meth:`ClusteringResult.rename`."""
        return PublicModel(replace(self._content, names=names_given(self._model, names)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file; :func:`intarsia.load` reads it."""
        model_file.save_public(path, self._content)

    def __str__(self) -> str:
        rows = "about " if self.privacy is not None else ""
        k, n, d = self.n_clusters, int(self.total_sizes.sum()), len(self.feature_names)
        counted = [f"{number} {word}{'' if number == 1 else 's'}" for number, word in ((k, "cluster"), (d, "feature"))]
        sizes = ", ".join(map(str, self.total_sizes))
        return f"{counted[0]} of {rows}{n} rows over {counted[1]} (sizes {sizes}; public model)"

    def __repr__(self) -> str:
        return f"<PublicModel: {self}>"
