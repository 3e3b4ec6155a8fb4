"""What would leave a participant, seen before anything does: the replies to the first requests of a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from intarsia.exceptions import IntarsiaError, ReleaseError, quote
from intarsia.federation import private
from intarsia.federation.algorithms import algorithm_of, forbidden, rounds_beyond, without_secure
from intarsia.federation.consent import terms_of
from intarsia.federation.private import without_values
from intarsia.federation.site import open_rows, participant_of, reading_in_words, reading_of
from intarsia.federation.site_settings import LocalSettings
from intarsia.federation.study_file import Study
from intarsia.participant.private import PrivateParticipant
from intarsia.protocol import AskKeys, AskMasked, AskShares, AskUnmask, Failure, Reply, encode, tag_of
from intarsia.protocol.catalogue import account_of
from intarsia.runtime.drive import exception_of
from intarsia.tables import Opened
from intarsia.tables.open import check_commas

_MASKED = (AskKeys, AskShares, AskMasked, AskUnmask)
_PREVIEWED = {"query.describe", "query.summarize"}  # later requests depend on the other participants


class Preview(NamedTuple):
    """The terms to agree to, the messages that would leave, and a warning if the study may not finish."""

    terms: dict[str, Any]
    messages: list[dict[str, Any]]
    warning: str | None


def preview(settings: LocalSettings, study: Study, name: str, keys: Mapping[str, str] | None = None) -> Preview:
    """Answer the first requests of a study, as if nobody else took part; in a run, units are those of all participants.

    In a private study nothing is answered: the messages have no values. ``keys`` are those of all participants, with
    secure sums.

    Raises
    ------
    ReleaseError
        If the study asks for something that the participant's rules forbid.
    """
    algorithm, _ = algorithm_of(study)
    if why := forbidden(algorithm, settings.release):
        raise ReleaseError(f"your release rules forbid what the study asks for: {why} Hint: nothing has left.")
    terms = algorithm.terms(name)
    if terms.privacy is not None:
        check_commas(settings.table, name, reading_of(settings))
    opened = open_rows(name, settings, terms)
    masked = without_values(_MASKED) if study.secure_sums else []
    algorithm = without_secure(algorithm)  # what is summed is answered under masks, which nobody could read here
    participant = participant_of(settings, opened, terms=algorithm.terms(name))
    agreed = terms_of(study, name, settings, opened.columns, keys, reading_in_words(opened, settings))
    if isinstance(participant, PrivateParticipant):
        noisy = private.messages(0 if study.secure_sums else algorithm.terms(name).noisy_rounds)
        warning = " ".join(private.remarks(participant, algorithm.terms(name), settings))
        return Preview(agreed, [*masked, *noisy], warning or None)  # each answer would spend privacy
    messages = masked
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
    warnings = (_about_row_ids(opened), rounds_beyond(algorithm, settings.release))
    return Preview(agreed, messages, " ".join(filter(None, warnings)) or None)


def _about_row_ids(opened: Opened) -> str | None:
    if not (names := opened.row_id_columns()):
        return None
    return f"these columns look like row IDs and will be clustered on: {quote(names)}. Hint: --id {names[0]}"


def _as_json(reply: Reply) -> dict[str, Any]:
    values = msgspec.to_builtins(reply, enc_hook=lambda array: array.tolist())
    return {"message": tag_of(reply), "bytes": len(encode(reply)), "fields": account_of(reply), "values": values}
