"""A participant's side: owns private rows, hands out summaries."""

from intarsia.participant.gate import Gate, Journal
from intarsia.participant.responder import Participant

__all__ = ["Gate", "Journal", "Participant"]
