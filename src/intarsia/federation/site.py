"""A participant at its site: its table, its clusterer, and the files that it keeps. Nothing of this comes from a job.

The study in the kit says which requests are answered.

In the kit are ``labels.csv`` (of the latest run; those of every run in ``labels/``), ``model.intarsia`` (the public model
of the latest run, if the study shares it), ``releases.jsonl`` (the journal of what left) and, in ``intarsia/``, the
request that a later one refers to, and the replies of each run: the same request gets the same reply after a restart.
With secure sums, secrets of the run are there, too. Beside the table is the record of what was told of it
(:mod:`intarsia.privacy.record`), or, in a private study, the ledger of what was spent on it
(:mod:`intarsia.privacy.ledger`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from intarsia._files import write_atomically
from intarsia.exceptions import LocalAlgorithmError, ProtocolError, ReleaseError, SettingError
from intarsia.federation.algorithms import terms_for
from intarsia.federation.extracts import check_agreed
from intarsia.federation.kit_folder import study_of
from intarsia.federation.pages import computing
from intarsia.federation.private import Place, private_participant
from intarsia.federation.secure import RUNS, credentials_of, vault_of
from intarsia.federation.site_settings import LocalSettings, read_settings
from intarsia.participant import Participant
from intarsia.participant.copies import keep_model
from intarsia.participant.private import PrivateParticipant
from intarsia.participant.registry import clusterer_from_text
from intarsia.participant.secure import SecureParticipant
from intarsia.privacy.journal import Journal, digest_of
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.record import Record
from intarsia.protocol import (
    AskColumns,
    AskMasked,
    Assign,
    Failure,
    KeepLabels,
    KeepModel,
    Label,
    Reply,
    Request,
    StudyTerms,
    Summarize,
    decode_reply,
    decode_request,
    encode,
    tag_of,
)
from intarsia.results.label_file import rename_labels, write_labels
from intarsia.results.model_file import public_from_bytes
from intarsia.tables import Opened, open_table
from intarsia.tables.dates import since
from intarsia.tables.local_numbers import check_decimal
from intarsia.tables.open import needs_all_rows
from intarsia.tables.reading import Reading

RELEASES, LABELS, LABELS_OF_RUNS, MODEL = "releases.jsonl", "labels.csv", "labels", "model.intarsia"
_RUN = re.compile(r"[0-9a-f]{16}")


def open_rows(name: str, settings: LocalSettings, terms: StudyTerms | None = None) -> Opened:
    """Open the columns of the participant's table that its settings name; as they are declared if the terms are private."""
    if not settings.table:
        raise SettingError(
            f"participant {name!r} has no table. Hint: intarsia participant serve --kit … --table data.csv"
        )
    return open_table(
        settings.table,
        name,
        id_column=settings.id_column,
        columns=settings.columns or None,
        all_rows=needs_all_rows(settings.missing, settings.local),
        declared=None if terms is None else terms.privacy,
        how=reading_of(settings),
    )


def reading_of(settings: LocalSettings) -> Reading:
    """Return how the settings of a participant say that its table is read."""
    days = {column: since(day) for column, day in settings.dates.items()}
    return Reading(check_decimal(settings.decimal), settings.encoding, days, settings.rename)


def reading_in_words(opened: Opened, settings: LocalSettings) -> str | None:
    """Return what is done to a table when it is read; None if it is read as it stands."""
    words = [opened.remark] if opened.remark else []
    words += [f"days since {day} in {column!r}" for column, day in settings.dates.items() if column in opened.columns]
    words += [f"{old!r} renamed {new!r}" for old, new in settings.rename.items()]
    return "; ".join(words) or None


def record_of(settings: LocalSettings) -> Record:
    """Return the record of what was told of a participant's table, which stands beside the table by default."""
    return Record(Path(settings.record)) if settings.record else Record.beside(settings.table)


def check_record(name: str, settings: LocalSettings) -> None:
    """Raise a ReleaseError that says what changed in a participant's table since it was first told of."""
    pipeline = Pipeline(settings.release, record=record_of(settings))
    held = open_rows(name, settings).hold(settings.missing)
    Participant(held, clusterer_from_text(settings.local), missing=settings.missing, pipeline=pipeline).check_record()


def participant_of(
    settings: LocalSettings,
    opened: Opened,
    journal: Journal | None = None,
    terms: StudyTerms | None = None,
    place: Place | None = None,
    run: str = "",
) -> Participant | PrivateParticipant:
    """Return the participant with this table and its own release rules; a private one if the terms say so.

    The journal lists what leaves; requests that the terms do not list are refused. ``place`` is the study and run in the
    ledger of a private participant.
    """
    if terms is not None and terms.privacy is not None:
        return private_participant(settings, opened, Pipeline(settings.release, journal, terms=terms), terms, place)
    record = None if journal is None else record_of(settings)
    pipeline = Pipeline(settings.release, journal, terms=terms, record=record, run=run)
    local = clusterer_from_text(settings.local)
    return Participant(opened.hold(settings.missing), local, settings.metric, settings.missing, pipeline)


class _SiteJournal(Journal):
    """The journal of a site: it refuses replies of more than ``max_bytes``, and does not list those that stay here."""

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        super().__init__(path)
        self._max_bytes = max_bytes
        self.replies_stay = False

    def write_reply(
        self,
        reply: Reply,
        request: Request | None,
        suppressed: Mapping[str, int] | None = None,
        data: bytes | None = None,
    ) -> None:
        """Write that a reply is about to leave, or raise a ReleaseError if it is too large for one message."""
        size = len(encode(reply) if data is None else data)
        if self._max_bytes is not None and size > self._max_bytes and not isinstance(reply, Failure):
            raise ReleaseError(f"a reply of {size} bytes is larger than the {self._max_bytes} of one message.")
        if not self.replies_stay:
            super().write_reply(reply, request, suppressed, data)


@contextmanager
def _one_error() -> Iterator[None]:
    """Turn all errors into one kind: what is wrong with a private table may depend on a row. The log has the cause."""
    try:
        yield
    except Exception as error:
        raise LocalAlgorithmError("the table of this participant cannot take part in a private study.") from error


class Site:
    """A participant and its kit: it answers requests, writes labels, and continues a run after a restart."""

    def __init__(self, name: str, kit: Path, run: str, max_bytes: int | None = None) -> None:
        if not _RUN.fullmatch(run):
            raise ProtocolError("the job does not name its run.")
        self._name, self._kit = name, kit
        self._label_files = (kit / LABELS_OF_RUNS / f"{run}.csv", kit / LABELS)  # no other run overwrites the first
        self._last_summarize = kit / RUNS / f"{run}.summarize"
        self._last_summarize.parent.mkdir(exist_ok=True)
        self._replies = kit / RUNS / f"{run}.replies"
        self._journal = _SiteJournal(kit / RELEASES, max_bytes)
        study, settings = study_of(kit), read_settings(kit / "local")
        terms = terms_for(study, name)
        self._vault = vault_of(kit, run) if study.secure_sums else None
        credentials = credentials_of(kit, run) if study.secure_sums else None  # before a row is read
        check_agreed(kit, settings.table)
        with _one_error() if terms is not None and terms.privacy is not None else nullcontext():
            opened = open_rows(name, settings, terms)
            inner = participant_of(settings, opened, self._journal, terms, Place(study.name, run), run)
        self._participant: Participant | PrivateParticipant | SecureParticipant = inner
        self._rows, self._terms, self._model = inner, terms, kit / MODEL
        self._answering: Participant | PrivateParticipant | SecureParticipant = inner
        self._secure = (
            None if credentials is None else partial(SecureParticipant, inner, credentials, terms, self._vault)
        )
        self._ids = opened.ids
        self._summarized = False

    @property
    def last_error(self) -> BaseException | None:
        """The exception behind the latest failure of the participant; it stays here."""
        return self._answering.last_error

    def answer(self, data: bytes) -> Reply:
        """Return the reply to an encoded request; a failure if it is not a request."""
        tag = None
        with suppress(ProtocolError):
            tag = tag_of(decode_request(data))
        with computing(self._kit, self._name, tag), self._alone():
            return self._answer(data)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from the secrets of a secure participant while it answers."""
        if self._vault is None or self._secure is None:
            yield
            return
        with self._vault.locked():
            self._participant = self._secure()  # a job of the same run in another process may have answered since
            yield

    def _answer(self, data: bytes) -> Reply:
        try:
            request = decode_request(data)
        except ProtocolError as error:
            message = f"participant {self._participant.name!r}: {error}"
            failure = Failure(error=ProtocolError.__name__, message=message)
            self._journal.write_reply(failure, None)
            return failure
        if isinstance(request, Assign) and not self._summarized:
            self._recall()
        if (told := self._told(request)) is not None:
            return self._repeated(request, told)
        reply = self._handle(request)
        if not isinstance(reply, Failure):
            self._remember(request)
            if not isinstance(request, AskColumns):  # it may be asked again when columns have changed
                self._keep(request, reply)
        return reply

    def _handle(self, request: Request) -> Reply:
        """Return the participant's answer; its copy of the model is a file, which no participant in one process has."""
        if isinstance(request, KeepModel):
            self._answering = self._rows
            return keep_model(self._rows, request, self._terms, partial(write_atomically, self._model, secret=True))
        self._answering = self._participant
        return self._participant.handle(request)

    def _repeated(self, request: Request, told: Reply) -> Reply:
        """Return what was told before a restart, and find local clusters or labels again, which only rows have."""
        if isinstance(request, Summarize | Label | Assign | KeepLabels | KeepModel):
            self._journal.replies_stay = True
            reply = self._handle(request)
            self._journal.replies_stay = False
            if isinstance(reply, Failure):
                told = reply
            else:
                self._remember(request)
        self._journal.write_reply(told, request)
        return told

    def _told(self, request: Request) -> Reply | None:
        """Return the reply to the same request before a restart: what was told since must not change it."""
        try:
            return decode_reply((self._replies / digest_of(request)).read_bytes())
        except (OSError, ProtocolError):
            return None

    def _keep(self, request: Request, reply: Reply) -> None:
        self._replies.mkdir(mode=0o700, exist_ok=True)
        write_atomically(self._replies / digest_of(request), encode(reply), secret=True)

    def _remember(self, request: Request) -> None:
        if isinstance(request, Summarize):
            write_atomically(self._last_summarize, encode(request), secret=True)
            self._summarized = True
        if isinstance(request, KeepModel):
            self._name_labels(public_from_bytes(request.model, MODEL).names)
        labels = self._participant.labels
        question = request.question if isinstance(request, AskMasked) else request
        if isinstance(question, Label | Assign | KeepLabels) and labels is not None:
            for path in self._label_files:
                path.parent.mkdir(exist_ok=True)
                write_labels(path, {"cluster": labels}, self._ids)

    def _name_labels(self, names: tuple[str, ...]) -> None:
        """Write the names of clusters, which come with the model, into the labels of this run."""
        if any(names) and self._label_files[0].is_file():
            for path in self._label_files:
                rename_labels(path, {k: name for k, name in enumerate(names) if name})

    def _recall(self) -> None:
        """Cluster again as before a restart: the request refers to clusters that another process found."""
        try:
            request = decode_request(self._last_summarize.read_bytes())
        except (OSError, ProtocolError):
            return  # the participant will answer that it has no clusters
        self._journal.replies_stay = True
        self._summarized = not isinstance(self._participant.handle(request), Failure)
        self._journal.replies_stay = False
