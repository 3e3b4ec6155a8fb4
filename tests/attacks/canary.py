"""Canary audit: how well an attacker tells, from what a private participant says, whether one extreme row is in its table.

The attacker knows all other rows and sees every noisy answer, also those in between that never leave. It guesses by the
likelihood ratio, which no other guess beats. With the rates α of false alarms and β of misses, (ε, δ)-differential privacy
implies ε ≥ log((1 − δ − β) / α). Clopper-Pearson bounds of both rates give an ε that holds with a chosen confidence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.private.questions import Question
from intarsia.core.private.sketch import Noisy
from intarsia.core.rows import Rows
from intarsia.participant.private import PrivateParticipant
from intarsia.privacy.budget import Account
from intarsia.privacy.noise import Noise, OpenDPNoise, epsilon_of
from intarsia.protocol import AskSums, Failure, Request
from intarsia.tables.open import open_table

EPSILON, DELTA = 1.5, 0.01
THRESHOLD = 2.0  # where α is small and many rows are found, with and without half of the noise
CANARY = 1e9  # beyond all bounds


class Halved:
    """Half of the noise that a release needs: a fault that an audit must find."""

    def draw(self, n: int, sensitivity: float, rho: float) -> np.ndarray:
        return OpenDPNoise().draw(n, sensitivity / 2, rho)


NOISES: dict[str, tuple[type[Noise], float]] = {"whole": (OpenDPNoise, 1.0), "half": (Halved, 0.5)}
"""Sources of noise, and how large the noise is compared with what is claimed."""


class Audit(NamedTuple):
    """Rates of a threshold attack, the ε that is claimed, and the ε that the attack proves with 95 % confidence."""

    false_alarms: float
    misses: float
    claimed: float
    proven: float


def audited(without: np.ndarray, with_row: np.ndarray, claimed: float, error: float = 0.05) -> Audit:
    """Return what the scores of runs without and with the row prove about ε at ``DELTA``."""
    alarms, misses = without >= THRESHOLD, with_row < THRESHOLD
    most_alarms, most_misses = (_upper(int(part.sum()), len(part), error / 2) for part in (alarms, misses))
    proven = float(np.log(max(1.0 - most_misses - DELTA, 1e-300) / most_alarms))
    return Audit(float(alarms.mean()), float(misses.mean()), claimed, proven)


def _upper(hits: int, n: int, error: float) -> float:
    """Return the upper Clopper-Pearson bound of a rate."""
    return 1.0 if hits == n else float(beta.ppf(1 - error, hits + 1, n - hits))


class Overheard(PrivateParticipant):
    """A participant whose noisy answers are overheard; ``score`` is the likelihood ratio of all of them, in standard units.

    It overrides a private method, the only way from rows to replies. ``others`` is the table without the row, ``canary`` the
    row alone.
    """

    def watch(self, others: PrivateParticipant, canary: PrivateParticipant) -> None:
        self._others, self._canary, self._parts = others, canary, list[tuple[float, float]]()

    def _ask(self, question: Question, rho: float, digest: str) -> Noisy:
        noisy = super()._ask(question, rho, digest)
        before, added = (question.sums(_rows_of(one)).astype(float) for one in (self._others, self._canary))
        along = float((noisy.values - before) @ added) / noisy.deviation**2
        self._parts.append((along, float(added @ added) / noisy.deviation**2))
        return noisy

    @property
    def score(self) -> float:
        along, square = np.sum(self._parts, axis=0)
        return float(along / np.sqrt(square))

    @property
    def distance(self) -> float:
        """How far the row moves the score, in standard deviations of the noise that is claimed."""
        return float(np.sqrt(sum(square for _, square in self._parts)))


def _rows_of(participant: PrivateParticipant) -> Rows:
    return participant._rows()


def participant(kind: type[Any], values: np.ndarray, privacy: DifferentialPrivacy, noise: Noise) -> Any:
    """A participant with one column, in a study with one round."""
    account = Account.of(privacy, 1)
    account.noise = noise
    return kind(open_table({"x": values}, "a").hold(declared=privacy), privacy, account)


def scores(request: Request, how: str, n_runs: int, n_rows: int = 40) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Ask for a reply again and again, without and with the row.

    Returns the scores in units of the noise as it is, what the reply claims to cost, and how far the row moves the score.
    """
    make, spread = NOISES[how]
    # of the budget, a round costs a tenth
    privacy = DifferentialPrivacy(8.0 if isinstance(request, AskSums) else EPSILON, DELTA, bounds={"x": (0, 1)})
    values = np.random.default_rng(0).uniform(0.2, 0.4, size=n_rows)
    others, canary = (participant(PrivateParticipant, part, privacy, make()) for part in (values, np.array([CANARY])))
    found: list[list[float]] = [[], []]
    distance = rho = 0.0
    for k in range(2 * n_runs):
        rows = np.append(values, CANARY) if k % 2 else values
        asked = participant(Overheard, rows, privacy, make())
        asked.watch(others, canary)
        reply: Any = asked.handle(request)
        assert not isinstance(reply, Failure), asked.last_error
        found[k % 2].append(asked.score / spread)
        distance, rho = max(distance, asked.distance), reply.rho
    return np.array(found[0]), np.array(found[1]), epsilon_of(rho, DELTA), distance


def scores_of_question(question: Question, rows: Rows, canary: Rows, how: str, rho: float, n_runs: int) -> np.ndarray:
    """Scores of one question in many runs, without and with the row, from noise that is drawn all at once."""
    make, spread = NOISES[how]
    added = question.sums(canary).astype(float)
    deviation = question.norm / np.sqrt(2 * rho)
    noise = make().draw(2 * n_runs * question.size, question.norm, rho).reshape(2, n_runs, question.size)
    answers = noise + question.sums(rows) + np.array([0, 1])[:, None, None] * question.sums(canary)
    along = (answers - question.sums(rows)) @ added
    return np.asarray(along / np.linalg.norm(added) / deviation / spread)
