"""The coordinator: it decides what to ask and what the replies mean, and never sends."""

from intarsia.coordinator.contract import Algorithm, Step
from intarsia.coordinator.federated import FederatedAlgorithm
from intarsia.coordinator.one_shot import OneShotAlgorithm

__all__ = ["Algorithm", "FederatedAlgorithm", "OneShotAlgorithm", "Step"]
