"""What would leave a participant, seen before anything does: the replies to the first requests of a study."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from intarsia.exceptions import IntarsiaError, ReleaseError
from intarsia.federation import private
from intarsia.federation.algorithms import algorithm_of, forbidden, rounds_beyond
from intarsia.federation.consent import terms_of
from intarsia.federation.site import open_rows, participant_of
from intarsia.federation.site_settings import LocalSettings
from intarsia.federation.study_file import Study
from intarsia.participant.private import PrivateParticipant
from intarsia.protocol import Failure, Reply, StudyTerms, encode, tag_of
from intarsia.protocol.catalogue import account_of
from intarsia.runtime.drive import exception_of

_PREVIEWED = {"query.describe", "query.summarize"}  # later requests depend on the other participants


class Preview(NamedTuple):
    """The terms to agree to, the messages that would leave, and a warning if the study may not finish."""

    terms: dict[str, Any]
    messages: list[dict[str, Any]]
    warning: str | None


def preview(settings: LocalSettings, study: Study, name: str) -> Preview:
    """Answer the first requests of a study, as if nobody else took part; in a run, units are those of all participants.

    In a private study nothing is answered: the messages have no values.

    Raises
    ------
    ReleaseError
        If the study asks for something that the participant's rules forbid.
    """
    algorithm, _ = algorithm_of(study)
    if why := forbidden(algorithm, settings.release):
        raise ReleaseError(f"your release rules forbid what the study asks for: {why} Hint: nothing has left.")
    terms = algorithm.terms(name)
    opened = open_rows(name, settings, terms)
    participant = participant_of(settings, opened, terms=terms)
    if isinstance(participant, PrivateParticipant):
        return _private(participant, terms, settings, terms_of(study, name, settings, opened.columns))
    messages: list[dict[str, Any]] = []
    step = algorithm.start((name,))
    while step.result is None and tag_of(step.requests[name]) in _PREVIEWED:
        reply = participant.handle(step.requests[name])
        if isinstance(reply, Failure):
            raise exception_of(reply)
        messages.append(_as_json(reply))
        try:
            step = algorithm.advance(step.state, {name: reply})
        except IntarsiaError:
            break  # one participant alone may be too few for the next step
    warning = rounds_beyond(algorithm, settings.release)
    return Preview(terms_of(study, name, settings, opened.columns), messages, warning)


def _private(
    participant: PrivateParticipant, terms: StudyTerms, settings: LocalSettings, agreed: dict[str, Any]
) -> Preview:
    """Return what a private study would ask; nothing is answered, because each answer spends privacy."""
    warning = " ".join(private.remarks(participant, terms, settings))
    return Preview(agreed, private.messages(terms.noisy_rounds), warning or None)


def _as_json(reply: Reply) -> dict[str, Any]:
    values = msgspec.to_builtins(reply, enc_hook=lambda array: array.tolist())
    return {"message": tag_of(reply), "bytes": len(encode(reply)), "fields": account_of(reply), "values": values}
