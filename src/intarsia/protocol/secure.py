"""The exchanges of secure sums: keys, shares of them, masked sums, and what removes the masks from their total.

The coordinator learns the total over all participants that answered, and nothing of a single one. See
:mod:`intarsia.privacy.secure` for the protocol, and ``docs/theory/secure-sums.md`` for what each side learns.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from intarsia.protocol.checks import MOST_LETTERS, MOST_ROWS, require
from intarsia.protocol.describe import Describe
from intarsia.protocol.facts import Fact
from intarsia.protocol.label import Label
from intarsia.protocol.parts import MOST_CENTRES
from intarsia.protocol.private import AskSums
from intarsia.protocol.refine import MOST_SETS, Refine
from intarsia.protocol.terms import StudyTerms
from intarsia.protocol.wire import Array, Exchange, Part, Reply, Request, pack_array, tag_of

MOST_PARTICIPANTS = 200
MOST_SUMS = 64
_MOST_BYTES = 1 << 20  # of one box or statement
_MOST_FEATURES = 100_000
_MOST_ENTRIES = 1 << 23  # of all centroids of a sum together: a few hundred megabytes at a participant
_DIGEST = 32  # bytes

UNITS, ROUND, LABELS, NOISY = "units", "round", "labels", "noisy round"
"""What is summed: moments of columns, refined centroids, sizes and squares, and sums with noise."""


class _Secure(Request, frozen=True):
    """The base class of requests of secure sums. A participant keeps track itself of what it answered to which."""

    is_counted: ClassVar[bool] = False

    def departures(self, terms: StudyTerms) -> Iterator[str]:
        """The study must have secure sums."""
        if not terms.secure_sums:
            yield "secure sums are not part of the study"


class AskKeys(_Secure, frozen=True, tag="query.keys"):
    """Asks a participant for fresh public keys, one for each sum of the run, signed with its own key."""

    run: Annotated[str, Fact("name of the run")]
    names: Annotated[tuple[str, ...], Fact("names of all participants")]
    n_sums: Annotated[int, Fact("largest number of sums in the run")]

    def check(self) -> None:
        """There must be enough participants, and a moderate number of sums."""
        require(3 <= len(self.names) <= MOST_PARTICIPANTS, f"there must be 3 to {MOST_PARTICIPANTS} participants")
        require(list(self.names) == sorted(set(self.names)), "names must be different and sorted")
        require(1 <= self.n_sums <= MOST_SUMS, f"there must be 1 to {MOST_SUMS} sums")
        require(len(self.run) <= MOST_LETTERS, "the name of the run is too long")


class Keys(Reply, frozen=True, tag="reply.keys"):
    """Public keys and the names of the columns, signed; no number in it depends on rows."""

    statement: Annotated[bytes, Fact("participant, run, names of columns and public keys")]
    signature: Annotated[bytes, Fact("signature of the statement")]
    public: Annotated[bytes, Fact("public key of the signature")]

    def check(self) -> None:
        """The parts must not be too long."""
        require(max(map(len, (self.statement, self.signature, self.public))) <= _MOST_BYTES, "keys are too long")


class SignedKeys(Part, frozen=True):
    """The keys of one participant, as it signed them."""

    name: Annotated[str, Fact("name of the participant")]
    statement: Annotated[bytes, Fact("participant, run, names of columns and public keys")]
    signature: Annotated[bytes, Fact("signature of the statement")]
    public: Annotated[bytes, Fact("public key of the signature")]


class AskShares(_Secure, frozen=True, tag="query.shares"):
    """Tells a participant the public keys of all, and asks for shares of its own secrets, sealed for each of the others."""

    keys: Annotated[tuple[SignedKeys, ...], Fact("signed keys of all participants")]

    def check(self) -> None:
        """There must be one set of keys of each participant."""
        names = [each.name for each in self.keys]
        require(3 <= len(names) <= MOST_PARTICIPANTS and len(set(names)) == len(names), "keys must be of 3 or more")


class Shares(Reply, frozen=True, tag="reply.shares"):
    """Shares of the participant's secret keys, which only the participant that each is meant for can open."""

    boxes: Annotated[dict[str, bytes], Fact("sealed shares of random keys, by recipient")]

    def check(self) -> None:
        """The boxes must not be too long."""
        require(len(self.boxes) <= MOST_PARTICIPANTS, "there are too many boxes")
        require(max(map(len, self.boxes.values()), default=0) <= _MOST_BYTES, "a box is too long")


class Layout(Part, frozen=True):
    """What each number of a sum stands for, the same for all participants: masks cancel only if all were told the same.

    ``told`` and ``asked`` are digests of the question: of the numbers by feature, because participants have different
    features, and of the rest. A participant checks them, so that masks cancel only if all were asked the same.
    """

    what: Annotated[str, Fact("what is summed")]
    features: Annotated[tuple[str, ...], Fact("features with several holders: no other feature is summed")]
    n_sets: Annotated[int, Fact("number of sets of centroids")]
    n_clusters: Annotated[int, Fact("number of clusters")]
    units: Annotated[Array, Fact("units that sums of each feature are counted in")]
    told: Annotated[tuple[bytes, ...], Fact("digest of the numbers that the question has for each feature")] = ()
    asked: Annotated[bytes, Fact("digest of the rest of the question")] = b""

    def check(self) -> None:
        """The numbers must be in their ranges, and the units positive."""
        require(self.what in {UNITS, ROUND, LABELS, NOISY}, "the kind of the sum is unknown")
        require(len(set(self.features)) == len(self.features) <= _MOST_FEATURES, "features must be different")
        require(1 <= self.n_sets <= MOST_SETS and 1 <= self.n_clusters <= MOST_CENTRES, "there are too many centroids")
        entries = self.n_sets * self.n_clusters * len(self.features)
        require(entries <= _MOST_ENTRIES, f"the centroids of a sum must have at most {_MOST_ENTRIES} entries together")
        fits = self.units.shape == (len(self.features),) and self.units.dtype.kind == "f"
        require(fits and bool((np.isfinite(self.units) & (self.units > 0)).all()), "units must be positive numbers")
        require(len(self.told) in {0, len(self.features)}, "there must be a digest for each feature")
        require({len(self.asked), *map(len, self.told)} <= {0, _DIGEST}, f"digests must have {_DIGEST} bytes")

    def digest(self) -> bytes:
        """Return the SHA-256 of the layout, which masks depend on."""
        return sha256(msgspec.msgpack.encode(self, enc_hook=pack_array)).digest()


class Merged(Part, frozen=True):
    """The mean of all participants' centroids after the last round, and the number of values behind each entry."""

    values: Annotated[Array, Fact("mean over all participants, on this participant's features")]
    counts: Annotated[Array, Fact("observed values of all participants behind each entry")]


class AskMasked(_Secure, frozen=True, tag="query.masked"):
    """Asks for the answer to a question as one vector of whole numbers, under masks that only the total loses."""

    index: Annotated[int, Fact("number of the sum in the run, from 0")]
    boxes: Annotated[dict[str, bytes], Fact("sealed shares of the others' random keys, by sender")]
    layout: Annotated[Layout, Fact("what each number of the sum stands for")]
    question: Annotated[Describe | Refine | Label | AskSums, Fact("the question")]
    merged: Annotated[tuple[Merged, ...], Fact("centroids of all after the last round, for crosswise rounds")] = ()
    came_from: Annotated[tuple[int, ...], Fact("for each set of centroids, its number in the last round")] = ()
    step_size: Annotated[
        float, Fact("share of the way that centroids move in a round, for columns that stay at home")
    ] = 1.0

    def check(self) -> None:
        """The parts must fit each other."""
        require(0 <= self.index < MOST_SUMS, f"the number of the sum must be below {MOST_SUMS}")
        require(len(self.boxes) < MOST_PARTICIPANTS, "there are too many boxes")
        self.layout.check()
        kind = {Describe: UNITS, Refine: ROUND, Label: LABELS, AskSums: NOISY}[type(self.question)]
        require(self.layout.what == kind, "the layout must be that of the question")
        self.question.check()
        without = not isinstance(self.question, Label) or self.question.gaussians is None
        require(without, "rows of a sum are labelled by the nearest centroid")
        require(len(self.merged) in {0, self.layout.n_sets}, "there must be one merged set for each set of centroids")
        require(len(self.came_from) in {0, self.layout.n_sets}, "each set must say where it came from")
        require(0 < self.step_size <= 1, "the step size must be above 0 and at most 1")

    def told(self) -> tuple[bytes, ...]:
        """Return a digest of all numbers that the question has for each feature of the participant.

        Those of columns that stay at home may differ between participants; all others must be the same.
        """
        question = self.question
        if isinstance(question, Describe):
            return ()
        if isinstance(question, AskSums):
            parts = [question.centres, question.known, question.scales]
        else:
            sets = question.rivals if isinstance(question, Refine) else (question.centres,)
            require(all(each.values.shape == each.known.shape for each in sets), "centroids must fit each other")
            parts = [part for each in sets for part in (np.where(each.known, each.values, 0.0), each.known)]
            parts += [part for each in sets for part in (each.low, each.high)]
            parts += [] if question.columns is None else [question.columns.shift, question.columns.scale]
            parts += [part for each in self.merged for part in (each.values, each.counts)]
        rows = [np.atleast_2d(part).astype("<f8") for part in parts]
        require(len({part.shape[1:] for part in rows}) == 1, "all numbers must be those of the same features")
        table = np.ascontiguousarray(np.concatenate(rows).T)
        return tuple(sha256(column.tobytes()).digest() for column in table)

    def asked(self) -> bytes:
        """Return a digest of all that the question has beside numbers of features, which must be the same for all."""
        question, words = self.question, [self.came_from, self.step_size, len(self.merged)]
        if isinstance(question, Describe):
            words += [question.scale, question.moments_of]
        elif isinstance(question, AskSums):
            words += [question.round, question.radius]
        elif isinstance(question, Label):
            words += [question.spread, question.gaussians is None, question.columns is None]
        else:
            words += [question.seed, question.round, len(question.rivals), question.min_points, question.max_iter]
            words += [question.crosswise, question.columns is None]
        return sha256(msgspec.msgpack.encode([tag_of(question), *words])).digest()


class Masked(Reply, frozen=True, tag="reply.masked"):
    """A vector of whole numbers under masks: alone it is random, whatever the rows are."""

    values: Annotated[Array, Fact("sums over rows, masked; readable only as a total over participants")]
    audited: Annotated[
        int, Fact("smallest number of rows in any group whose sums follow from all that was told; 1: not audited")
    ] = 1

    def check(self) -> None:
        """It must be one vector of whole numbers."""
        require(self.values.ndim == 1 and self.values.dtype.kind == "i", "a masked sum must be a vector of integers")
        require(1 <= self.audited < MOST_ROWS, "the audited number of rows must be at least 1")


class AskUnmask(_Secure, frozen=True, tag="query.unmask"):
    """Names the participants whose masked sums arrived, and asks for the shares that remove the masks of their total."""

    index: Annotated[int, Fact("number of the sum in the run, from 0")]
    survivors: Annotated[tuple[str, ...], Fact("participants whose masked sums arrived")]

    def check(self) -> None:
        """The names must be different."""
        require(0 <= self.index < MOST_SUMS, f"the number of the sum must be below {MOST_SUMS}")
        require(len(set(self.survivors)) == len(self.survivors) <= MOST_PARTICIPANTS, "names must be different")


class Unmasked(Reply, frozen=True, tag="reply.unmasked"):
    """Shares of random keys: of the own mask of each survivor, and of the pair key of each participant that dropped out."""

    shares: Annotated[dict[str, bytes], Fact("one share of a random key for each participant")]

    def check(self) -> None:
        """The shares must be short."""
        require(len(self.shares) <= MOST_PARTICIPANTS, "there are too many shares")
        require(max(map(len, self.shares.values()), default=0) <= MOST_LETTERS, "a share is too long")


KEYS = Exchange(AskKeys, Keys, title="keys")
SHARES = Exchange(AskShares, Shares, title="shares of keys")
MASKED = Exchange(AskMasked, Masked, title="masked sums")
UNMASK = Exchange(AskUnmask, Unmasked, title="totals")
