"""Tables of distances as scikit-learn's ``set_output`` asks for them, also for several tables."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.base import TransformerMixin

from intarsia.core.types import FloatArray

T = TypeVar("T")


class _Contained(TransformerMixin):
    """Has the method that scikit-learn wraps: it puts what ``transform`` returns into a container."""

    def transform(self, X: Any, distances: FloatArray) -> Any:  # noqa: ARG002  (the container has the index of X)
        return distances


def contained(estimator: Any, table: Any, distances: FloatArray) -> Any:
    """Return the distances of the rows of one table, in the container that was set for the estimator."""
    wrapped: Any = _Contained.transform
    return wrapped(estimator, table, distances)


def containing_itself(cls: type[T]) -> type[T]:
    """Return a class whose ``transform`` may return a dict of containers, which scikit-learn would take for one table."""
    for name in ("transform", "fit_transform"):
        setattr(cls, name, getattr(cls, name).__wrapped__)
    return cls
