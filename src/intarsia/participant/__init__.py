"""A participant's side of a study: it holds private rows and answers requests with summaries of them."""

from intarsia.participant.participant import Participant

__all__ = ["Participant"]
