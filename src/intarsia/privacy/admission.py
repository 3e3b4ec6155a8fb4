"""Which requests a participant answers, and how many."""

from __future__ import annotations

from contextlib import nullcontext

from intarsia.exceptions import ReleaseError
from intarsia.privacy.journal import ASKED, Journal, LockedJournal, digest_of
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Failure, Request, tag_of

_FEWEST_REQUESTS = 5  # of a kind, and rounds with several sets of centroids, that every study may need


class Admission:
    """Which requests a participant answers.

    Sums over rows that the coordinator chooses can be subtracted from each other, so that a participant answers only as many
    different requests as a study needs. They are counted over restarts and over jobs that run at the same time, and a
    request is counted before it is answered. The same request is counted once.
    """

    def __init__(self, policy: ReleasePolicy, journal: Journal | None) -> None:
        self._policy, self._journal = policy, journal
        self._asked: dict[str, set[str]] = {}
        self._trials: set[str] = set()

    def admit(self, request: Request) -> None:
        """Raise a ReleaseError if the policy forbids an answer; otherwise count the request."""
        for need in request.needs():
            if not getattr(self._policy, need.rule):
                raise ReleaseError(
                    f"{need.reason}, which the release policy of this participant suppresses. Hint: {need.rule}."
                )
        if self._policy.max_rounds is None or not request.is_counted:
            return
        with nullcontext() if self._journal is None else self._journal.locked() as journal:
            self._count(request, self._policy.max_rounds, journal)

    def _count(self, request: Request, max_rounds: int, journal: LockedJournal | None) -> None:
        """Count a request, together with those that other jobs have written to the journal."""
        for entry in () if journal is None else journal.entries():
            if entry.get("reply") != tag_of(Failure):  # it may have refused the request, which then does not count
                self._remember(str(entry.get("request")), str(entry.get("digest")), entry.get("sets", 1))
        tag, digest = tag_of(request), digest_of(request)
        if digest in self._asked.setdefault(tag, set()):
            return
        self._check_number(request, max_rounds)
        self._remember(tag, digest, request.n_sets)
        if journal is not None:
            journal.append({"event": ASKED, "request": tag, "digest": digest, "sets": request.n_sets})

    def _remember(self, tag: str, digest: str, n_sets: int) -> None:
        self._asked.setdefault(tag, set()).add(digest)
        if n_sets != 1:
            self._trials.add(digest)

    def _check_number(self, request: Request, max_rounds: int) -> None:
        tag = tag_of(request)
        trials = max(max_rounds // 2, _FEWEST_REQUESTS)  # each contains as many sums as several rounds
        if request.n_sets > 1 and len(self._trials) >= trials:
            raise ReleaseError(
                f"{trials} rounds with several sets of centroids were answered in this study, as many as the release "
                "policy of this participant allows: half of all rounds. Hint: max_rounds, or n_rivals=0."
            )
        most = max_rounds if request.is_round else max(max_rounds, _FEWEST_REQUESTS)
        if len(self._asked[tag]) >= most:
            kind = "rounds" if request.is_round else f"requests {tag}"
            raise ReleaseError(
                f"{most} {kind} were answered in this study, as many as the release policy of this participant allows. "
                "Hint: max_rounds."
            )
