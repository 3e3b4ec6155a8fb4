"""Which requests a participant answers, and how many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any

from intarsia.exceptions import ReleaseError
from intarsia.privacy.journal import AGREED, ASKED, LEFT, REFUSED, Journal, LockedJournal, digest_of
from intarsia.privacy.period import now, period_of, time_of
from intarsia.privacy.policy import ReleasePolicy
from intarsia.protocol import Columns, Failure, Request, StudyTerms, tag_of

OwnMoments = Mapping[str, tuple[float, float]]
"""Mean and standard deviation of each numeric column of the participant."""
_FEWEST_REQUESTS = 5  # of a kind, and rounds with several sets of centroids, that every study may need


class Admission:
    """Which requests a participant answers.

    Those that the terms of its study list, and nothing else: each place in a run once, with the same K, units and levels in
    all of them. Sums over rows that the coordinator chooses can be subtracted from each other, so that a participant also
    limits the number of different requests by its own policy. Requests are counted over restarts and over jobs that run at
    the same time, and before they are answered. The same request is counted once.

    A study that may be repeated has several runs, which ``run`` names; each place is then taken once in each run, and the
    same request is counted once in each run: the table may have changed between two. With ``max_rounds_per``, requests of
    earlier periods count towards the cap over all periods only.
    """

    def __init__(
        self,
        policy: ReleasePolicy,
        journal: Journal | None,
        terms: StudyTerms | None = None,
        run: str = "",
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._policy, self._journal, self._terms, self._clock = policy, journal, terms, clock
        self._asked = _Asked()
        self._ever = _Asked()  # also in earlier periods
        self._period = ""
        self._name = run
        self._run = _RunSoFar()
        self._own: OwnMoments | None = None

    def admit(self, request: Request) -> None:
        """Raise a ReleaseError if the study or the policy forbids an answer; otherwise count the request."""
        for need in request.needs():
            if not getattr(self._policy, need.rule):
                raise ReleaseError(
                    f"{need.reason}, which the release policy of this participant suppresses. Hint: {need.rule}."
                )
        if request.n_sets > 1 + self._policy.max_rivals:
            raise ReleaseError(
                f"{request.n_sets - 1} alternative set(s) of centroids were asked about, and the release policy of this "
                f"participant allows {self._policy.max_rivals}. Hint: max_rivals, or n_rivals in the study."
            )
        if self._terms is None and (self._policy.max_rounds is None or not request.is_counted):
            return
        with nullcontext() if self._journal is None else self._journal.locked() as journal:
            self._recall(journal)
            if self._terms is not None:
                self._check_terms(request, self._terms, journal)
            if request.is_counted:
                self._count(request, journal)

    def check_units(self, columns: Columns, own: Callable[[], OwnMoments]) -> None:
        """Raise a ReleaseError for units that do not fit the participant's own table; ``own`` is called once."""
        if self._terms is None:
            return
        self._own = own() if self._own is None else self._own
        if not (wrong := columns.implausible(self._own, self._terms.scale, self._terms.factors)):
            return
        raise ReleaseError(
            f"the units of {len(wrong)} feature(s) do not fit the scale {self._terms.scale or 'none'!r} of the study and "
            "the values of this participant's table, so that the request was refused. Hint: do all participants measure "
            "these columns in the same units?"
        )

    def _recall(self, journal: LockedJournal | None) -> None:
        """Read what was asked before a restart, or by other jobs."""
        if journal is None:
            return
        self._run = _RunSoFar()
        asked: set[str] = set()
        entries = list(journal.entries())
        times = _never_back(time_of(entry.get("time")) for entry in entries)
        self._begin_period([time for time in times if time is not None])
        for entry, time in zip(entries, times, strict=True):
            event, digest = entry.get("event"), str(entry.get("digest"))
            if event == AGREED:  # consent was given anew: a new run may begin
                self._run = _RunSoFar()
            run = str(entry.get("run", ""))
            if event == ASKED and (not self._repeats or run == self._name):
                self._run.add(entry.get("place"), digest, entry.get("shared", {}))
            if event == ASKED:
                asked.add(digest)
            # a line about a reply names no run: with several, it counts only if the line about its request is lost
            is_reply = event == LEFT and entry.get("reply") != tag_of(Failure)
            if event == ASKED or (is_reply and not (self._repeats and digest in asked)):
                tag, key, n_sets = str(entry.get("request")), self._key(digest, run), entry.get("sets", 1)
                self._ever.add(tag, key, n_sets)
                if self._is_now(time):
                    self._asked.add(tag, key, n_sets)

    @property
    def _repeats(self) -> bool:
        """Whether the study may be repeated."""
        return self._terms is not None and self._terms.previous

    def _key(self, digest: str, run: str) -> str:
        """Return what a request is counted by: two runs of a study count the same request twice."""
        return f"{run}:{digest}" if self._repeats else digest

    def _begin_period(self, times: Sequence[datetime]) -> None:
        """Forget what was asked in an earlier period. A clock that was set back stays in the latest period there was."""
        length = self._policy.max_rounds_per
        if length is None:
            return
        period = period_of(max([self._clock(), *times]), length)
        if period != self._period:
            self._period, self._asked = period, _Asked()

    def _is_now(self, time: datetime | None) -> bool:
        """Whether an entry counts in this period; one without a time does."""
        length = self._policy.max_rounds_per
        return length is None or time is None or period_of(time, length) == self._period

    def _check_terms(self, request: Request, terms: StudyTerms, journal: LockedJournal | None) -> None:
        digest = digest_of(request)
        reasons = list(dict.fromkeys(request.departures(terms))) or list(
            self._run.conflicts(request.place(terms), digest, request.shared(terms))
        )
        if not reasons:
            return
        why = f"the study that this participant agreed to does not ask this: {'; '.join(reasons)}."
        if journal is not None:
            journal.append({"event": REFUSED, "request": tag_of(request), "digest": digest, "why": why})
        raise ReleaseError(why)

    def _count(self, request: Request, journal: LockedJournal | None) -> None:
        """Count a request, unless the same was asked before; in a study that may be repeated, in this run."""
        tag, digest, terms = tag_of(request), digest_of(request), self._terms
        key = self._key(digest, self._name)
        place, shared = (None, {}) if terms is None else (request.place(terms), dict(request.shared(terms)))
        if journal is None:
            self._begin_period([])
        if self._ever.knows(tag, key) and self._run.knows(place, digest):
            return
        if not self._ever.knows(tag, key) and self._policy.max_rounds is not None:
            self._check_number(request, self._policy.max_rounds)
        for asked in (self._asked, self._ever):
            asked.add(tag, key, request.n_sets)
        self._run.add(place, digest, shared)
        if journal is not None:
            entry = {"event": ASKED, "request": tag, "digest": digest, "sets": request.n_sets}
            if terms is not None:
                entry |= {"place": place, "shared": shared} | ({"run": self._name} if self._repeats else {})
            journal.append(entry)

    def _check_number(self, request: Request, max_rounds: int) -> None:
        length, in_all = self._policy.max_rounds_per, self._policy.max_rounds_in_all
        when = "in this study" if length is None else f"in this study this {length} ({self._period}, UTC)"
        hint = "max_rounds" if length is None else f"max_rounds, or wait for the next {length}"
        self._check_limit(request, self._asked, max_rounds, when, hint)
        if length is not None:
            when = "in this study, in all periods together"
            self._check_limit(request, self._ever, in_all, when, "max_rounds_in_all", fewest=0)

    def _check_limit(
        self, request: Request, asked: _Asked, max_rounds: int, when: str, hint: str, fewest: int = _FEWEST_REQUESTS
    ) -> None:
        """Raise a ReleaseError if as many requests of this kind were answered as a limit allows: at least ``fewest``."""
        tag = tag_of(request)
        trials = max(max_rounds // 2, _FEWEST_REQUESTS)  # each contains as many sums as several rounds
        if request.n_sets > 1 and len(asked.trials) >= trials:
            raise ReleaseError(
                f"{trials} rounds with several sets of centroids were answered {when}, as many as the release "
                f"policy of this participant allows: half of all rounds. Hint: {hint}, or n_rivals=0."
            )
        most = max_rounds if request.is_round else max(max_rounds, fewest)
        if asked.number(tag) >= most:
            kind = "rounds" if request.is_round else f"requests {tag}"
            raise ReleaseError(
                f"{most} {kind} were answered {when}, as many as the release policy of this participant allows. "
                f"Hint: {hint}."
            )


def _never_back(times: Iterable[datetime | None]) -> list[datetime | None]:
    """Return the time of each entry, or that of the latest one before it: a clock that was set back opens no period."""
    result: list[datetime | None] = []
    latest: datetime | None = None
    for time in times:
        latest = time if latest is None or (time is not None and time > latest) else latest
        result.append(None if time is None else latest)
    return result


class _Asked:
    """The different requests that were asked, by kind, and those of them with several sets of centroids."""

    def __init__(self) -> None:
        self._digests: dict[str, set[str]] = {}
        self.trials: set[str] = set()

    def add(self, tag: str, digest: str, n_sets: int) -> None:
        self._digests.setdefault(tag, set()).add(digest)
        if n_sets != 1:
            self.trials.add(digest)

    def knows(self, tag: str, digest: str) -> bool:
        return digest in self._digests.get(tag, set())

    def number(self, tag: str) -> int:
        return len(self._digests.get(tag, set()))


class _RunSoFar:
    """The places of a run that requests have taken, and the settings that all its requests share."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}
        self._shared: dict[str, Any] = {}

    def add(self, place: str | None, digest: str, shared: Mapping[str, Any]) -> None:
        if place is not None:
            self._taken.setdefault(place, digest)
        self._shared |= shared

    def knows(self, place: str | None, digest: str) -> bool:
        return place is None or self._taken.get(place) == digest

    def conflicts(self, place: str | None, digest: str, shared: Mapping[str, Any]) -> Iterator[str]:
        """Yield why a request cannot belong to the same run as the earlier ones."""
        if place is not None and self._taken.get(place, digest) != digest:
            yield (
                f"{place}: another such request was answered in this run, and a run asks it once. Hint: a new run needs a "
                "new consent form"
            )
        for name, value in shared.items():
            if self._shared.get(name, value) != value:
                yield f"{name}: not the same as in earlier requests of this run"
