"""Start-up kits: key and certificate, the server's address, and locks that no job can open.

A site allows only our executor, no job with code, no shell command, no log that leaves, and results leave only through our
filter. The server allows only our controller, and keeps its jobs in its own folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from intarsia.exceptions import FederationError, SettingError
from intarsia.federation.flare import starter
from intarsia.federation.flare.job import CONTROLLER, EXECUTOR, GATE
from intarsia.federation.kit_folder import (
    ANALYST,
    AUTHORITY,
    SERVER,
    Credentials,
    install,
    name_of,
    study_of,
    write_study,
)
from intarsia.federation.kit_readme import write_readme
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study

_RIGHTS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "n:submitter",
    "download_job": "n:submitter",
    "view": "any",
}
_NEVER = {"byoc": "none", "shell_commands": "none", "operate": "none", "server-predeployed-flwr": "none"}
_NOTHING = dict.fromkeys(_RIGHTS, "none") | _NEVER

_SCHEDULE = {"min_schedule_interval": 1.0, "max_schedule_interval": 5.0}  # seconds; the engine's: 10 and 600
_REGISTER_EVERY = 0.5  # seconds between two attempts of a site to register; the engine's: 2
_CHECK_EVERY = 0.2  # seconds after which a job's process notices that its work has ended; the engine's: 3

_START_SCRIPTS = (
    "*.sh",
    "*.ipynb",
    "readme.txt",
    "*.sample",
)  # kits start by our commands, which ask for consent first


def write_kits(study: Study, folder: Path, *, keys_stay: bool = False) -> dict[str, Path]:
    """Make a kit for the server, the analyst and each participant, and the authority that signed them; return their paths.

    With ``keys_stay``, and in a study with secure sums, there are no kits for participants: they create their own keys and
    make a request (:mod:`intarsia.federation.certificates.enrolment`).
    """
    if folder.exists():
        raise SettingError(
            f"{folder} already exists: kits are made once. Hint: another --output makes a new authority, and new kits for "
            "everybody. For one lost kit: federation renew --lost, or join-request, approve --again and join."
        )
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = (SERVER, ANALYST, *(() if keys_stay or study.secure_sums else study.participants))
    from intarsia.federation.certificates.authority import Authority  # only whoever makes kits needs cryptography

    authority = Authority.create(study.name)
    with tempfile.TemporaryDirectory(prefix=".intarsia-", dir=folder.parent) as beside:
        made = Path(beside) / "kits"
        made.mkdir(mode=0o700)
        provisioned = _provisioned(study, Path(beside))
        for name in names:
            _finish(provisioned[name], study, name, authority.credentials(study, name))
            provisioned[name].rename(made / name)
        (made / AUTHORITY).mkdir(mode=0o700)
        authority.write(made / AUTHORITY)
        _describe(made / AUTHORITY, study, AUTHORITY)
        made.rename(folder)
    return {name: folder / name for name in (*names, AUTHORITY)}


def make_kit(kit: Path, study: Study, name: str, credentials: Credentials) -> None:
    """Make one kit, whose key and certificate exist already."""
    kit = kit.resolve()
    kit.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".intarsia-", dir=kit.parent) as beside:
        made = _provisioned(study, Path(beside))[name]
        _finish(made, study, name, credentials)
        made.rename(kit)


def make_again(kit: Path, name: str, folder: Path) -> datetime:
    """Make the kit of the server or the analyst anew, with a new key of the same authority; return its expiry date."""
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.certificates.keys import certificate_of, end_of

    if name not in (SERVER, ANALYST):
        raise SettingError(
            f"only the kits of {SERVER} and {ANALYST} are made anew so, not that of {name!r}. Hint: a participant makes its "
            "own: intarsia federation join-request there, approve --again here, join there."
        )
    if kit.exists():
        raise SettingError(f"{kit} already exists. Hint: another --kit; without --lost its certificate is renewed.")
    study, authority = study_of(folder), Authority.read(folder)
    credentials = authority.credentials(study, name)
    make_kit(kit, study, name, credentials)
    authority.write_signed(folder)
    return end_of(certificate_of(credentials.certificate))


def _finish(kit: Path, study: Study, name: str, credentials: Credentials) -> None:
    """Turn a folder of the engine into a kit: our key and certificates, locks, the study, and a README."""
    kit.chmod(0o700)
    for pattern in _START_SCRIPTS:
        for path in kit.rglob(pattern):
            path.unlink()
    install(kit, credentials)
    _write(kit / "local" / "comm_config.json", starter.LIMITS)
    if name == SERVER:
        _lock_server(kit)
    elif name != ANALYST:
        _lock_site(kit)
        write_settings(kit / "local", LocalSettings(metric=study.metric, release=study.release))
    _describe(kit, study, name)


def _describe(kit: Path, study: Study, name: str) -> None:
    write_study(kit, study)
    write_readme(kit, study, name)


def _provisioned(study: Study, beside: Path) -> dict[str, Path]:
    """Return the folders that the engine makes for everybody, by name. Our keys replace its own."""
    described, workspace = beside / "project.yml", beside / "ws"
    described.write_text(json.dumps(_project(study)), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", str(described), "-w", str(workspace)]
    done = subprocess.run(command, cwd=beside, capture_output=True, text=True, check=False)  # noqa: S603
    produced = workspace / study.name / "prod_00"
    if done.returncode or not (produced / study.host).is_dir():
        last_lines = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise FederationError(f"the kits could not be made: {' '.join(last_lines)}")
    folders = {SERVER: study.host, ANALYST: study.analyst} | {name: name for name in study.participants}
    return {name: produced / folder for name, folder in folders.items()}


def _project(study: Study) -> dict[str, Any]:
    """Return the engine's description of the server, the analyst and the participants."""
    builders = "nvflare.lighter.impl"
    return {
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


def _lock_site(kit: Path) -> None:
    local = kit / "local"
    resources = _restricted(local, [EXECUTOR, GATE], "site_log_streamer")
    resources["allow_log_streaming"] = False
    _write(local / "resources.json", resources)
    scope = {"name": "intarsia", "properties": {}, "task_result_filters": [{"path": GATE}], "task_data_filters": []}
    _write(local / "privacy.json", {"scopes": [scope], "default_scope": "intarsia"})
    # nobody may look into a site: its error log may contain values of rows
    _write(local / "authorization.json", _permissions(_NOTHING | {"submit_job": "any"}))


def _lock_server(kit: Path) -> None:
    local = kit / "local"
    _write(local / "resources.json", _restricted(local, [CONTROLLER], "log_receiver"))
    _write(local / "authorization.json", _permissions(_RIGHTS | _NEVER))
    settle_server(kit)


def _restricted(local: Path, classes: list[str], log_component: str) -> dict[str, Any]:
    """Return the engine's default resources with a list of allowed classes, and without the component that moves logs."""
    resources: dict[str, Any] = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    components = [entry for entry in resources["components"] if entry["id"] != log_component]
    if len(components) == len(resources["components"]):
        raise FederationError(f"the kits could not be made: the engine has no component {log_component!r} to remove.")
    allowed = {"class_allow_list": classes, "class_list_enforcement_mode": "enforce"}
    return resources | allowed | {"components": components}


def _resources(kit: Path) -> tuple[Path, dict[str, Any]]:
    """Return the engine's settings in a kit, and where they are."""
    path = kit / "local" / "resources.json"
    try:
        return path, json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingError(
            f"{path} cannot be read ({type(error).__name__}). Hint: use the copy that came with the kit."
        ) from None


def settle_site(kit: Path) -> None:
    """Let a site ask again soon while the server is not there yet."""
    path, resources = _resources(kit)
    resources["client"] = resources.get("client", {}) | {"client_register_interval": _REGISTER_EVERY}
    _write(path, resources)


def settle_server(kit: Path) -> None:
    """Put the stores of jobs and snapshots into the kit, wherever it is now; by default they are in a shared folder."""
    path, resources = _resources(kit)
    state = kit.resolve() / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(state / "snapshots")
    (manager,) = (entry for entry in resources["components"] if entry["id"] == "job_manager")
    manager["args"]["uri_root"] = str(state / "jobs")
    (scheduler,) = (entry for entry in resources["components"] if entry["id"] == "job_scheduler")
    scheduler["args"] |= _SCHEDULE
    resources["servers"][0]["check_engine_frequency"] = _CHECK_EVERY
    _write(path, resources)


def _permissions(lead: dict[str, str]) -> dict[str, Any]:
    roles = {"lead": lead, "project_admin": _NOTHING, "org_admin": _NOTHING, "member": _NOTHING}
    return {"format_version": "1.0", "permissions": roles}


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _settle_log(local: Path) -> None:
    """Write the configuration of the logs into a kit, from the engine's default, if the kit has it."""
    if (default := local / "log_config.json.default").is_file():
        from intarsia.federation.flare.log import configured  # its classes are the engine's

        _write(local / "log_config.json", configured(json.loads(default.read_text(encoding="utf-8"))))


def command_of(kit: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts the server or the site of a kit in this interpreter, and its environment."""
    kit = kit.resolve()
    study, name = study_of(kit), name_of(kit)
    if name == SERVER:
        settle_server(kit)
        which, config, who = "server", "fed_server.json", [f"org={study.name}"]
    else:
        settle_site(kit)
        which, config, who = "site", "fed_client.json", [f"uid={name}", f"org={name}"]
    (kit / "transfer").mkdir(exist_ok=True)
    _settle_log(kit / "local")
    settings = ["secure_train=true", *who, "config_folder=config"]
    settings += [f"heart_beat_interval={starter.HEARTBEAT}"] if which == "site" else []
    command = [sys.executable, "-u", "-m", starter.__name__, which, "-m", str(kit), "-s", config]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return [*command, "--set", *settings], environment | {"MALLOC_ARENA_MAX": "2"}
