"""A server that runs a study on secure sums, lies in between whatever it can think of, and keeps all replies."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec.structs import replace

from intarsia.exceptions import IntarsiaError
from intarsia.privacy.secure.group import Group, make_secrets, signed_statement
from intarsia.privacy.secure.identity import Identity
from intarsia.protocol import (
    AskKeys,
    AskMasked,
    AskShares,
    AskUnmask,
    Describe,
    Description,
    Failure,
    Keys,
    LocalSummary,
    Masked,
    Refine,
    Shares,
    Summarize,
    Unmasked,
    decode_request,
    encode,
)
from intarsia.protocol.secure import SignedKeys
from intarsia.runtime.drive import drive
from tests.attacks.summing import Listening, People, algorithm_of, tables_of


class LyingServer(Listening):
    """Asks all that an honest coordinator asks, and up to ``most`` lies before each question, after the first few."""

    def __init__(self, people, rng, earlier=(), most=4):
        super().__init__(people)
        self._rng, self._earlier, self._most = rng, list(earlier), most
        self._begins = rng.integers(len(self._earlier) + 1)
        self.given, self.shares, self.n_lies, self.n_refused, self.wrong = defaultdict(set), defaultdict(set), 0, 0, []

    def _ask(self, name, request):
        if len(self.said) >= self._begins:
            self.lie(request, self._rng.integers(self._most + 1))
        reply = super()._ask(name, request)
        self._keep(name, request, reply)
        return reply

    def lie(self, request, n=1):
        """Ask n lies that begin with this request, or with another one that was ever asked."""
        for _ in range(n):
            self._lie(request)

    def _lie(self, request):
        name = self._pick(self.participants())
        known = [each for _, each, _ in (*self.said, *self._earlier) if not isinstance(each, Summarize)]
        base = self._pick([request, self._pick([request, *known])])  # often the question of the moment
        try:
            lie = decode_request(encode(self._changed(name, base)))
        except IntarsiaError:
            return  # it cannot be written as a message
        self.n_lies += 1
        reply = self._people.handle(name, lie)
        self.n_refused += isinstance(reply, Failure)
        self._keep(name, lie, reply)

    def _pick(self, options):
        options = list(options)
        return options[self._rng.integers(len(options))]

    def _some(self, options):
        options = list(options)
        return [options[k] for k in self._rng.permutation(len(options))[: self._rng.integers(len(options) + 1)]]

    def _changed(self, name, request):
        """Return a lie that begins with a request, which may be that to another participant or of another run."""
        if isinstance(request, AskKeys):
            return self._other_keys(request)
        if isinstance(request, AskShares):
            return self._other_shares(request)
        if isinstance(request, AskMasked):
            return self._other_sum(name, request)
        if isinstance(request, AskUnmask):
            return self._other_list(request)
        if isinstance(request, Describe):
            return replace(request, moments_of=self._pick([None, tuple("xyzw"), ("w",), ()]))
        return request  # to another, or once more

    def _other_keys(self, request):
        names = request.names
        return replace(
            request,
            run=self._pick(["run", "run", "run 2"]),
            names=self._pick([names, names[1:], names[:-1], tuple(sorted((*names[1:], "other")))]),
            n_sums=self._pick([request.n_sums, 1, 64]),
        )

    def _other_shares(self, request):
        keys = list(request.keys)
        k = self._rng.integers(len(keys))
        one, other = keys[k], self._pick(keys)
        old = [each for _, asked, _ in self._earlier if isinstance(asked, AskShares) for each in asked.keys]
        kind = self._pick(["less", "swapped", "named", "signature", "public", "earlier", "forged", "twice"])
        if kind == "less":
            return replace(request, keys=tuple(keys[:k] + keys[k + 1 :]))
        if kind == "twice":
            return replace(request, keys=(*keys, one))
        keys[k] = {
            "swapped": lambda: replace(other, name=one.name),
            "named": lambda: replace(one, name=other.name),
            "signature": lambda: replace(one, signature=other.signature),
            "public": lambda: replace(one, public=other.public),
            "earlier": lambda: replace(self._pick([*old, other]), name=one.name),
            "forged": lambda: self._forged(one.name),
        }[kind]()
        return replace(request, keys=tuple(keys))

    def _forged(self, name):
        """Return keys in the name of a participant, signed by the server."""
        group = Group.of("run", self.participants(), self._n_sums)
        signed = signed_statement(Identity.create(), group, name, "xyz", make_secrets(group.n_sums))
        return SignedKeys(name=name, statement=signed.statement, signature=signed.signature, public=signed.public)

    @property
    def _n_sums(self):
        return next(each.n_sums for _, each, _ in self.said if isinstance(each, AskKeys))

    def _other_sum(self, name, request):
        boxes, layout, question = dict(request.boxes), request.layout, request.question
        sender = self._pick(boxes)
        own = [each.boxes for to, each, _ in self.said if to == name and isinstance(each, AskMasked)]
        kind = self._pick(["boxes", "layout", "question", "index", "more", "moved"])
        if own and kind != "boxes":
            boxes = self._pick(own)
        if kind == "boxes":
            boxes[sender] = self._pick([boxes[self._pick(boxes)], boxes[sender][:-1] + b"x", self._rng.bytes(60)])
            if self._rng.random() < 0.5:
                del boxes[sender]
        if kind == "layout":
            n = len(layout.features)
            layout = self._pick(
                [
                    replace(layout, units=layout.units * self._pick([0.5, 1e-40, 1e40])),
                    replace(layout, features=layout.features[1:], units=layout.units[1:], told=layout.told[1:]),
                    replace(layout, features=layout.features[::-1], told=layout.told[::-1]),
                    replace(layout, features=tuple(f"{each}'" for each in layout.features)),
                    replace(layout, told=(bytes(32),) * n),
                    replace(layout, n_sets=layout.n_sets + 1),
                ]
            )
        if kind == "question" and isinstance(question, Refine):
            moved = tuple(replace(each, values=each.values + self._pick([1e-9, 5.0])) for each in question.rivals)
            question = self._pick(
                [
                    replace(question, round=question.round + 1),
                    replace(question, seed=question.seed + 1),
                    replace(question, rivals=moved),
                    replace(question, rivals=question.rivals * 2),
                    replace(question, crosswise=not question.crosswise),
                ]
            )
        index = request.index + (self._pick([-1, 1, 5]) if kind in {"index", "moved"} else 0)
        request = replace(request, index=index, boxes=boxes, layout=layout, question=question)
        if kind == "more":
            request = replace(request, came_from=(0,) * layout.n_sets, step_size=0.5)
        try:
            truthful = replace(layout, asked=request.asked(), told=request.told() or ())
        except IntarsiaError:
            return request
        return replace(request, layout=truthful) if self._rng.random() < 0.5 else request

    def _other_list(self, request):
        names = self.participants()
        survivors = self._pick([names, self._some(names), names[1:], names[:-1], (*names, "x"), (*names, names[0])])
        return replace(request, index=self._pick([request.index, request.index + 1, 0]), survivors=tuple(survivors))

    def _keep(self, name, request, reply):
        """Keep a reply, and note what nobody may ever get."""
        if isinstance(reply, Failure | LocalSummary):
            return
        index = getattr(request, "index", None)
        if isinstance(reply, Description):
            moments = reply.moments
            told = () if moments is None else np.array(reply.features)[moments.count > 0]
            if set(told) - {"w"}:
                self.wrong.append(f"{name} told moments of {told}")
        elif isinstance(reply, Keys | Shares | Masked | Unmasked):
            answers = self.given[type(reply).__name__, name, index]
            answers.add(encode(reply))
            if len(answers) > 1:
                self.wrong.append(f"{name} gave a second {type(reply).__name__} to {index}")
        else:
            self.wrong.append(f"{name} told a {type(reply).__name__}")
        if isinstance(reply, Unmasked):
            person = self._people.all[name]
            held = person._held(person._state, person._state.received).shares
            for owner, share in reply.shares.items():
                for kind in ("keys", "selves"):
                    if share == getattr(held[owner], kind)[index]:
                        self.shares[index, owner, kind].add(name)

    def opened(self, threshold):
        """Return whose seeds of both kinds could be found, even with the shares of any one participant that colludes."""
        both = {(index, owner) for index, owner, _ in self.shares}
        return [
            (index, owner, colluding)
            for index, owner in both
            for colluding in set(self.participants()) - {owner}
            if all(len(self.shares[index, owner, kind] | {colluding}) >= threshold for kind in ("keys", "selves"))
        ]


def attack(columns, seed, earlier=(), most=4):
    """Run a study with a server that lies, to its end or until somebody refuses to go on."""
    rng = np.random.default_rng([seed, 20])
    n = len(columns)
    algorithm = algorithm_of(columns, quorum=2 * n // 3 + 1)
    server = LyingServer(People(tables_of(columns), algorithm), rng, earlier, most)
    try:
        drive(algorithm, server, quorum=algorithm.quorum)
    except IntarsiaError:
        pass
    if most:
        server.lie(server.said[-1][1], 10)
    return server
