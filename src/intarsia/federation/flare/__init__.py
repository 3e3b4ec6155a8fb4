"""The adapter to NVIDIA FLARE, and the only folder that imports it. Its names are imported from their modules."""
