"""The scikit-learn face of both algorithms."""

from intarsia.estimators.blocks import Blocks, participants_from_blocks
from intarsia.estimators.clustering import cluster
from intarsia.estimators.federated import FederatedClustering
from intarsia.estimators.loading import load, load_result
from intarsia.estimators.one_shot import OneShotClustering
from intarsia.estimators.privacy_forecast import PrivacyForecast, forecast_privacy
from intarsia.estimators.public import PublicModel
from intarsia.estimators.result import ClusteringResult

__all__ = [
    "Blocks",
    "ClusteringResult",
    "FederatedClustering",
    "OneShotClustering",
    "PrivacyForecast",
    "PublicModel",
    "cluster",
    "forecast_privacy",
    "load",
    "load_result",
    "participants_from_blocks",
]
