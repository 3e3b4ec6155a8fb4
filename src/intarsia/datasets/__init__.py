"""Example datasets, and functions that split one table between simulated participants.

Only the four hospitals of UCI Heart Disease come with the package; the ``fetch_*`` functions read files from the folder
``INTARSIA_DATA``.
"""

from intarsia.datasets.fetching import Dataset, data_folder, fetch_dim_set, fetch_har, fetch_qmnist
from intarsia.datasets.hospitals import HeartDisease, load_heart_disease
from intarsia.datasets.splitting import Split, choose_holders, mask_features, partition

__all__ = [
    "Dataset",
    "HeartDisease",
    "Split",
    "choose_holders",
    "data_folder",
    "fetch_dim_set",
    "fetch_har",
    "fetch_qmnist",
    "load_heart_disease",
    "mask_features",
    "partition",
]
