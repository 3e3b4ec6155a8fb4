"""A participant of a study with secure sums: what it tells of rounds can be read as a total over all participants only.

It answers a question as any participant does, turns the answer into a vector of whole numbers, and adds masks that cancel in
the total (:mod:`intarsia.privacy.secure`). What it must not forget, because a second answer to the same sum would open a
mask, is in its vault before a reply leaves: its secrets, whose keys it trusted, what it answered, and whom it helped to
unmask.

Columns with fewer than ``min_holders`` holders are in no sum: :mod:`intarsia.participant.at_home`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar

import msgspec
import numpy as np

from intarsia.core.features import FeatureSpace
from intarsia.core.types import IntArray
from intarsia.exceptions import IntarsiaError, LocalAlgorithmError, ProtocolError, ReleaseError, quote
from intarsia.participant.at_home import moved_parts, own_sets, part_of, with_home
from intarsia.participant.messages import with_name
from intarsia.participant.participant import Participant
from intarsia.participant.private import PrivateParticipant
from intarsia.participant.vault import AskedSum, Credentials, MemoryVault, State, Vault, decoded_state, encoded_state
from intarsia.privacy.secure.group import (
    Group,
    Signed,
    Statement,
    checked_statements,
    holders,
    holders_left,
    make_secrets,
    signed_statement,
)
from intarsia.privacy.secure.identity import Identity
from intarsia.privacy.secure.masks import masked, shares_for
from intarsia.privacy.secure.shares import Held, opened_boxes, split
from intarsia.protocol import (
    AskKeys,
    AskMasked,
    AskShares,
    AskSketch,
    AskSums,
    AskUnmask,
    Describe,
    Description,
    Failure,
    KeepLabels,
    Keys,
    Label,
    Labelled,
    Masked,
    Refine,
    Refinement,
    Reply,
    Request,
    Shares,
    StudyTerms,
    Summarize,
    Unmasked,
    encode,
    tag_of,
)
from intarsia.protocol.checks import require
from intarsia.protocol.totals import labels_vector, moments_vector, round_vector

_TOO_FAR = (
    "values are too far from the centroids to be added up exactly. Hint: scale='standard', or remove extreme values."
)


class SecureParticipant:
    """Answers the sums of a study under masks, and everything else as ``inner`` does.

    The terms of the study say how many holders a column needs to be in a sum (``min_holders``), and without how many
    participants no total is opened (``needed``).
    """

    def __init__(
        self,
        inner: Participant | PrivateParticipant,
        credentials: Credentials,
        terms: StudyTerms,
        vault: Vault | None = None,
    ) -> None:
        self.name = inner.name
        self.last_error: Exception | None = None
        self._inner, self._pipeline, self._terms = inner, inner.pipeline, terms
        self._identity = Identity.from_pem(credentials.identity)
        self._pins, self._run = credentials.pins, credentials.run
        self._vault: Vault = MemoryVault() if vault is None else vault
        data = self._vault.load()
        self._state: State | None = None if data is None else decoded_state(data)
        self._trusted: dict[str, Statement] | None = None

    @property
    def _columns(self) -> list[str]:
        """The names of all columns that may leave."""
        return sorted(set(self._inner.column_of().values()))

    @property
    def labels(self) -> IntArray | None:
        """The global cluster of each row, in the order of the owner's table. No message carries it."""
        return self._inner.labels

    @property
    def local_labels(self) -> IntArray | None:
        """The local cluster of each row, in the order of the owner's table."""
        return self._inner.local_labels

    def handle(self, request: Request) -> Reply:
        """Answer a request, or return a failure: in names and counts only, whatever went wrong."""
        self.last_error = None
        try:
            if isinstance(request, self._in_the_clear):
                self._check_plain(request)
                reply = self._inner.handle(request)
                self.last_error = self._inner.last_error
                return reply
            self._pipeline.admit(request, self.handlers)
            reply = self.handlers[type(request)](self, request)
            if not isinstance(reply, Failure):
                return self._pipeline.release(request, reply)
            self.last_error, failure = self._inner.last_error, reply
        except IntarsiaError as error:
            self.last_error = error
            failure = Failure(error=type(error).__name__, message=with_name(self.name, error))
        except Exception as error:  # noqa: BLE001  (the text of another library's error may contain values)
            self.last_error = error
            kind, what = type(error).__name__, tag_of(request)
            message = f"participant {self.name!r} failed with a {kind} while answering {what}"
            failure = Failure(error=LocalAlgorithmError.__name__, message=message)
        return self._pipeline.release_failure(request, failure)

    @property
    def _in_the_clear(self) -> tuple[type[Request], ...]:
        """The requests that are answered without masks: local clusters are compared, not added up."""
        private = isinstance(self._inner, PrivateParticipant)
        return (AskSketch, KeepLabels) if private else (Describe, Summarize)

    def _check_plain(self, request: Request) -> None:
        """Raise a ReleaseError if moments of columns with several holders are asked for in the clear."""
        if isinstance(request, Describe) and request.scale is not None:
            shared = self._shared()
            if request.moments_of is None or set(request.moments_of) & shared:
                raise ReleaseError(
                    "the study that this participant agreed to asks for moments of columns with several holders as totals "
                    "only."
                )

    def _store(self, state: State, **changes: Any) -> State:
        """Change the state, and return it when it is safe."""
        changed = msgspec.structs.replace(state, **changes) if changes else state
        self._vault.store(encoded_state(changed))
        self._state = changed
        return changed

    def _keys(self, request: AskKeys) -> Reply:
        if request.run != self._run:
            raise ReleaseError("keys were asked for another run than the one that this participant takes part in.")
        if set(request.names) != set(self._pins):
            odd = sorted(set(request.names) ^ set(self._pins))
            raise ReleaseError(
                f"the coordinator names other participants than this participant agreed to: {quote(odd)}. Hint: a new list "
                "of keys and a new consent form."
            )
        group, state = Group.of(request.run, request.names, request.n_sums), self._state
        if state is None:
            secrets = make_secrets(request.n_sums)
            signed = signed_statement(self._identity, group, self.name, self._columns, secrets)
            state = self._store(State(group=group, secrets=secrets, signed=signed))
        if state.group != group:
            raise ReleaseError("keys for another number of sums were given in this run, and a run has one set of keys.")
        signed = state.signed
        return Keys(statement=signed.statement, signature=signed.signature, public=signed.public)

    def _shares(self, request: AskShares) -> Reply:
        state = self._begun()
        keys = {each.name: Signed(each.statement, each.signature, each.public) for each in request.keys}
        if state.own is not None and keys != state.keys:
            raise ReleaseError(
                "shares were given for other keys in this run. Hint: a new run needs a new consent form."
            )
        statements = checked_statements(state.group, keys, self._pins)
        if keys.get(self.name) != state.signed:
            raise ReleaseError(f"the keys of participant {self.name!r} itself are not those that it gave.")
        self._check_enough(len(keys), state.group)
        if state.own is None:
            boxes, own = split(state.group, self.name, state.secrets, statements)
            state = self._store(state, keys=keys, boxes=boxes, own=own)
        self._trusted = statements
        return Shares(boxes=state.boxes)

    def _masked(self, request: AskMasked) -> Reply:
        state, digest = self._begun(), sha256(encode(request)).digest()
        statements = self._statements(state)
        require(request.index < state.group.n_sums, f"the run has {state.group.n_sums} sums")
        asked = AskedSum(digest, _place_of(request.question, self._terms))
        if state.asked.get(request.index, asked) != asked:
            raise ReleaseError(
                f"sum {request.index} was asked for in other words in this run, and each sum is answered once."
            )
        if (answer := state.answers.get(request.index)) is not None:
            if isinstance(request.question, Label) and self.labels is None:  # a restart came before they were written
                self._vector(request, state, len(request.boxes) + 1)
            return Masked(values=np.frombuffer(answer, dtype=np.int64))
        if state.received and request.boxes != state.received:
            raise ReleaseError("the participants of a run and their shares cannot change between its sums.")
        members = self._members(request.boxes)
        require(set(members) <= set(statements), "shares must come from participants whose keys were told")
        self._check_enough(len(members), state.group)
        self._held(state, request.boxes)  # all of them can be read
        if asked.place in {other.place for index, other in state.asked.items() if index != request.index}:
            raise ReleaseError(f"{asked.place}: asked for in another sum of this run, and a run asks it once.")
        # before rows are read: whether an answer fails must not be learned for one question after the other
        state = self._store(state, received=request.boxes, asked={**state.asked, request.index: asked})
        vector, parts = self._vector(request, state, len(members))
        if isinstance(vector, Failure):
            return vector
        context = request.layout.digest()
        values = masked(vector, state.group, self.name, state.secrets, statements, members, request.index, context)
        self._store(state, answers={**state.answers, request.index: values.astype("<i8").tobytes()}, **parts)
        return Masked(values=values)

    def _unmask(self, request: AskUnmask) -> Reply:
        state, survivors = self._begun(), tuple(sorted(request.survivors))
        if request.index not in state.answers:
            raise ReleaseError(f"sum {request.index} was not answered, so that nothing of it is unmasked.")
        if state.unmasked.get(request.index, survivors) != survivors:
            raise ReleaseError(
                f"sum {request.index} was unmasked for other participants: two totals would tell one participant's part."
            )
        is_private = isinstance(self._inner, PrivateParticipant)  # then each total has noise of its own
        if not is_private and any(others != survivors for others in state.unmasked.values()):
            raise ReleaseError(
                "another sum of this run was unmasked for other participants: the difference of two totals would tell the "
                "part of whoever is in one of them only."
            )
        self._check_enough(len(survivors), state.group)
        held, members = self._held(state, state.received), self._members(state.received)
        statements, fewest = self._statements(state), self._terms.min_holders
        n_holders = holders({name: statements[name] for name in members})
        left = holders_left(state.group, statements, members, survivors)
        # also of columns that this participant lacks: the holder that is left alone cannot prevent that others open it
        if few := sorted(name for name, n in n_holders.items() if n >= fewest > left[name]):
            raise ReleaseError(
                f"{len(few)} column(s) would have fewer than {fewest} holders in sum {request.index} without the "
                f"participants that dropped out: {quote(few)}."
            )
        shares = shares_for(held, state.group, self.name, members, request.index, survivors)
        self._store(state, unmasked={**state.unmasked, request.index: survivors})
        return Unmasked(shares=shares)

    def _begun(self) -> State:
        if self._state is None:
            raise ProtocolError("this participant gave no keys in this run yet")
        return self._state

    def _statements(self, state: State) -> dict[str, Statement]:
        if state.own is None:
            raise ProtocolError("this participant gave no shares in this run yet")
        if self._trusted is None:  # after a restart
            self._trusted = checked_statements(state.group, state.keys, self._pins)
        return self._trusted

    def _held(self, state: State, boxes: Mapping[str, bytes]) -> Held:
        assert state.own is not None
        return opened_boxes(state.group, self.name, state.secrets, self._statements(state), state.own, boxes)

    def _members(self, boxes: Mapping[str, bytes]) -> tuple[str, ...]:
        return tuple(sorted((*boxes, self.name)))

    def _check_enough(self, n: int, group: Group) -> None:
        needed = max(group.threshold, min(self._terms.needed, len(group.names)))
        if n < needed:
            raise ReleaseError(
                f"{n} of {len(group.names)} participants would take part in a sum, and this participant agreed to sums over "
                f"at least {needed}."
            )

    def _shared(self, members: Sequence[str] | None = None) -> set[str]:
        """Return the own columns that are told in sums: those that enough members hold, by what the holders signed."""
        statements = self._statements(self._begun())
        n_holders = holders({name: statements[name] for name in statements if members is None or name in members})
        return {name for name in self._columns if n_holders.get(name, 0) >= self._terms.min_holders}

    def _places(self, request: AskMasked, column_of: Mapping[str, str]) -> IntArray:
        """Return where the layout has each own feature, −1 for those that stay at home, which it must not have."""
        shared, space = self._shared(self._members(request.boxes)), FeatureSpace(request.layout.features)
        at_home = [name for name, column in column_of.items() if name in space and column not in shared]
        if at_home:
            raise ReleaseError(
                f"{len(at_home)} feature(s) of columns with fewer than {self._terms.min_holders} holders are in the sum: "
                f"{quote(at_home)}."
            )
        is_private = isinstance(self._inner, PrivateParticipant)  # noise hides what clusters cannot
        missing = [name for name, column in column_of.items() if column in shared and name not in space]
        if missing and not is_private:  # the numbers of these would be those of nobody else
            raise ReleaseError(f"{len(missing)} feature(s) with several holders are not in the sum: {quote(missing)}.")
        return np.array([space.index([name])[0] if name in space else -1 for name in column_of], dtype=np.intp)

    def _check_told(self, request: AskMasked, places: IntArray) -> None:
        """Raise a ReleaseError unless the question is the one that all participants were told of by the layout.

        Rows of others would be in other clusters then, so that the total of a cluster could be one participant's part.
        """
        told, layout = request.told(), request.layout
        require(isinstance(request.question, Describe) or len(told) == len(places), "centroids must fit the features")
        fits = len(layout.told) == (len(layout.features) if told else 0)
        fits = fits and all(layout.told[place] == each for place, each in zip(places, told, strict=False) if place >= 0)
        if layout.asked != request.asked() or not fits:
            raise ReleaseError(
                "the question is not the one that all participants of the sum were told, so that the total could be the "
                "part of one of them."
            )

    def _vector(self, request: AskMasked, state: State, n: int) -> tuple[IntArray | Failure, dict[str, Any]]:
        """Return the answer to the question as whole numbers, and what changes in the state."""
        question, layout, inner = request.question, request.layout, self._inner
        try:
            if isinstance(inner, PrivateParticipant):
                require(isinstance(question, AskSums), "a private study has sums with noise only")
                return self._noisy(request, inner, state), {}
            require(not isinstance(question, AskSums), "sums with noise are not part of the study")
            column_of = inner.column_of(getattr(question, "columns", None))
            if isinstance(question, Describe):
                numbers = {name: name for name in self._columns if name in column_of}
                require(question.scale is not None and question.moments_of is None, "a sum needs all moments")
                places = self._places(request, numbers)
                self._check_told(request, places)
                reply = self._at_home(question)
                if isinstance(reply, Failure):
                    return reply, {}
                assert isinstance(reply, Description)
                assert reply.moments is not None
                return moments_vector(reply.moments, places, layout), {}
            places = self._places(request, column_of)
            self._check_told(request, places)
            if isinstance(question, Refine):
                return self._refined(request, question, places, state, n)
            assert isinstance(question, Label)
            centres = with_home(question.centres, part_of(request, state.parts, 0), places < 0)
            reply = self._at_home(msgspec.structs.replace(question, centres=centres))
            if isinstance(reply, Failure):
                return reply, {}
            assert isinstance(reply, Labelled)
            return labels_vector(reply, places, layout, n), {}
        except OverflowError:
            raise ProtocolError(_TOO_FAR) from None

    def _at_home(self, question: Request) -> Reply:
        """Return the answer of this participant, which stays here."""
        with self._pipeline.at_home():
            return self._inner.handle(question)

    def _refined(
        self, request: AskMasked, question: Refine, places: IntArray, state: State, n: int
    ) -> tuple[IntArray | Failure, dict[str, Any]]:
        shape = (request.layout.n_clusters, len(places))
        fits = len(question.rivals) == request.layout.n_sets and all(
            each.values.shape == each.known.shape == shape for each in question.rivals
        )
        fits = fits and all(each.values.shape == each.counts.shape == shape for each in request.merged)
        require(fits, "the sets of centroids must fit the layout and the features of this participant")
        sets = own_sets(request, question, state, places < 0)
        reply = self._at_home(msgspec.structs.replace(question, rivals=sets.asked))
        if isinstance(reply, Failure):
            return reply, {}
        assert isinstance(reply, Refinement)
        sent = [np.where(each.known, each.values, 0.0) for each in question.rivals]
        vector = round_vector(reply.refined, sent, places, request.layout, n)
        return vector, {"round": question.round, "parts": moved_parts(sets.start, reply.refined, request.step_size)}

    def _noisy(self, request: AskMasked, inner: PrivateParticipant, state: State) -> IntArray:
        """Return sums with this participant's share of the noise: those of ``threshold`` participants are enough."""
        question, layout, places = request.question, request.layout, self._places(request, inner.column_of())
        assert isinstance(question, AskSums)
        self._check_told(request, places)
        self._pipeline.admit(question, inner.handlers)
        require(bool((layout.units == question.radius).all()), "the units of the sum must be the radius")
        require(len(question.centres) == layout.n_clusters, "the centroids must fit the layout")
        run = sha256(state.signed.statement).digest()  # keys are new in each
        return inner.shared_sums(question, state.group.threshold, len(layout.features), places, run)

    handlers: ClassVar[dict[type[Request], Callable[[Any, Any], Reply]]] = {
        AskKeys: _keys,
        AskShares: _shares,
        AskMasked: _masked,
        AskUnmask: _unmask,
    }
    """The function that answers each request of secure sums; what is asked in the clear goes to the inner participant."""


def _place_of(question: Request, terms: StudyTerms) -> str:
    """Return what is summed at most once in a run."""
    return "units" if isinstance(question, Describe) else str(question.place(terms))
