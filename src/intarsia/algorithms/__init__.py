"""The coordinator's side: decides, and never sends."""

from intarsia.algorithms.base import Algorithm, Step
from intarsia.algorithms.federated import FederatedAlgorithm
from intarsia.algorithms.one_shot import OneShotAlgorithm

__all__ = ["Algorithm", "FederatedAlgorithm", "OneShotAlgorithm", "Step"]
