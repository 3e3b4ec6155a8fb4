"""A participant's side: owns private rows, hands out summaries."""

from typing import Any

from intarsia.core.distances import Metric
from intarsia.participant.base import Responder
from intarsia.participant.responder import Participant
from intarsia.participant.streamed import StreamedParticipant
from intarsia.privacy.gate import Gate
from intarsia.privacy.journal import Journal
from intarsia.tables import StreamedTable
from intarsia.tables.frame import Table


def participant_for(
    table: Table | StreamedTable, local: Any, metric: Metric, missing: str, gate: Gate | None = None
) -> Responder:
    """Whoever holds this table, in memory or on disk."""
    if isinstance(table, StreamedTable):
        return StreamedParticipant(table, local, metric, missing, gate)
    return Participant(table, local, metric, missing, gate)


__all__ = ["Gate", "Journal", "Participant", "Responder", "StreamedParticipant", "participant_for"]
