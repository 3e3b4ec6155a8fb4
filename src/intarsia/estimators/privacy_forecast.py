"""What a private study will lose, tried on the caller's own tables: with real noise, before any budget is spent."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.core.types import IntArray
from intarsia.estimators.clustering import estimator_for
from intarsia.estimators.settings import check_value, instance, whole_number
from intarsia.exceptions import IntarsiaWarning
from intarsia.privacy.noise import rho_of
from intarsia.tables import AnyTable

N_RUNS = 200  # at most, with the epsilon that was asked for
_FEWEST_RUNS, _RUNS_OF_OTHERS = 10, 10  # fewer miss runs that go wrong now and then; at most with another epsilon
_PRECISE = 0.015  # standard error of the mean from which on no further runs are needed
_HARDLY_ANY_NOISE, _NOISE_ALONE = 100.0, 0.01  # epsilon, the second at most a twentieth of the one that was asked for
LITTLE, ENOUGH = 0.5, 0.8  # share of the way from noise alone to no noise: below it little is left; what is aimed at
_LARGEST_EPSILON = 32.0  # that is tried when one that would do is looked for

Watch = Callable[[float, int], None]
"""Called with the epsilon and the number of a run before it starts."""


@dataclass(frozen=True)
class Agreement:
    """How well private runs with one epsilon agree with the labels without privacy: the adjusted Rand index of each."""

    epsilon: float
    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The agreement to expect."""
        return float(np.mean(self.runs))

    @property
    def spread(self) -> float:
        """The standard deviation between runs."""
        return float(np.std(self.runs, ddof=1)) if len(self.runs) > 1 else 0.0

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.spread:.2f} (worst of {len(self.runs)} runs: {min(self.runs):.2f})"


@dataclass(frozen=True)
class PrivacyForecast:
    """What a private study is expected to lose.

    Attributes
    ----------
    agreement, with_half, with_double : Agreement
        The agreement of private runs with the labels without privacy, for the epsilon that was asked for, half and twice it.
    without_noise : Agreement
        The same with hardly any noise: what is missing to 1 here is lost by the method, not by noise.
    noise_alone : Agreement
        The same with so much noise that rows hardly matter. It can be far above 0: clusters that are far apart are seldom
        cut by centroids at random places.
    needed_epsilon : float or None
        Where little is left, the epsilon that would do, between those that were tried; None if none did or none is needed.
    needed_rows : float or None
        By which factor tables would have to be longer to do with the epsilon that was asked for. Extrapolated: so many rows
        of the same kind make noise as small, in relation to sums, as ``needed_epsilon`` would.
    """

    privacy: DifferentialPrivacy
    agreement: Agreement
    with_half: Agreement
    with_double: Agreement
    without_noise: Agreement
    noise_alone: Agreement
    needed_epsilon: float | None = None
    needed_rows: float | None = None

    @property
    def loss(self) -> float:
        """What is missing to the same labels as without privacy: 1 − the expected agreement."""
        return 1.0 - self.agreement.mean

    @property
    def left(self) -> float:
        """How much is left of the clustering: 0 if it is as with noise alone, 1 if it is as with hardly any noise."""
        most, least = self.without_noise.mean, self.noise_alone.mean
        return float(np.clip((self.agreement.mean - least) / (most - least), 0.0, 1.0)) if most > least else 0.0

    @property
    def is_too_little(self) -> bool:
        """Whether little is left of the clustering. An agreement of 0.8 is enough, also where noise alone may give it."""
        return self.left < LITTLE and self.agreement.mean < ENOUGH

    @property
    def enough(self) -> float:
        """The agreement that is aimed at where little is left."""
        return self.noise_alone.mean + ENOUGH * (self.without_noise.mean - self.noise_alone.mean)

    @property
    def verdict(self) -> str:
        """What to do, in one or two sentences."""
        epsilon, ceiling = f"epsilon {self.privacy.epsilon:g}", self.without_noise.mean
        if not self.is_too_little:
            if self.agreement.mean >= ENOUGH:
                return f"With {epsilon} most rows get the label that they would get without privacy."
            return f"With {epsilon} clusters are found, but many rows get another label than without privacy."
        if ceiling < ENOUGH:
            return (
                f"Little is left with {epsilon}, and even with hardly any noise the agreement is {ceiling:.2f}: these "
                "clusters are not clear enough to be found twice. Hint: another number of clusters."
            )
        if self.needed_epsilon is None or self.needed_rows is None:
            return f"Too few rows for {epsilon}, and for every epsilon up to {_LARGEST_EPSILON:g} that was tried."
        return (
            f"Too few rows for {epsilon}: little is left. An epsilon of about {_rough(self.needed_epsilon)} would do, or "
            f"(extrapolated, not tried) about {_rough(self.needed_rows)} times as many rows of the same kind."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as JSON has them."""
        parts = ("noise_alone", "with_half", "agreement", "with_double", "without_noise")
        figures = [
            {
                "epsilon": one.epsilon,
                "mean": one.mean,
                "spread": one.spread,
                "worst": min(one.runs),
                "runs": len(one.runs),
            }
            for one in (getattr(self, name) for name in parts)
        ]
        needed = {"needed_epsilon": self.needed_epsilon, "needed_rows": self.needed_rows}
        return {**dict(zip(parts, figures, strict=True)), **needed, "verdict": self.verdict, "note": FOR_OWNER}

    def __str__(self) -> str:
        lines = ["Agreement with the labels without privacy (adjusted Rand index: 1 is the same, 0 is chance)"]
        for words, one in (
            ("noise alone", self.noise_alone),
            ("half of it", self.with_half),
            ("asked for", self.agreement),
            ("twice as much", self.with_double),
            ("hardly any noise", self.without_noise),
        ):
            lines.append(f"  epsilon {one.epsilon:<5g} {words:<17} {one}")
        return "\n".join([*lines, self.verdict, FOR_OWNER])


def _rough(number: float) -> str:
    """Return a number with two digits, without an exponent: 97.2 is 97, 288.3 is 290."""
    return f"{float(f'{number:.2g}'):g}"


FOR_OWNER = (
    "These figures come from the rows without protection: they are for the owner of the tables, not to be published."
)


def forecast_privacy(
    tables: Any,
    n_clusters: int | str = "auto",
    *,
    privacy: DifferentialPrivacy,
    method: str = "federated",
    n_runs: int = N_RUNS,
    **settings: Any,
) -> PrivacyForecast:
    """Return what a private study over these tables will lose, from several runs with real noise.

    Nothing is charged to a ledger, because nothing leaves; but the figures come from the rows and are for their owner only.
    Runs end early once the mean is precise enough.

    Parameters
    ----------
    tables, n_clusters, method, **settings
        As for :func:`intarsia.cluster`.
    privacy : DifferentialPrivacy
        What the study would declare.
    n_runs : int, default=200
        The largest number of runs with the epsilon of ``privacy``; 10 more are made with each other epsilon.

    Examples
    --------
    >>> import numpy as np, intarsia
    >>> x = np.where(np.arange(4000) % 2, 30.0, 70.0) + np.random.default_rng(0).normal(size=4000)
    >>> declared = intarsia.DifferentialPrivacy(epsilon=1, bounds={"x": (0, 100)})
    >>> forecast = intarsia.forecast_privacy({"a": {"x": x[:2000]}, "b": {"x": x[2000:]}}, 2, privacy=declared, n_runs=2)
    >>> bool(forecast.agreement.mean > 0.95)
    True
    """
    check_value("privacy", privacy, instance("a DifferentialPrivacy", DifferentialPrivacy))
    plain = estimator_for(method, n_clusters, {"random_state": 0, **settings, "privacy": None})
    declared = estimator_for(method, n_clusters, {"random_state": 0, **settings, "privacy": privacy})
    return forecast_of_held(plain.held(tables), declared.held(tables), plain, privacy, n_runs)


def forecast_of_held(
    tables: Mapping[Hashable, AnyTable],
    declared: Mapping[Hashable, AnyTable],
    plain: Any,
    privacy: DifferentialPrivacy,
    n_runs: int = N_RUNS,
    watch: Watch | None = None,
) -> PrivacyForecast:
    """Like :func:`forecast_privacy`, for tables that are held already, and an estimator without privacy.

    ``declared`` are the same tables, read as private studies read them.
    """
    check_value("n_runs", n_runs, whole_number(2))
    trial = _Trial(tables, declared, plain, privacy, watch)
    others, asked = min(n_runs, _RUNS_OF_OTHERS), privacy.epsilon
    without_noise = trial.agreement(_HARDLY_ANY_NOISE, min(n_runs, 3))
    agreement = trial.agreement(asked, n_runs)
    half, double = trial.agreement(asked / 2, others), trial.agreement(min(2 * asked, 100.0), others)
    noise_alone = trial.agreement(min(_NOISE_ALONE, asked / 20), others)
    forecast = PrivacyForecast(privacy, agreement, half, double, without_noise, noise_alone)
    if not forecast.is_too_little or without_noise.mean < ENOUGH:
        return forecast
    needed = epsilon_needed(lambda epsilon: trial.agreement(epsilon, others), agreement, double, forecast.enough)
    if needed is None:
        return forecast
    more = sqrt(rho_of(needed, privacy.delta) / rho_of(asked, privacy.delta))  # noise is in proportion to 1 / √ρ
    return replace(forecast, needed_epsilon=needed, needed_rows=more)


def epsilon_needed(
    agreement_of: Callable[[float], Agreement], below: Agreement, above: Agreement, enough: float
) -> float | None:
    """Return an epsilon with enough agreement: double it until there is, and interpolate over the logarithm.

    None if no epsilon up to 32 is enough.
    """
    if below.mean >= enough:
        return below.epsilon
    while above.mean < enough:
        if 2 * above.epsilon > _LARGEST_EPSILON:
            return None
        below, above = above, agreement_of(2 * above.epsilon)
    share = (enough - below.mean) / (above.mean - below.mean)
    return exp(log(below.epsilon) + share * log(above.epsilon / below.epsilon))


class _Trial:
    """Private runs on tables, compared with one run without privacy."""

    def __init__(
        self,
        tables: Mapping[Hashable, AnyTable],
        declared: Mapping[Hashable, AnyTable],
        plain: Any,
        privacy: DifferentialPrivacy,
        watch: Watch | None,
    ) -> None:
        self._declared, self._plain, self._privacy, self._watch = declared, plain, privacy, watch
        self._labels = self._fitted(tables, None)

    def agreement(self, epsilon: float, n_runs: int) -> Agreement:
        """Run a private study again and again, until the mean is precise or there were ``n_runs`` runs."""
        runs: list[float] = []
        while len(runs) < n_runs:
            if self._watch is not None:
                self._watch(epsilon, len(runs) + 1)
            labels = self._fitted(self._declared, replace(self._privacy, epsilon=epsilon))
            runs.append(float(adjusted_rand_score(self._labels, labels)))
            if len(runs) >= _FEWEST_RUNS and np.std(runs, ddof=1) <= _PRECISE * sqrt(len(runs)):
                break
        return Agreement(epsilon, tuple(runs))

    def _fitted(self, tables: Mapping[Hashable, AnyTable], privacy: DifferentialPrivacy | None) -> IntArray:
        """Return the labels of all rows, participant by participant."""
        settings = self._plain.get_params(deep=False) | {"privacy": privacy}
        estimator = estimator_for(self._plain.method, settings.pop("n_clusters"), settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IntarsiaWarning)
            result = estimator.fit_handed_over(dict(tables))
        return np.concatenate([result.labels[key] for key in tables])
