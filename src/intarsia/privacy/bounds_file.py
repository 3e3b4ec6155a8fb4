"""What a private study declares, as TOML: the file of ``--bounds``, and the table ``[privacy]`` of a study file.

::

    epsilon = 1.0                   # in a study only; the command line has --epsilon
    delta = 1e-6
    rows_per_person = 1
    rounds = 2

    [bounds]                        # [privacy.bounds] in a study
    age = [0, 110]

    [levels]                        # [privacy.levels] in a study
    sex = ["f", "m"]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from intarsia._files import read_toml
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import SettingError, quote

_KNOWN = tuple(field.name for field in fields(DifferentialPrivacy))
_TEMPLATE = """# What a private study declares about its columns. Write what is known of each measurement, never what is
# seen in the rows: whatever stands here is public. Values outside the bounds count as the nearest bound, and levels
# that are not listed as missing. Columns that take no part can be removed.

# delta = 1e-6           # the probability with which the promise may fail: far below 1 / rows
# rows_per_person = 1    # the largest number of rows of a table that belong to one person
# rounds = 2             # noisy rounds of the federated method, 0 to 3

[bounds]
{bounds}

[levels]
{levels}
"""


def privacy_from(table: Any, where: str) -> DifferentialPrivacy:
    """Return the declaration in a table of a file, or raise a SettingError that names ``where`` and the key."""
    if not isinstance(table, Mapping):
        raise SettingError(f"{where} must be a table with {', '.join(_KNOWN)}.")
    if unknown := [name for name in table if name not in _KNOWN]:
        raise SettingError(f"{where} has unknown settings: {quote(unknown)}. Known settings: {', '.join(_KNOWN)}.")
    if "epsilon" not in table:
        raise SettingError(f"{where} has no epsilon, the budget of each participant. Hint: epsilon = 1")
    try:
        return DifferentialPrivacy(**table)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from None


def read_bounds(path: Path, epsilon: float) -> DifferentialPrivacy:
    """Read the file of ``--bounds``; the budget comes from the command line."""
    table = read_toml(path)
    if "epsilon" in table:
        raise SettingError(f"{path} has an epsilon: it describes columns, not budgets. Hint: use --epsilon.")
    return privacy_from({**table, "epsilon": epsilon}, str(path))


def undeclared(privacy: DifferentialPrivacy, columns: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the columns of each participant that have neither bounds nor levels, where there are any."""
    known = {*privacy.bounds, *privacy.levels}
    missing = {name: [column for column in own if column not in known] for name, own in columns.items()}
    return {name: own for name, own in missing.items() if own}


def template(numbers: Sequence[str], categories: Sequence[str]) -> str:
    """Return a file to fill in: the names of columns, and no values.

    >>> print(template(["age"], ["blood type"]).split("[bounds]")[1].strip())
    # age = [low, high]  # fill in
    <BLANKLINE>
    [levels]
    # "blood type" = []  # fill in
    """
    return _TEMPLATE.format(
        bounds="\n".join(f"# {_key(name)} = [low, high]  # fill in" for name in numbers),
        levels="\n".join(f"# {_key(name)} = []  # fill in" for name in categories),
    )


def _key(name: str) -> str:
    """Return a name as a key of TOML."""
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
