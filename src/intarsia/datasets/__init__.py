"""Data to try things on. Only the four hospitals of UCI Heart Disease come with the package."""

from intarsia.datasets.hospitals import HeartDisease, load_heart_disease

__all__ = ["HeartDisease", "load_heart_disease"]
