"""Files for operators: the commands in units, compose file and Quadlets exist, with their options, and agree."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import typer

from intarsia.cli.app import app

DEPLOY = Path(__file__).parent.parent / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
QUADLETS = sorted((DEPLOY / "container").glob("*.container"))


def read(unit):
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(unit.read_text())
    return parser


def parsed(words):
    """Let the command line parse the words of a command, without running it; return the command's name."""
    group, command, *rest = words
    click = typer.main.get_command(app)
    chosen = click.commands[group].commands[command]
    chosen.make_context(f"intarsia {group} {command}", rest, resilient_parsing=False)
    return f"{group} {command}"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_start_commands_that_exist(unit):
    executable, *words = shlex.split(read(unit)["Service"]["ExecStart"])
    assert executable == "/opt/intarsia/bin/intarsia"
    assert parsed(words) in {"federation start", "participant serve"}


@pytest.mark.parametrize("unit", QUADLETS, ids=lambda unit: unit.stem)
def test_quadlets_run_the_commands_of_the_units_without_rights(unit):
    container = read(unit)["Container"]
    words = shlex.split(container["Exec"])
    assert parsed(words) in {"federation start", "participant serve"}
    assert container["User"] == "10001"
    assert (container["ReadOnly"], container["NoNewPrivileges"], container["DropCapability"]) == ("true", "true", "all")


def test_the_compose_file_and_the_quadlets_run_the_same_commands():
    text = (DEPLOY / "container/compose.yaml").read_text()
    for unit in QUADLETS:
        for word in shlex.split(read(unit)["Container"]["Exec"]):
            assert word in text, word
    for line in ("read_only: true", 'user: "10001:10001"', "cap_drop: [ALL]", "no-new-privileges:true"):
        assert line in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_units(unit, tmp_path):
    """But for the programs and users, which this machine does not have."""
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/intarsia/bin/intarsia", "/bin/true").replace("User=intarsia\n", ""))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert unit.name not in done.stderr, done.stderr


def test_the_image_runs_as_another_user_than_root():
    lines = (DEPLOY / "container/Containerfile").read_text().splitlines()
    assert "USER 10001:10001" in lines
    assert 'ENTRYPOINT ["intarsia"]' in lines


def test_the_installer_refuses_another_python(tmp_path):
    """The real script, with a wheelhouse for a Python that nobody has."""
    shutil.copy(DEPLOY / "install.sh", tmp_path)
    (tmp_path / "PYTHON").write_text("cp399-linux-riscv\n")
    command = ["bash", str(tmp_path / "install.sh"), str(tmp_path / "here")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cp399-linux-riscv" in done.stderr
    assert "make wheelhouse PYTHON=" in done.stderr
    assert not (tmp_path / "here").exists()
