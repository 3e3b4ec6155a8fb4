"""A participant's consent: a form that says what would leave, for somebody to read, fill in and sign with a name.

Consent is to these terms and no others: when the study, the columns or the rules are not those of the form any more, it
counts no longer, and what differs is named. What was agreed to is kept in the participant's kit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from intarsia._files import read_toml
from intarsia.exceptions import SettingError, quote
from intarsia.federation.release_rules import as_table
from intarsia.federation.site_settings import LocalSettings, toml_lines
from intarsia.federation.study_file import Study
from intarsia.protocol import tag_of
from intarsia.protocol.catalogue import exchanges, paths_of

CONSENT = "consent.toml"
BY, ON = "agreed_by", "on"
_TERMS = ("study", "participant", "server", "method", "n_clusters", "settings", "table", "columns", "release")
_LATER_PHASES = {"federated": ("refine", "label"), "one_shot": ("assign",)}  # a preview ends before them

_HEAD = """# Consent to take part in a study. Nothing leaves before {by} and {on} are filled in, and the form is given to
# intarsia participant serve --consent. It counts for what is written here; if anything of it changes, it counts no longer.

"""
_LEAVES = """
# What would leave: by kind of message its fields, and how few rows stand behind a number in them. Names of columns and of
# levels of categories leave, too. No label is in any message, and nothing that is some row's alone, unless [release] allows
# extremes or discrete densities.
"""
_LATER = "at least {fewest}"
_NONE = "no rows: names and settings"


def later_fields(method: str) -> dict[str, list[str]]:
    """Return the fields with rows behind them in replies that no preview has, because they depend on other participants."""
    return {
        tag_of(exchange.reply): [path for path, fact in paths_of(exchange.reply).items() if fact.rows is not None]
        for exchange in exchanges()
        if exchange.phase in _LATER_PHASES[method]
    }


def terms_of(study: Study, name: str, settings: LocalSettings, columns: Iterable[str]) -> dict[str, Any]:
    """What somebody agrees to."""
    return {
        "study": study.name,
        "participant": name,
        "server": f"{study.host}:{study.port}",
        "method": study.method,
        "n_clusters": study.n_clusters,
        "settings": dict(study.settings),
        "table": Path(settings.table).name,
        "columns": list(columns),
        "release": as_table(settings.release),
    }


def form_of(terms: Mapping[str, Any], messages: Iterable[Mapping[str, Any]], by: str = "", on: str = "") -> str:
    """The form, as TOML that a person can read; ``messages`` are those of a preview."""
    tables = {name: terms[name] for name in ("settings", "release")}
    lines = [*toml_lines({BY: by, ON: on}), "", *toml_lines({k: v for k, v in terms.items() if k not in tables})]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *toml_lines(table)]
    fewest = terms["release"]["min_cluster_size"]
    leaves: dict[str, dict[str, Any]] = {
        str(said["message"]): {
            field["field"]: _NONE if field["fewest_rows"] is None else field["fewest_rows"] for field in said["fields"]
        }
        for said in messages
    }
    for kind, names in later_fields(terms["method"]).items():
        leaves.setdefault(kind, dict.fromkeys(names, _LATER.format(fewest=fewest)))
    told = [line for kind, held in leaves.items() for line in (f'[leaves."{kind}"]', *toml_lines(held), "")]
    return "\n".join([_HEAD.format(by=BY, on=ON) + lines[0], *lines[1:], _LEAVES, *told])


def check_form(path: Path, terms: Mapping[str, Any]) -> str:
    """The text of a form that was filled in and is of these terms; else an error that names what is missing or differs."""
    said = read_toml(path)
    hint = "Hint: intarsia participant preview --kit … --table … --form consent.toml makes one."
    if absent := [name for name in (BY, ON, *_TERMS) if name not in said]:
        raise SettingError(f"{path} is not a form of consent: it has no {quote(absent, 20)}. {hint}")
    if empty := [name for name in (BY, ON) if not _filled(said[name])]:
        raise SettingError(f"nobody has agreed to {path} yet: {quote(empty)} must be filled in.")
    if differs := list(_differences(said, terms)):
        raise SettingError(f"{path} is consent to something else: {'; '.join(differs)}. {hint}")
    return path.read_text(encoding="utf-8")


def _filled(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else isinstance(value, date)


def _differences(said: Mapping[str, Any], terms: Mapping[str, Any]) -> Iterable[str]:
    for name in _TERMS:
        then, now = said[name], terms[name]
        if isinstance(now, dict) and isinstance(then, dict):
            changed = [key for key in (now | then) if key not in then or key not in now or then[key] != now[key]]
            yield from (f"[{name}] {key}: {_told(then, key)} there, {_told(now, key)} now" for key in changed)
        elif isinstance(now, list) and isinstance(then, list):
            more, less = [c for c in now if c not in then], [c for c in then if c not in now]
            if more or less:  # their order does not matter
                yield f"{name}: {', '.join(_lists(more, less))}"
        elif then != now:
            yield f"{name}: {then!r} there, {now!r} now"


def _lists(more: list[Any], less: list[Any]) -> Iterable[str]:
    if more:
        yield f"{quote(more, 20)} now and not there"
    if less:
        yield f"{quote(less, 20)} there and not now"


def _told(table: Mapping[str, Any], key: str) -> str:
    return repr(table[key]) if key in table else "nothing"
