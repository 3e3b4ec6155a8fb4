"""What stands in the way of a federation on this machine: :func:`examine` looks, and says what to do."""

from intarsia.federation.doctor.examine import examine
from intarsia.federation.doctor.finding import Finding, State

__all__ = ["Finding", "State", "examine"]
