"""A participant's copy of the public model: bytes from a server that may lie, checked before they are kept.

No row is read: what is answered follows from the message, the terms of the study and the names of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from intarsia.exceptions import IntarsiaError, OutputError, ProtocolError, ReleaseError
from intarsia.participant.messages import with_name
from intarsia.participant.participant import Participant
from intarsia.participant.private import PrivateParticipant
from intarsia.protocol import Failure, KeepModel, ModelKept, Reply, StudyTerms
from intarsia.results.model_file import public_from_bytes


def keep_model(
    participant: Participant | PrivateParticipant,
    request: KeepModel,
    terms: StudyTerms | None,
    write: Callable[[bytes], None],
) -> Reply:
    """Check the model and ``write`` it, if the study says so; the reply says that it is kept, or why not."""
    participant.last_error = None
    pipeline = participant.pipeline
    try:
        pipeline.admit(request)
        check_copy(request.model, participant.column_of().values(), terms)
        try:
            write(request.model)
        except OutputError as error:  # its text names a folder of this participant
            raise ReleaseError("its copy of the model cannot be written. Its own log says why.") from error
        return pipeline.release(request, ModelKept())
    except IntarsiaError as error:
        participant.last_error = error
        failure = Failure(error=type(error).__name__, message=with_name(participant.name, error))
        return pipeline.release_failure(request, failure)


def check_copy(model: bytes, columns: Iterable[str], terms: StudyTerms | None) -> None:
    """Raise a ProtocolError unless this may be the public model of the study: with its K, and one of these columns.

    The cause of the error says what is wrong with the bytes.
    """
    try:
        public = public_from_bytes(model, "the model")
    except Exception as error:  # a server may send anything
        raise ProtocolError(
            "the model that was sent is damaged, or of another version, so that it is not kept. Hint: the same version of "
            "intarsia on all machines."
        ) from error
    if not {*public.features, *public.levels} & set(columns):
        raise ProtocolError("the model that was sent has no column of this participant, so that it is not kept.")
    if terms is not None and (wrong := next(terms.departing_k(len(public.sizes)), None)) is not None:
        raise ProtocolError(f"the model that was sent is not that of the study, so that it is not kept: {wrong}.")
    if terms is not None and public.min_holders < terms.share_min_holders:
        raise ProtocolError(
            f"the model that was sent shows what {public.min_holders} participant(s) have, and the study says "
            f"share_min_holders = {terms.share_min_holders}, so that it is not kept."
        )
