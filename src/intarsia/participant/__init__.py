"""A participant's side: owns private rows, hands out summaries."""

from intarsia.participant.responder import Participant

__all__ = ["Participant"]
