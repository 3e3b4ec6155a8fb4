"""A participant of a private study at its site: what it lets the study spend on its table, and the terms it agrees to.

What is declared comes from the study in the kit, what may be spent also from the participant's own settings; nothing comes
from a job. Debits go to the ledger beside the table, which all studies and kits share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from intarsia.core.private.conversion import epsilon_of_rho
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import SettingError
from intarsia.federation.site_settings import LocalSettings
from intarsia.participant.private import PrivateParticipant
from intarsia.privacy.budget import Account, Charged
from intarsia.privacy.ledger import Ledger
from intarsia.privacy.pipeline import Pipeline
from intarsia.privacy.spending import Spending
from intarsia.protocol import AskSketch, AskSums, KeepLabels, StudyTerms, tag_of
from intarsia.protocol.catalogue import exchanges, paths_of
from intarsia.tables import Opened

_MOST = 1000.0


class Place(NamedTuple):
    """The study and the run that a ledger names beside each debit."""

    study: str
    run: str


def own_privacy(terms: StudyTerms, settings: LocalSettings) -> tuple[DifferentialPrivacy, float]:
    """Return what this participant lets the study spend, and the total epsilon of its table over all studies."""
    assert terms.privacy is not None
    privacy, own, total = terms.privacy, settings.privacy.epsilon, settings.privacy.total_epsilon
    if terms.secure_sums and own not in {None, privacy.epsilon}:
        raise SettingError(
            f"[privacy] epsilon must be {privacy.epsilon:g}, that of the study: with secure sums all participants share the "
            f"noise of rounds, so that none can have less epsilon than the others. Got {own:g}. Hint: total_epsilon limits "
            "what all studies spend."
        )
    if own is not None and not 0 < own <= privacy.epsilon:
        raise SettingError(
            f"[privacy] epsilon must be above 0 and at most {privacy.epsilon:g}, that of the study: a participant may "
            f"only spend less. Got {own:g}."
        )
    if total is not None and not 0 < total <= _MOST:
        raise SettingError(f"[privacy] total_epsilon must be above 0 and at most {_MOST:g}. Got {total:g}.")
    if settings.local is not None or settings.missing != "observed":
        name = "missing" if settings.local is None else "local"
        raise SettingError(
            f"{name} cannot be set in a private study: only sums of declared columns have a known sensitivity. "
            f"Hint: remove {name} from the settings of this kit."
        )
    return replace(
        privacy, epsilon=privacy.epsilon if own is None else own
    ), privacy.epsilon if total is None else total


def account_of(terms: StudyTerms, settings: LocalSettings, place: Place | None) -> Account:
    """Return the account of the study at the participant's table; without a place, one in memory that charges nobody."""
    assert terms.privacy is not None
    privacy, total = own_privacy(terms, settings)
    charged = None if place is None else Charged(settings.table, place.study, place.run, total)
    return Account.of(privacy, terms.noisy_rounds, charged)


def private_participant(
    settings: LocalSettings, opened: Opened, pipeline: Pipeline, terms: StudyTerms, place: Place | None
) -> PrivateParticipant:
    """Return the participant of a private study."""
    assert terms.privacy is not None
    privacy, _ = own_privacy(terms, settings)
    terms.privacy.check_declared(opened.owner, opened.columns)  # before a row is read
    account = account_of(terms, settings, place)
    return PrivateParticipant(opened.hold(declared=privacy), privacy, account, settings.metric, pipeline)


def listed(terms: StudyTerms, settings: LocalSettings, n_participants: int) -> dict[str, Any]:
    """Return what a participant agrees to, as forms show it: budget, declared columns, and what each exchange spends."""
    privacy, total = own_privacy(terms, settings)
    planned = account_of(terms, settings, None).planned
    collude = {"epsilon_if_all_collude": _if_all_collude(planned, privacy.delta, n_participants)}
    return {
        "epsilon": privacy.epsilon,
        **(collude if terms.secure_sums else {}),
        "total_epsilon": float(total),
        "delta": privacy.delta,
        "rows_per_person": privacy.rows_per_person,
        "rounds": terms.noisy_rounds,
        "bounds": {name: list(pair) for name, pair in privacy.bounds.items()},
        "levels": {name: list(each) for name, each in privacy.levels.items()},
        "spends": {name: round(rho, 9) for name, rho in planned.items()},
    }


def _if_all_collude(planned: Mapping[str, float], delta: float, n_participants: int) -> float:
    """Return the ε if all other participants and the coordinator put together what they know of shared noise."""
    rounds = sum(planned.values()) - planned["sketch"]
    rho = planned["sketch"] + (2 * n_participants // 3 + 1) * rounds
    return round(epsilon_of_rho(rho, delta), 4)


def messages(rounds: int) -> list[dict[str, Any]]:
    """Return the kinds of replies of a private study and their fields, without values: an example would cost privacy."""
    return without_values((AskSketch, *((AskSums,) if rounds else ()), KeepLabels))


def without_values(asked: Sequence[type]) -> list[dict[str, Any]]:
    """Return the kinds of replies to these requests and their fields, without values."""
    replies = [exchange.reply for exchange in exchanges() if exchange.request in asked]
    return [
        {
            "message": tag_of(reply),
            "bytes": None,
            "fields": [{"field": path, "entries": None, "fewest_rows": None} for path in paths_of(reply)],
            "values": None,
        }
        for reply in replies
    ]


def remarks(participant: PrivateParticipant, terms: StudyTerms, settings: LocalSettings) -> list[str]:
    """Return what the owner of the table should know, and nobody else: values outside the bounds, and too little left."""
    assert terms.privacy is not None
    _, total = own_privacy(terms, settings)
    said = [
        f"{share:.1%} of the values of {name!r} are outside its bounds and count as the nearest bound; nobody is told this."
        for name, share in participant.clipped().items()
    ]
    left = Spending.of(Ledger.beside(settings.table).entries()).left(total, terms.privacy.delta)
    needed = sum(account_of(terms, settings, None).planned.values())
    if left < needed:
        said.append(
            f"the study costs rho {needed:.4g}, and of the table's total epsilon {total:g} only rho {left:.4g} is left: "
            "what was answered before is answered again, all else refused. Hint: --total-epsilon, or new data."
        )
    return said
