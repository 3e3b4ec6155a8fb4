"""The README.md in every kit: where the folder belongs, what the firewall must allow, and which commands to type."""

from __future__ import annotations

from pathlib import Path

from intarsia.federation.kit_folder import ANALYST, AUTHORITY, SERVER
from intarsia.federation.study_file import Study

_KEEP = """This folder holds a private key and is for {owner} alone. Copy the whole folder over a secure
channel (not by mail), and let only the account that uses it read it:

    chmod -R go= {folder}

To see when its certificate expires: intarsia federation certificates --kit {folder}
"""

_PRIVATE = """data.csv.budget   beside the table: what all studies spent of its privacy budget; data.csv.answers has the
                  answers that were paid for. Keep both as long as the table, and copy them with it.
                  intarsia participant budget kit/ shows them.
"""

_SECURE = """keys.json         the fingerprints of all participants' keys, as agreed.
own_key.json      the fingerprint of this kit's key, which was made here by join-request.
intarsia/*.vault  secrets of each run: a restarted site answers as before. They never leave.
"""

_LIST_OF_KEYS = (
    "    intarsia federation keys --authority authority/ -o keys.json     once all participants were approved\n"
)

_TEXTS = {
    SERVER: """# The server of the study {study!r}

Where: on the machine that everybody reaches as {host}, in any folder, here called server/.

{keep}
Firewall: allow incoming TCP connections on port {port} from the machines of the participants and the analyst. The server
opens no connection itself. No proxy on the way may decrypt TLS: both ends show certificates.

    intarsia federation start --kit server/

runs/             all replies so far: an interrupted run continues from them. They are summaries, not rows.
state/            jobs of the engine.
""",
    ANALYST: """# The analyst of the study {study!r}

Where: on the analyst's machine, in any folder, here called analyst/.

{keep}
Firewall: allow outgoing TCP connections to {host}, port {port}. Nothing comes in.

    intarsia federation status --kit analyst/
    intarsia federation run --kit analyst/ -o study/

The key allows the analyst to start a run. A run can only send the requests that every participant knows.
""",
    AUTHORITY: """# The authority of the study {study!r}

Its key certifies every name in this study: whoever has the key can pretend to be anybody in it. No kit contains it, and no
running machine needs it. Take it off the network once the kits are made; you need it again to approve and to renew:

    intarsia federation approve NAME.request.pem --authority authority/ [--again]
    intarsia federation renew --kit server/ --authority authority/
{list_of_keys}
{keep}
approved.json     the certificates that it has signed: fingerprints of keys, and expiry dates.
""",
    "participant": """# The participant {name!r} in the study {study!r}

Where: on the machine of {name!r} that can read its table, in any folder, here called kit/.

{keep}
Firewall: allow outgoing TCP connections to {host}, port {port}. Nothing comes in: it listens only to itself (127.0.0.1).

    intarsia participant preview --kit kit/ --table data.csv --id COLUMN{keys}   show what would leave; no network
    intarsia participant serve --kit kit/ --table data.csv --id COLUMN{keys}     take part

COLUMN identifies the rows and is not clustered on; leave --id out only if the table has no such column.

status.html       open it in a browser: what was agreed, what left, and what happens now.
labels.csv        written at the end of a run: the cluster of every row. It never leaves.
labels/           the labels of each run, by its name: a later run overwrites labels.csv, but no file here.
model.intarsia    written at the end of a run, if the study shares it: the public model, which labels new rows here:
                  intarsia participant label --kit kit/ --table new.csv -o new-labels.csv
releases.jsonl    every message that left: its fields, how few rows are behind them, size, digest. It also counts the
                  requests that were answered: keep it as long as the table may be used again.
intarsia/         copies of the replies, with values: a restarted site answers as before. Remove it when the study is
                  over and the site is stopped.
consent.toml      what was agreed to, by whom and when.
{private}{secure}local/            what this participant allows; intarsia.toml has its release rules. No job can change them.
""",
}


def write_readme(kit: Path, study: Study, name: str) -> None:
    """Write the README.md of the kit of ``name``."""
    kind, folder = (name, f"{name}/") if name in _TEXTS else ("participant", "kit/")
    owner = {"participant": repr(name), AUTHORITY: "its keeper"}.get(kind, f"whoever runs the {name}")
    keep = _KEEP.format(owner=owner, folder=folder)
    parts = {"private": _PRIVATE if study.privacy is not None else ""}
    secure = {"secure": _SECURE, "keys": " --keys keys.json", "list_of_keys": _LIST_OF_KEYS}
    parts |= secure if study.secure_sums else dict.fromkeys(secure, "")
    text = _TEXTS[kind].format(study=study.name, host=study.host, port=study.port, name=name, keep=keep, **parts)
    (kit / "README.md").write_text(text, encoding="utf-8")
