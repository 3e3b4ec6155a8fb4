r"""Columns that a participant seems to have in other units, from count, mean and deviation of each column there.

Location and spread of a column are compared with the median of all participants:

.. math:: z = \delta \, / \, (\tau \lambda), \qquad \ell(z) = \tfrac{\nu + 1}{2} \log(1 + z^2 / \nu)

δ is the difference of the locations in standard deviations, or of the logarithms of the deviations; τ is its usual size
between hospitals, and λ says how much more than usual this participant and this column differ in their other entries. ℓ is
the surprise. A column is odd at a participant if a conversion of its values takes the surprise away: a factor moves mean
and deviation alike, another case mix does not. The gain is the surprise before less that after, and less what the kind
of conversion costs; small factors cost more, because hospitals differ by such.

Columns of one sign are judged on logarithms as well, with the location :math:`\log R, R = (\mu^2 + \sigma^2) / \mu`, and
the smaller gain counts: skewed columns differ by factors, and R does not depend on the share of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, log
from typing import NamedTuple

import numpy as np

from intarsia.core.conversions import CONVERSIONS, OPPOSITE, Conversion
from intarsia.core.types import BoolArray, FloatArray, IntArray

FEWEST_VALUES = 5
FEWEST_NONZERO = 3.0  # values that are not 0, of a column with many zeros
ENOUGH = 3.7  # gain from which on a column is odd
MANY = 100  # entries: with more, some are odd by chance, and the gain must be larger
USUAL_SHIFT, USUAL_SPREAD = 0.75, 0.4  # between hospitals: of means in deviations, of logarithms of deviations
SPARSE_SPREAD = 0.4  # more of it, per deviation of logarithms: the share of zeros differs
DEGREES = 4.0  # of freedom
WIDE = 0.7  # deviation of logarithms from which on mean and deviation differ by the same factor
KNOWN_SIGN = 2.5  # standard errors of a mean that is not 0
PRIOR = 2.0  # entries that the usual size of differences counts for
LEAST, MOST = 0.5, 10.0  # bounds of λ
UPPER = 0.75  # quantile of the differences in a column, which λ follows
NORMAL_MEDIAN, NORMAL_UPPER = 0.6744897501960817, 1.1503493803760079  # of absolute values of a standard normal variable
SMALLEST, LARGE = 1.5, 10.0  # factors that are looked for, and that cost nothing
SMALL_FACTOR, UNNAMED_FACTOR, UNNAMED_SHIFT, OTHER_SIGN = 5.0, 0.5, 3.5, 3.0  # costs
OTHER_COLUMN = 0.5  # cost of a conversion that is usual for columns of other names; for this name it is a gain
TINY = 1e-9  # of the mean: a smaller deviation is a rounding error
EXACT = 0.03  # relative difference of a variance from that of 0 and 1: counts may be rounded


class OddColumn(NamedTuple):
    """A column that seems to be in other units at a participant: values there are ``factor`` × usual ones + ``shift``.

    ``units`` names the conversion; it is empty if it is no known one. If only two participants have the column, either may
    be odd, and ``other`` is the second. ``mean`` is that of the participant, ``elsewhere`` the median of the others' means.
    """

    column: str
    participant: str
    factor: float
    shift: float
    units: str
    gain: float
    mean: float
    elsewhere: float
    other: str = ""

    @property
    def difference(self) -> str:
        """How values at the participant differ from those elsewhere, in words, without any value."""
        units = f" ({self.units})" if self.units else ""
        if self.factor == 1.0:
            return f"values there have another zero point{units}"
        if self.factor == -1.0:
            return "values there have the opposite sign"
        if self.shift:
            return f"values there seem to be in another unit{units}"
        times = max(self.factor, 1.0 / self.factor)
        return f"values there are about {times:.3g} times as {'large' if self.factor > 1.0 else 'small'}{units}"

    @property
    def remedy(self) -> str:
        """What to do with values at the participant; empty if that is not known."""
        if self.shift:
            if not self.units:
                return ""
            up, shift = self.factor >= 1.0, self.shift if self.factor >= 1.0 else -self.shift / self.factor
            moved = f"{'subtract' if (shift > 0) == up else 'add'} {abs(shift):.4g}"
            steps = [moved, f"divide by {self.factor:.4g}"] if up else [f"multiply by {1 / self.factor:.4g}", moved]
            return ", then ".join(step for step in steps if step != "divide by 1")
        if self.factor == -1.0:
            return "change the sign"
        return f"divide by {self.factor:.4g}" if self.factor > 1.0 else f"multiply by {1 / self.factor:.4g}"

    def __str__(self) -> str:
        """Return one clause with names and factor, without any value of the tables."""
        where = f"{self.column!r} at {self.participant!r}" + (f" or {self.other!r}" if self.other else "")
        there = f"compared with {self.other!r}, values at {self.participant!r}" if self.other else "values there"
        remedy = f"; {self.remedy} {f'at {self.participant!r}, or convert the other' if self.other else 'there'}"
        return f"{where}: {self.difference.replace('values there', there)}{remedy if self.remedy else ''}"


class _Columns(NamedTuple):
    """Participants × columns: values that are not 0, mean and deviation, NaN where unknown; by column, kinds of columns.

    ``usual`` is the median deviation. ``one_sign``: all means have the same sign, ``is_log``: beyond doubt.
    """

    effective: FloatArray
    mean: FloatArray
    deviation: FloatArray
    held: BoolArray
    usual: FloatArray
    one_sign: BoolArray
    is_log: BoolArray


class _Scale(NamedTuple):
    """What entries are compared with, linear or on logarithms: participants × columns, and by column."""

    is_log: bool
    usual: FloatArray
    location: FloatArray
    spread: FloatArray
    unit: FloatArray
    coupling: FloatArray
    variance: FloatArray
    error: FloatArray

    def scores(
        self, i: IntArray | int, m: IntArray | int, mean: FloatArray, deviation: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return z of location and spread for these means and deviations of participants i in columns m."""
        location, unit, spread = _coordinates(mean, deviation, self.usual[m], is_log=self.is_log)
        off, error = location - self.location[i, m], self.error[i, m]
        apart = spread - self.spread[i, m] - self.coupling[m] * off
        z = off / (np.maximum(unit, self.unit[i, m]) * np.sqrt(USUAL_SHIFT**2 + error))
        return z, apart / np.sqrt(self.variance[m] + 2.0 * error)


def odd_columns(
    participants: Sequence[str], columns: Sequence[str], count: FloatArray, mean: FloatArray, m2: FloatArray
) -> list[OddColumn]:
    """Return odd columns, the clearest first. Arrays are participants × columns; count is 0 where a column is absent."""
    with np.errstate(all="ignore"):
        known = _known(count, mean, m2)
        found = [*_judged(columns, known), *_codes(known)]
    result: list[OddColumn] = []
    for gain, i, m, conversion in sorted(found, key=lambda entry: -entry[0]):
        others = np.flatnonzero(known.held[:, m] & (np.arange(len(participants)) != i))
        pair = participants[others[0]] if len(others) == 1 else ""
        if any(odd.column == columns[m] and odd.other == participants[i] for odd in result):
            continue  # the other of the two is named already
        elsewhere = float(np.median(known.mean[others, m]))
        means = float(known.mean[i, m]), elsewhere
        factor, shift, units = conversion[:3]
        result.append(OddColumn(columns[m], participants[i], factor, shift, units, gain, *means, pair))
    return result


def _known(count: FloatArray, mean: FloatArray, m2: FloatArray) -> _Columns:
    deviation = np.sqrt(m2 / np.maximum(count, 1.0))
    held = (count >= FEWEST_VALUES) & (deviation > TINY * np.abs(mean))
    held &= held.sum(axis=0) > 1
    mean, deviation = np.where(held, mean, np.nan), np.where(held, deviation, np.nan)
    one_sign = np.abs(np.nansum(np.sign(mean), axis=0)) == held.sum(axis=0)
    errors = np.where(held, np.abs(mean) / deviation * np.sqrt(count), np.inf)
    effective = np.where(one_sign, count / (1.0 + np.square(deviation / mean)), count)
    is_log = one_sign & (errors > KNOWN_SIGN).all(axis=0)
    return _Columns(effective, mean, deviation, held, np.exp(_median(np.log(deviation))), one_sign, is_log)


def _coordinates(
    mean: FloatArray, deviation: FloatArray, usual: FloatArray, *, is_log: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return location, its unit, and the logarithm of the deviation."""
    if is_log:
        squared = 1.0 + np.square(deviation / mean)
        return np.log(np.abs(mean) * squared), np.sqrt(np.log(squared)), np.log(deviation)
    return mean / usual, np.maximum(deviation / usual, 1.0), np.log(deviation)


def _scale_of(known: _Columns, *, is_log: bool) -> _Scale:
    location, unit, spread = _coordinates(known.mean, known.deviation, known.usual, is_log=is_log)
    two = known.held.sum(axis=0) == 2
    # of two, each is compared with the other
    centres = [np.where(two, np.nansum(part, axis=0) - part, _median(part)) for part in (location, spread)]
    variance = np.full(len(two), USUAL_SPREAD**2)
    squares = np.square(unit if is_log else known.deviation / known.usual)
    of_others = np.sqrt((np.nansum(squares, axis=0) - squares) / np.maximum(known.held.sum(axis=0) - 1, 1))
    coupling = np.minimum(np.square(_median(unit) / WIDE), 1.0) if is_log else np.zeros(len(two))
    if not is_log:
        width = np.sqrt(np.log1p(np.square(_median(known.deviation / np.abs(known.mean)))))
        variance += np.where(known.one_sign, np.square(SPARSE_SPREAD * np.minimum(width, 2.0)), 0.0)
    error = 1.0 / np.maximum(known.effective, 1.0)
    return _Scale(is_log, known.usual, centres[0], centres[1], of_others, coupling, variance, error)


def _judged(columns: Sequence[str], known: _Columns) -> Iterator[tuple[float, int, int, Conversion]]:
    """Yield gain, participant, column and conversion."""
    at = np.indices(known.mean.shape)
    scales = [_scale_of(known, is_log=is_log) for is_log in (False, True)]
    scores = [scale.scores(at[0], at[1], known.mean, known.deviation) for scale in scales]
    sizes = [_sizes(np.where(known.is_log, scores[1][k], scores[0][k]), known.held) for k in (0, 1)]
    surprises = [_surprise(z[0] / sizes[0]) + _surprise(z[1] / sizes[1]) for z in scores]
    zeros_and_ones = _are_codes(known.mean, np.square(known.deviation))
    judged = known.held & (known.effective >= FEWEST_NONZERO) & ~zeros_and_ones
    enough = ENOUGH + 0.5 * np.log(max(int(judged.sum()) / MANY, 1.0))
    for i, m in np.argwhere(judged & (surprises[0] > enough)).tolist():
        conversions = _conversions(known, scales[int(known.is_log[m])], i, m)
        factors, shifts = (np.array([each[k] for each in conversions]) for k in (0, 1))
        mean, deviation = (known.mean[i, m] - shifts) / factors, known.deviation[i, m] / np.abs(factors)
        gains = []
        for scale, surprise in zip(scales[: 1 + int(known.is_log[m])], surprises, strict=False):
            z = scale.scores(i, m, mean, deviation)
            left = _surprise(z[0] / sizes[0][i, m]) + _surprise(z[1] / sizes[1][i, m])
            gains.append(np.where(scale.is_log & (mean * known.mean[i, m] < 0), -np.inf, surprise[i, m] - left))
        # of temperatures, which have no true zero, only differences make sense
        gain = np.where((shifts == 0) | (factors > 2.0) | (factors < 0.5), np.min(gains, axis=0), gains[0]) - [
            _cost(each, columns[m], mean[k], deviation[k]) for k, each in enumerate(conversions)
        ]
        best = int(gain.argmax())
        if gain[best] > enough:
            yield float(gain[best]), i, m, conversions[best]


def _conversions(known: _Columns, scale: _Scale, i: int, m: int) -> list[Conversion]:
    """Return all known conversions, and the factor and the shift that fit best."""
    location, _, spread = _coordinates(known.mean[i, m], known.deviation[i, m], known.usual[m], is_log=scale.is_log)
    away = location - scale.location[i, m] if scale.is_log else spread - scale.spread[i, m]
    others = np.delete(known.mean[:, m], i)
    shift = known.mean[i, m] - np.median(others[~np.isnan(others)])
    factor = [Conversion(float(np.exp(away)), 0.0, "")] if abs(away) > np.log(SMALLEST) else []
    return [*CONVERSIONS, *factor, Conversion(1.0, float(shift), "")]


def _cost(conversion: Conversion, column: str, mean: float, deviation: float) -> float:
    """Return what a conversion must gain in addition; mean and deviation are those after it is undone."""
    if conversion == OPPOSITE:
        return OTHER_SIGN
    named = UNNAMED_FACTOR
    if conversion.units:
        named = OTHER_COLUMN if conversion.columns else 0.0
        named = -OTHER_COLUMN if any(part in column.lower() for part in conversion.columns) else named
    if conversion.shift:
        narrow = deviation <= (conversion.high - conversion.low) / 4.0
        usual = narrow and conversion.low <= mean <= conversion.high
        return UNNAMED_SHIFT if not conversion.units else 2.0 * named if usual else inf
    return named + SMALL_FACTOR * max(0.0, 1.0 - abs(log(conversion.factor)) / log(LARGE))


def _codes(known: _Columns) -> Iterator[tuple[float, int, int, Conversion]]:
    """Yield columns of 0 and 1 that one participant has as 1 and 2, or as 0 and 100: their variance tells it exactly."""
    mean, variance = known.mean, np.square(known.deviation)
    usual = _are_codes(mean, variance)
    mostly = 2 * usual.sum(axis=0) >= known.held.sum(axis=0)
    for conversion in (
        Conversion(1.0, 1.0, "codes 0 and 1, and 1 and 2"),
        Conversion(100.0, 0.0, "shares and percent"),
    ):
        same = _are_codes((mean - conversion.shift) / conversion.factor, variance / conversion.factor**2)
        for i, m in np.argwhere(known.held & mostly & same & ~usual).tolist():
            yield 2.0 * ENOUGH, i, m, conversion


def _are_codes(mean: FloatArray, variance: FloatArray) -> BoolArray:
    """Return whether values are 0 or 1: a share p of ones has the variance p (1 − p)."""
    expected = mean * (1.0 - mean)
    return np.asarray((expected > 0) & (np.abs(variance - expected) <= EXACT * expected))


def _surprise(z: FloatArray) -> FloatArray:
    return np.asarray((DEGREES + 1.0) / 2.0 * np.log1p(np.square(z) / DEGREES))


def _sizes(z: FloatArray, held: BoolArray) -> FloatArray:
    """Return λ of each entry from other entries: the largest of its participant's, its column's, and all columns'."""
    z, n = np.where(held, z, np.nan), held.sum(axis=0)
    # the median of all is one of few: against that of the others, no difference is 0 by construction
    alone = np.abs(z - np.where(n > 2, _quantile_of_others(z), 0.0)) / np.sqrt(1.0 + 1.0 / np.maximum(n - 1, 1))
    of_columns = _quantile_of_others(_median(alone)[:, None])[:, 0] / NORMAL_MEDIAN
    overall = _shrunk(of_columns, held.sum() - n, np.ones(len(n)))
    by_column = _shrunk(_quantile_of_others(np.abs(z), UPPER) / NORMAL_UPPER, np.where(n > 2, n - 1, 0), overall)
    of_participants = _quantile_of_others(alone.T).T / NORMAL_MEDIAN  # several columns of one may be odd
    by_participant = _shrunk(of_participants, held.sum(axis=1, keepdims=True) - 1, overall)
    return np.clip(np.maximum(np.maximum(by_column, by_participant), overall), LEAST, MOST)


def _shrunk(size: FloatArray, n: IntArray, usual: FloatArray) -> FloatArray:
    """Return the mean of squares of two sizes, weighted by the number of entries, under a root."""
    n = np.where(np.isnan(size), 0, n)
    squares = PRIOR * np.square(usual) + n * np.square(np.nan_to_num(size))
    return np.asarray(np.sqrt(squares / (PRIOR + n)))


def _median(values: FloatArray) -> FloatArray:
    """Return the median of each column without NaN; NaN if there is nothing else."""
    ranked = np.sort(values, axis=0)
    n = (~np.isnan(ranked)).sum(axis=0)
    middle = [np.take_along_axis(ranked, np.maximum(k, 0)[None], axis=0)[0] for k in ((n - 1) // 2, n // 2)]
    return np.asarray(np.where(n > 0, (middle[0] + middle[1]) / 2, np.nan))


def _quantile_of_others(values: FloatArray, q: float = 0.5) -> FloatArray:
    """Return for each entry a quantile of the others in its column without NaN; NaN if there are no others.

    >>> _quantile_of_others(np.array([[5.0], [1.0], [2.0], [8.0], [np.nan]])).ravel()
    array([ 2.,  5.,  5.,  2., nan])
    """
    order = np.argsort(values, axis=0, kind="stable")
    rank = np.argsort(order, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    n = (~np.isnan(values)).sum(axis=0) - 1
    # without the value of that rank, the later ones move up
    at = q * np.maximum(n - 1, 0)
    last = len(values) - 1
    lower, upper = (
        np.take_along_axis(ranked, np.minimum(k + (rank <= k), last), axis=0)
        for k in (np.floor(at).astype(np.intp), np.ceil(at).astype(np.intp))
    )
    result = lower + (at - np.floor(at)) * (upper - lower)
    return np.asarray(np.where((n > 0) & ~np.isnan(values), result, np.nan))
