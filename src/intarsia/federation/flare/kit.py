"""A start-up kit for every party: its key and certificate, where the server is, and locks that no job can open.

A site allows our executor and no other class, no job with code, no shell command, no log that leaves, and lets results out
through our gate only. The server allows our controller, and keeps its jobs in its own folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from intarsia.exceptions import FederationError, SettingError
from intarsia.federation.flare import starter
from intarsia.federation.flare.job import CONTROLLER, EXECUTOR, GATE
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study

SERVER, ANALYST, AUTHORITY = "server", "analyst", "authority"
STUDY = "study.json"
_RIGHTS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "n:submitter",
    "download_job": "n:submitter",
    "view": "any",
}
_NEVER = {"byoc": "none", "shell_commands": "none", "operate": "none", "server-predeployed-flwr": "none"}
_NOTHING = dict.fromkeys(_RIGHTS, "none") | _NEVER

_ENGINE_S_OWN = ("*.sh", "*.ipynb", "readme.txt", "*.sample")  # it starts by our commands, which ask for consent first
_KEEP = """This folder is for {whose} alone: it holds a private key. Copy it whole, over a way that you trust
(not by mail), and take care that only the account that runs it can read it:

    chmod -R go= {folder}

When its certificate ends: intarsia federation certificates --kit {folder}
"""

_READ_ME = {
    SERVER: """# The server of the study {study!r}

Where: on the machine that everybody reaches as {host}, as any folder, here called server/.

{keep}
Firewall: let TCP connections in on port {port}, from the participants' and the analyst's machines. It dials nobody.
Nothing on the way may take TLS apart: both ends show certificates.

    intarsia federation start --kit server/

runs/             what was answered so far: a run that dies goes on from there. Summaries are in it, no rows.
state/            jobs of the engine.
""",
    ANALYST: """# The analyst of the study {study!r}

Where: on the analyst's machine, as any folder, here called analyst/.

{keep}
Firewall: let TCP connections out to {host}, port {port}. Nothing comes in.

    intarsia federation status --kit analyst/
    intarsia federation run --kit analyst/ -o study/

The key is what allows to ask. It cannot ask for anything but the messages of the closed list.
""",
    AUTHORITY: """# The authority of the study {study!r}

Its key says who is who: whoever has it can be anybody in this study. No kit needs it, and no machine that runs does.
Take it off the network once the kits are made, and fetch it to approve and to renew:

    intarsia federation approve NAME.request.pem --authority authority/ [--again]
    intarsia federation renew --kit server/ --authority authority/

{keep}
approved.json     whom it has signed: fingerprints of keys, and until when.
""",
    "participant": """# {name!r} in the study {study!r}

Where: on the machine of {name!r} that can read its table, as any folder, here called kit/.

{keep}
Firewall: let TCP connections out to {host}, port {port}. Nothing comes in: it listens to nobody but itself (127.0.0.1).

    intarsia participant preview --kit kit/ --table data.csv     what would leave, without any network
    intarsia participant serve --kit kit/ --table data.csv       take part

labels.csv        written here at the end of a run: the cluster of every row. It never travels.
labels/           the same of each run, by its name: a later run overwrites labels.csv, but none of these.
releases.jsonl    every message that left: fields, entries, how few rows stand behind them, bytes, digest.
consent.toml      what was agreed to, by whom and when.
local/            what this participant allows; intarsia.toml has its rules. Its own win, and no job can change them.
""",
}


def write_kits(study: Study, folder: Path, *, keys_stay: bool = False) -> dict[str, Path]:
    """One kit per participant, one for the server, one for the analyst, and the authority that signed them.

    With ``keys_stay`` there are none for participants: they make their keys themselves and ask (:mod:`joining`).
    """
    from intarsia.federation.certificates.keys import Authority, Pair

    if folder.exists():
        raise SettingError(f"{folder} is there already. Hint: another --output; kits are made once.")
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = (SERVER, ANALYST, *(() if keys_stay else study.participants))
    with tempfile.TemporaryDirectory(prefix=".intarsia-", dir=folder.parent) as beside:
        made = Path(beside) / "kits"
        made.mkdir(mode=0o700)
        authority = Authority.make(study.name)
        parts = provisioned(study, Path(beside))
        for name in names:
            pair = Pair.make()
            finish_kit(
                parts[name], study, name, pair.key, authority.sign(study, name, pair.public), authority.certificate
            )
            parts[name].rename(made / name)
        (made / AUTHORITY).mkdir(mode=0o700)
        authority.write(made / AUTHORITY)
        _write_about(made / AUTHORITY, study, AUTHORITY)
        made.rename(folder)
    return {name: folder / name for name in (*names, AUTHORITY)}


def finish_kit(kit: Path, study: Study, name: str, key: bytes, certificate: bytes, root: bytes) -> None:
    """Make a kit of what the engine provides: key and certificates, locks, the study, and what to do with it."""
    from intarsia.federation.certificates.keys import install

    kit.chmod(0o700)
    for pattern in _ENGINE_S_OWN:
        for path in kit.rglob(pattern):
            path.unlink()
    install(kit, key, certificate, root)
    _write(kit / "local" / "comm_config.json", starter.LIMITS)
    if name == SERVER:
        _lock_server(kit)
    elif name != ANALYST:
        _lock_site(kit)
        write_settings(kit / "local", LocalSettings(metric=study.metric, release=study.release))
    _write_about(kit, study, name)


def _write_about(kit: Path, study: Study, name: str) -> None:
    (kit / STUDY).write_bytes(msgspec.json.format(msgspec.json.encode(study)) + b"\n")
    text, folder = (_READ_ME[name], f"{name}/") if name in _READ_ME else (_READ_ME["participant"], "kit/")
    whose = f"{name!r}" if folder == "kit/" else "whoever keeps it" if name == AUTHORITY else f"whoever runs the {name}"
    keep = _KEEP.format(whose=whose, folder=folder)
    said = text.format(study=study.name, host=study.host, port=study.port, name=name, keep=keep)
    (kit / "README.md").write_text(said, encoding="utf-8")


def study_of(kit: Path) -> Study:
    """The study that a kit is of."""
    try:
        return msgspec.json.decode((kit / STUDY).read_bytes(), type=Study)
    except (OSError, msgspec.DecodeError):
        raise SettingError(f"{kit} is not a kit of a federation: it has no {STUDY} that can be read.") from None


def provisioned(study: Study, beside: Path) -> dict[str, Path]:
    """The engine's own folder for each party, by name. Its keys are replaced by ours: they last for a year only."""
    builders = "nvflare.lighter.impl"
    project = {
        "api_version": 3,
        "name": study.name,
        "description": "written by intarsia",
        "participants": [
            {"name": study.host, "type": "server", "org": study.name, "fed_learn_port": study.port},
            *(
                {"name": name, "type": "client", "org": name, "allow_log_streaming": False}
                for name in study.participants
            ),
            {"name": study.analyst, "type": "admin", "org": study.name, "role": "lead"},
        ],
        "builders": [
            {"path": f"{builders}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {
                "path": f"{builders}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "require_signed_jobs": True},
            },
            {"path": f"{builders}.cert.CertBuilder"},
            {"path": f"{builders}.signature.SignatureBuilder"},
        ],
    }
    described = beside / "project.yml"
    described.write_text(json.dumps(project), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", str(described), "-w", str(beside / "ws")]
    done = subprocess.run(command, cwd=beside, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode or not (beside / "ws" / study.name / "prod_00" / study.host).is_dir():
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise FederationError(f"the kits could not be made: {' '.join(said)}")
    produced = beside / "ws" / study.name / "prod_00"
    called = {SERVER: study.host, ANALYST: study.analyst} | {name: name for name in study.participants}
    return {name: produced / was for name, was in called.items()}


def _lock_site(kit: Path) -> None:
    local = kit / "local"
    resources = _default(local, "resources.json")
    resources["class_allow_list"] = [EXECUTOR, GATE]
    resources["class_list_enforcement_mode"] = "enforce"
    resources["allow_log_streaming"] = False
    resources["components"] = [c for c in resources["components"] if c["id"] != "site_log_streamer"]
    _write(local / "resources.json", resources)
    scope = {"name": "intarsia", "properties": {}, "task_result_filters": [{"path": GATE}], "task_data_filters": []}
    _write(local / "privacy.json", {"scopes": [scope], "default_scope": "intarsia"})
    # nobody looks into a site: what it logs of errors may tell of rows
    _write(local / "authorization.json", _permissions(_NOTHING | {"submit_job": "any"}))


def _lock_server(kit: Path) -> None:
    local = kit / "local"
    resources = _default(local, "resources.json")
    resources["class_allow_list"] = [CONTROLLER]
    resources["class_list_enforcement_mode"] = "enforce"
    resources["components"] = [c for c in resources["components"] if c["id"] != "log_receiver"]
    _write(local / "resources.json", resources)
    _write(local / "authorization.json", _permissions(_RIGHTS | _NEVER))
    settle_server(kit)


def settle_server(kit: Path) -> None:
    """Put the stores of jobs and snapshots where the kit is now; they would be in a folder that everybody shares."""
    path = kit / "local" / "resources.json"
    resources = json.loads(path.read_text(encoding="utf-8"))
    state = kit.resolve() / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(state / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(state / "jobs")
    _write(path, resources)


def _permissions(lead: dict[str, str]) -> dict[str, Any]:
    roles = {"lead": lead, "project_admin": _NOTHING, "org_admin": _NOTHING, "member": _NOTHING}
    return {"format_version": "1.0", "permissions": roles}


def _default(local: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((local / f"{name}.default").read_text(encoding="utf-8"))
    return found


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def command_of(kit: Path) -> tuple[list[str], dict[str, str]]:
    """What starts the server or the site of a kit in this interpreter, and its environment."""
    kit = kit.resolve()
    study, name = study_of(kit), name_of(kit)
    if name == SERVER:
        settle_server(kit)
        which, config, who = "server", "fed_server.json", [f"org={study.name}"]
    else:
        which, config, who = "site", "fed_client.json", [f"uid={name}", f"org={name}"]
    (kit / "transfer").mkdir(exist_ok=True)
    settings = ["secure_train=true", *who, "config_folder=config"]
    command = [sys.executable, "-u", "-m", starter.__name__, which, "-m", str(kit), "-s", config]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return [*command, "--set", *settings], environment | {"MALLOC_ARENA_MAX": "2"}


def name_of(kit: Path) -> str:
    """Whose kit it is: as in its certificate's configuration, whatever the folder is called now."""
    if (kit / "startup" / "fed_server.json").is_file():
        return SERVER
    if (kit / "startup" / "fed_admin.json").is_file():
        return ANALYST
    try:
        found = json.loads((kit / "startup" / "fed_client.json").read_text(encoding="utf-8"))
        return str(found["client"]["fqsn"])
    except (OSError, ValueError, KeyError, TypeError):
        raise SettingError(f"{kit} is not a kit of a federation: nothing in startup/ says whose it is.") from None
