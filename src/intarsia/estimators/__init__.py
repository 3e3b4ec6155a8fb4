"""The scikit-learn face of both algorithms."""

from intarsia.estimators.federated import FederatedClustering
from intarsia.estimators.one_call import cluster
from intarsia.estimators.one_shot import OneShotClustering
from intarsia.estimators.result import ClusteringResult

__all__ = ["ClusteringResult", "FederatedClustering", "OneShotClustering", "cluster"]
