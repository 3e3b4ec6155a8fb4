"""A participant's side of a study: it holds private rows and answers requests with summaries of them."""

from intarsia.participant.participant import Participant
from intarsia.privacy.gate import Gate
from intarsia.privacy.journal import Journal

__all__ = ["Gate", "Journal", "Participant"]
