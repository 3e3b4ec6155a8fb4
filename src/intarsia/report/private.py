"""What a report says of a private study: what one row can change, and how far noise moved the centroids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intarsia.core.features import indicators
from intarsia.core.private.conversion import epsilon_of_rho
from intarsia.report.data import Finding, Privacy, Spending, State
from intarsia.report.diagnostics import total_deviations
from intarsia.report.words import counted
from intarsia.results.outcome import Outcome
from intarsia.results.privacy import PrivacyAccount

STRONG, WEAK = 3.0, 8.0  # epsilon up to which a promise is strong, and from which on it is weak
SMALL, LARGE = 0.1, 0.5  # errors of centroids, in standard deviations of all rows


def privacy_of(account: PrivacyAccount | None) -> Privacy | None:
    """Return the facts about the privacy of a study."""
    if account is None:
        return None
    spent = tuple(
        Spending(each.participant, each.exchange, epsilon_of_rho(each.rho, account.delta), each.rho)
        for each in account.spent
    )
    return Privacy(account.epsilon, account.delta, account.rows_per_person, account.most, account.meaning, spent)


def findings_of_privacy(outcome: Outcome) -> Iterator[Finding]:
    """Yield what one row can change, and how far noise moved the centroids; nothing for a study without privacy."""
    if (account := outcome.privacy) is None:
        return
    state = State.GOOD if account.most <= STRONG else State.CAUTION if account.most <= WEAK else State.BAD
    seen = (
        f"Each participant spent at most epsilon {account.most:.3g} of the {account.epsilon:g} that were agreed. "
        f"{account.meaning} What is left of a table's budget over all studies, its owner sees with intarsia participant "
        "budget."
    )
    weak = (
        "Such a promise is weak: use a smaller epsilon, which needs more rows (intarsia check --epsilon forecasts it)."
    )
    yield Finding("What one row can change", state, seen, "" if state is State.GOOD else weak)
    yield from _errors(outcome, account)


def _at_home(outcome: Outcome) -> set[str]:
    """Return the features that were in no secure sum."""
    columns = set() if outcome.secure is None else {name for each in outcome.secure.at_home.values() for name in each}
    levels = {name: each for name, each in outcome.model.levels.items() if name in columns}
    return columns | set(indicators(levels))


def _errors(outcome: Outcome, account: PrivacyAccount) -> Iterator[Finding]:
    model, about = outcome.model, "Noise hardly moved the centroids"
    errors = account.error_matrix(*model.centroids.values.shape)
    spread = total_deviations(outcome) * model.scale
    ratio = np.divide(errors, spread, out=np.full(errors.shape, np.nan), where=spread > 0)
    told = np.array([feature not in _at_home(outcome) for feature in model.space.names])
    unknown = int((np.isnan(errors) & model.centroids.seen & told).any(axis=1).sum())
    if np.isnan(ratio).all():
        seen = "No noisy round gives the error of the centroids, which come from synthetic tables."
        yield Finding(about, State.CAUTION, seen, "rounds=1 of the federated method gives error bars.")
        return
    k, m = np.unravel_index(np.nanargmax(ratio), ratio.shape)
    worst = float(ratio[k, m])
    seen = (
        f"The noise of the last round moved centroids by at most about {worst:.2g} standard deviations of all rows "
        f"({model.space.names[m]} of {model.called(int(k))})."
    )
    if unknown:
        seen += f" {counted(unknown, 'cluster')} had too few rows for a round to move all of their centroids."
    state = State.BAD if worst > LARGE else State.CAUTION if worst > SMALL or unknown else State.GOOD
    yield Finding(about, state, seen, "" if state is State.GOOD else "Compare means only beyond their error bars.")
