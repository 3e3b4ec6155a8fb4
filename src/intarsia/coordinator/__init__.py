"""The coordinator's side: decides, and never sends."""

from intarsia.coordinator.base import Algorithm, Step
from intarsia.coordinator.federated import FederatedAlgorithm
from intarsia.coordinator.one_shot import OneShotAlgorithm

__all__ = ["Algorithm", "FederatedAlgorithm", "OneShotAlgorithm", "Step"]
