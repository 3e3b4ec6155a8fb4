"""What secure sums cost: ``python -m benchmarks.secure``. Ratios in one run, all participants in one process.

Bytes are those that leave a participant in one round (the masked sums, and the shares that open the total) over eight bytes
for each number of the plain sums. Processor time is that of the whole run over the same run without secure sums. Set-up is
what one participant computes before the first sum.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

import intarsia
from intarsia.core.fixed_point import N_DIGITS
from intarsia.privacy.secure.group import Group, checked_statements, make_secrets, signed_statement
from intarsia.privacy.secure.identity import Identity, fingerprint_of
from intarsia.privacy.secure.shares import split

SHAPES = ((4, 4, 41), (10, 10, 101), (10, 10, 785), (20, 10, 100))  # participants, clusters, columns
ROWS = 60  # of each participant
MOST_BYTES, MOST_SECONDS = 1.2, 5.0


def measured(n: int, k: int, d: int) -> tuple[float, float]:
    """Return the ratios of bytes in a round, and of processor time."""
    rng = np.random.default_rng(0)
    X = 2 * rng.normal(size=(k, d))[rng.integers(k, size=n * ROWS)] + rng.normal(size=(n * ROWS, d))
    tables = {
        f"p{i:02d}": {f"c{j:03d}": X[i * ROWS : (i + 1) * ROWS, j] for j in range(d)} for i in range(n)
    }  # fmt: skip
    seconds = []
    for secure in (False, False, True):  # the first one also loads what all need
        started = time.process_time()
        result = intarsia.cluster(tables, k, random_state=0, n_rivals=0, secure_sums=secure)
        seconds.append(time.process_time() - started)
    sent = {phase: [] for phase in ("masked", "unmask")}
    for exchange in result.run.exchanges:
        if exchange.phase in sent:
            sent[exchange.phase].append(float(np.mean(list(exchange.bytes_out.values()))))
    of_rounds = slice(1, -1)  # the first sum is that of units, the last one that of labels
    numbers = 2 * k * d + k + 2 * N_DIGITS
    return float(np.mean(sent["masked"][of_rounds]) + np.mean(sent["unmask"][of_rounds])) / (8 * numbers), (
        seconds[2] / seconds[1]
    )


def set_up(n: int, n_sums: int) -> float:
    """Return the seconds that one of n participants computes for: keys, checks of all statements, and shares."""
    names = [f"p{i:02d}" for i in range(n)]
    identities = {name: Identity.create() for name in names}
    pins = {name: fingerprint_of(identity.public) for name, identity in identities.items()}
    group = Group.of("run", names, n_sums)
    others = {name: signed_statement(identities[name], group, name, ["x"], make_secrets(n_sums)) for name in names[1:]}
    started = time.process_time()
    secrets = make_secrets(n_sums)
    mine = signed_statement(identities[names[0]], group, names[0], ["x"], secrets)
    split(group, names[0], secrets, checked_statements(group, {names[0]: mine, **others}, pins))
    return time.process_time() - started


def main() -> None:
    """Print the ratios; fail if one is above its limit."""
    warnings.simplefilter("ignore", intarsia.exceptions.IntarsiaWarning)
    worst = 0.0
    for n, k, d in SHAPES:
        of_bytes, of_time = measured(n, k, d)
        worst = max(worst, of_bytes)
        print(f"{n} participants, {k} × {d}: bytes in a round × {of_bytes:.3f}, processor time × {of_time:.1f}")
    seconds = set_up(50, 8)
    print(f"set-up of one of 50 participants for 8 sums: {seconds:.2f} s of the processor (limit {MOST_SECONDS:g})")
    if worst > MOST_BYTES or seconds > MOST_SECONDS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
