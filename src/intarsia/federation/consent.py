"""A participant's consent: a form that lists what would leave, to be read, completed and signed with a name.

Consent is given to exactly these terms: if the study, the columns, the release rules or, with secure sums, the keys of
participants change, it is no longer valid, and the changes are named. The completed form is kept in the participant's kit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from intarsia._files import read_toml, write_atomically
from intarsia.exceptions import SettingError, quote
from intarsia.federation.algorithms import terms_for
from intarsia.federation.extracts import EXTRACT, terms_of_extract
from intarsia.federation.key_list import listed as listed_keys
from intarsia.federation.private import listed
from intarsia.federation.secure import forget_runs
from intarsia.federation.settings_file import as_table
from intarsia.federation.site import RELEASES
from intarsia.federation.site_settings import LocalSettings, toml_lines
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import AGREED, Journal
from intarsia.protocol import ColumnKinds, LocalSummary, ModelKept, tag_of
from intarsia.protocol.catalogue import exchanges, meaning_of, paths_of, words_of
from intarsia.protocol.terms import meaning_of_term

CONSENT = "consent.toml"
BY, ON = "agreed_by", "on"
_TERMS = (
    "study",
    "participant",
    "server",
    "participants",
    "quorum",
    "method",
    "n_clusters",
    "settings",
    "table",
    "columns",
    "reading",  # only if the table is not read as it stands
    "extract",  # only if the table is one
    "release",
    "requests",
    "joins",  # only of a newcomer
    "privacy",  # only in a private study
    "keys",  # only in a study with secure sums
)
_OPTIONAL = ("reading", "extract", "joins", "privacy", "keys")
_WITH_WORDS = ("requests", "privacy", "keys")
_LATER_PHASES = {"federated": ("refine", "label"), "one_shot": ("label",)}  # a preview ends before them

_HEAD = f"""# Consent to take part in a study. Nothing leaves before {BY} and {ON} are filled in and the form is given to
# intarsia participant serve --consent. It is valid only for what is written here; any change makes it invalid.

"""
_LEAVES = """
# What would leave: the fields of each message, and the smallest number of rows behind a number in them. The rules hold in
# every run; the preview is one case, and there is another number where clusters are told as two halves. Names of columns
# and levels of categories leave as well. No message contains a label, or a value of a single row unless [release] allows
# extremes or discrete densities.
"""
_LEAVES_PRIVATELY = """
# What would leave: the fields of each message. Names of columns and levels are declared in the study; all numbers are noisy
# sums over all rows, or follow from them. No message contains a label or a value of a row.
"""
_MASKED = """# Masked sums are random numbers to whoever sees them alone; only their total over participants can be read.
# Keys and shares of keys are random, too.{more}
"""
_MOMENTS = " Moments of a column leave in the description only where it has too few holders for a sum."
_REQUESTS = """
# What is answered: requests of the study with these settings, each step once; a summary is a step before K is chosen and one
# after. All others are refused, before any row is read. Units, levels and K are the same in all requests of a run. A new run
# that asks anything else needs a new form{unless}. max_rounds is that of the study; [release] has the most of all runs."""
_PRIVACY = """
# Differential privacy: whoever sees all that leaves learns almost the same with and without the rows of one person. epsilon
# and delta say how nearly; total_epsilon is the most that all studies over this table may spend together. With secure sums,
# participants share the noise of rounds: epsilon holds if more than two thirds of them are honest, and
# epsilon_if_all_collude if all others and the coordinator put together what they know.
[privacy]"""
_BOUNDS = """
# Values outside these bounds count as the nearest bound, and levels that are not listed as missing. Nothing of this may be
# taken from the rows: it is known to all participants."""
_SPENDS = """
# What each exchange spends, as rho (zCDP); rho adds up. It is debited from the table's ledger before noise is drawn."""
_KEYS = """
# Secure sums: what is masked can be read only as a total over participants. Messages that are not masked are listed below.
# The masks rest on these keys, of which every participant has made its own. Compare safety_number with the other
# participants by phone or in person (it is no secret, and the coordinator alone does not count): if it is the same for all,
# nobody has put another key in the place of yours or theirs. All participants must be listed, and nobody else.
[keys]"""
_NOISY = "declared or noisy"
_NO_ROWS = "no rows: names and settings"
_ALL_ROWS = "all rows"
_RULE = "the minimum in force"
_IN_WORDS = {
    ("reply.refinement", "refined.misfit"): _ALL_ROWS,
    ("reply.labelled", "audited"): _RULE,
    ("reply.stability", "fewest"): _RULE,
    ("reply.shares", "boxes"): "random",
    ("reply.masked", "values"): "masked: only the total can be read",
    ("reply.unmasked", "shares"): "random",
}


def later_fields(method: str, *, stability: bool = False, previous: bool = False) -> dict[str, list[str]]:
    """Return the fields of replies that no preview has, because they depend on other participants."""
    phases = (
        *_LATER_PHASES[method],
        *(("stability",) if stability else ()),
        *(("label_before", "count_moves") if previous else ()),
    )
    return {
        tag_of(exchange.reply): _fields(paths_of(exchange.reply))
        for exchange in exchanges()
        if exchange.phase in phases
    }


def _fields(paths: Iterable[str]) -> list[str]:
    """Return the paths of fields that are not parts with fields of their own."""
    paths = list(paths)
    return [path for path in paths if not any(other.startswith(f"{path}.") for other in paths)]


def terms_of(
    study: Study,
    name: str,
    settings: LocalSettings,
    columns: Iterable[str],
    keys: Mapping[str, str] | None = None,
    reading: str | None = None,
) -> dict[str, Any]:
    """Return the terms that a participant agrees to.

    ``keys`` are those of all participants, with secure sums. ``reading`` says how the table is read, if not as it stands.
    """
    requests = terms_for(study, name)
    own: dict[str, Any] = (
        {} if requests.privacy is None else {"privacy": listed(requests, settings, len(study.participants))}
    )
    own |= {"joins": True} if study.joins else {}
    own |= {} if (drawn := terms_of_extract(settings.table)) is None else {EXTRACT: drawn}
    own |= {} if reading is None else {"reading": reading}
    own |= {} if keys is None else {"keys": listed_keys(keys)}
    return own | {
        "study": study.name,
        "participant": name,
        "server": f"{study.host}:{study.port}",
        "participants": list(study.participants),
        "quorum": study.needed,
        "method": study.method,
        "n_clusters": study.n_clusters,
        "settings": dict(study.settings),
        "table": Path(settings.table).name,
        "columns": list(columns),
        "release": as_table(settings.release),
        "requests": requests.listed(),
    }


def form_of(terms: Mapping[str, Any], messages: Iterable[Mapping[str, Any]], by: str = "", on: str = "") -> str:
    """Return the form, as TOML that a person can read; ``messages`` are those of a preview."""
    tables = {name: terms[name] for name in ("settings", "release")}
    lines = [*toml_lines({BY: by, ON: on}), ""]
    lines += toml_lines({name: value for name, value in terms.items() if name not in {*tables, *_WITH_WORDS}})
    for name, table in tables.items():
        lines += ["", f"[{name}]", *toml_lines(table)]
    if "privacy" in terms:
        lines += _privacy_lines(terms["privacy"])
    if "keys" in terms:
        lines += [_KEYS, *toml_lines(terms["keys"])]
    requests = terms["requests"]
    words = zip(toml_lines(requests), map(meaning_of_term, requests), strict=True)
    unless = ", unless it repeats the study from the model before" if requests.get("previous") else ""
    lines += [_REQUESTS.format(unless=unless), "[requests]", *(f"{line}  # {meaning}" for line, meaning in words)]
    lines.append(_LEAVES_PRIVATELY if "privacy" in terms else _LEAVES)
    if requests["secure_sums"]:
        lines[-1] += _MASKED.format(more="" if "privacy" in terms else _MOMENTS)
    for tag, rows in _leaves(terms, messages).items():
        fields = zip(toml_lines(rows), [meaning_of(tag, path) for path in rows], strict=True)
        lines += [f"# {words_of(tag)}", f'[leaves."{tag}"]', *(f"{line}  # {words}" for line, words in fields), ""]
    return _HEAD + "\n".join(lines)


def _privacy_lines(privacy: Mapping[str, Any]) -> list[str]:
    heads = {"bounds": _BOUNDS, "levels": "", "spends": _SPENDS}
    lines = [_PRIVACY, *toml_lines({name: value for name, value in privacy.items() if name not in heads})]
    for name, head in heads.items():
        lines += [head, f"[privacy.{name}]", *toml_lines(privacy[name])]
    return lines


def _leaves(terms: Mapping[str, Any], messages: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the fields of each message, and how many rows are behind each of their numbers, in words."""
    no_rows = _NOISY if "privacy" in terms else _NO_ROWS
    fewest = int(terms["release"]["min_cluster_size"])
    leaves: dict[str, dict[str, str]] = {}
    for tag, rows in _fewest_rows(messages).items():
        leaves[tag] = {path: _IN_WORDS.get((tag, path), _behind(n, fewest, no_rows)) for path, n in rows.items()}
    if "privacy" not in terms and not terms["requests"]["secure_sums"]:
        if (
            summary := leaves.get(tag_of(LocalSummary))
        ) is not None:  # clusters are told as halves where others share most
            summary.setdefault("half_of", no_rows)
        asked = {name: bool(terms["requests"].get(name)) for name in ("stability", "previous")}
        if terms["requests"].get("feasibility"):
            leaves[tag_of(ColumnKinds)] = dict.fromkeys(paths_of(ColumnKinds), no_rows)
        for tag, paths in later_fields(terms["method"], **asked).items():
            leaves.setdefault(tag, {path: _IN_WORDS.get((tag, path), f"at least {fewest}") for path in paths})
    if terms["requests"].get("share_model"):
        leaves[tag_of(ModelKept)] = {}
    return leaves


def _fewest_rows(messages: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int | None]]:
    """Return the fewest rows behind each field of each kind of message: there may be several messages of one kind."""
    fewest: dict[str, dict[str, int | None]] = {}
    for message in messages:
        rows = fewest.setdefault(str(message["message"]), {})
        for field in message["fields"]:
            path, n = field["field"], field["fewest_rows"]
            before = rows.get(path)
            rows[path] = n if before is None else before if n is None else min(n, before)
    return fewest


def _behind(seen: int | None, fewest: int, no_rows: str) -> str:
    """Return in words how many rows are behind a field: the rule holds for every run, a preview shows one case."""
    if seen is None:
        return no_rows
    return f"at least {fewest}; {seen} in the preview" if seen >= fewest else f"{seen} in the preview"


def keep(kit: Path, form: str, *, is_new_form: bool) -> None:
    """Write the consent into the kit; with a form that was completed anew a new run may begin."""
    path = kit / CONSENT
    if is_new_form and path.exists() and path.read_text(encoding="utf-8") != form:
        with Journal(kit / RELEASES).locked() as journal:
            journal.append({"event": AGREED, "digest": sha256(form.encode()).hexdigest()})
        forget_runs(kit)
    write_atomically(path, form.encode())


def check_form(path: Path, terms: Mapping[str, Any]) -> str:
    """Return the text of a completed form for these terms, or raise an error that names what is missing or different."""
    form = read_toml(path)
    hint = "Hint: intarsia participant preview --kit … --table … --form consent.toml writes a new form."
    if absent := [name for name in (BY, ON, *_TERMS) if name not in form and name not in _OPTIONAL]:
        raise SettingError(f"{path} is not a consent form: missing {quote(absent, 20)}. {hint}")
    if empty := [name for name in (BY, ON) if not _is_completed(form[name])]:
        raise SettingError(f"{path} is not completed: {quote(empty)} must be filled in.")
    if not _is_past_day(form[ON]):
        raise SettingError(
            f"{path} has {ON} = {str(form[ON])!r}. It must be the day of consent, such as 2026-11-19, not in the future."
        )
    if differences := list(_differences(form, terms)):
        raise SettingError(f"{path} is consent to other terms: {'; '.join(differences)}. {hint}")
    return path.read_text(encoding="utf-8")


def _is_completed(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else isinstance(value, date)


def _is_past_day(value: Any) -> bool:
    """Whether a value is a day, as TOML or text, and no later than today anywhere on earth."""
    try:
        day = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return False
    return (day.date() if isinstance(day, datetime) else day) <= (datetime.now(UTC) + timedelta(days=1)).date()


def _differences(form: Mapping[str, Any], terms: Mapping[str, Any]) -> Iterable[str]:
    for name in _TERMS:
        agreed, now = form.get(name), terms.get(name)
        if isinstance(now, dict) and isinstance(agreed, dict):
            for key in now | agreed:
                if agreed.get(key) != now.get(key):
                    yield f"[{name}] {key}: agreed {_shown(agreed, key)}, now {_shown(now, key)}"
        elif isinstance(now, list) and isinstance(agreed, list):
            if added := [entry for entry in now if entry not in agreed]:  # their order does not matter
                yield f"{name}: added {quote(added, 20)}"
            if removed := [entry for entry in agreed if entry not in now]:
                yield f"{name}: removed {quote(removed, 20)}"
        elif agreed != now:
            yield f"{name}: agreed {_words(agreed)}, now {_words(now)}"


def _words(term: Any) -> str:
    """Return a term in words; of a table, its names."""
    return "nothing" if term is None else quote(term) if isinstance(term, dict) else repr(term)


def _shown(table: Mapping[str, Any], key: str) -> str:
    return repr(table[key]) if key in table else "nothing"
