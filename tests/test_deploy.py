"""Files for operators: the commands in units, compose file and Quadlets exist, with their options, and agree."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
import sysconfig
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


def test_the_installer_refuses_an_older_glibc(tmp_path):
    here = f"cp{sys.version_info.major}{sys.version_info.minor}-{sysconfig.get_platform()}"
    shutil.copy(DEPLOY / "install.sh", tmp_path)
    (tmp_path / "PYTHON").write_text(f"{here}\n")
    (tmp_path / "GLIBC").write_text("2.999\n")
    command = ["bash", str(tmp_path / "install.sh"), str(tmp_path / "here"), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "need glibc 2.999 or newer" in done.stderr
    assert not (tmp_path / "here").exists()


def test_a_wheelhouse_needs_the_newest_glibc_of_its_wheels_each_by_its_oldest_tag():
    spec = importlib.util.spec_from_file_location("wheelhouse", DEPLOY.parent / "scripts/wheelhouse.py")
    wheelhouse = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheelhouse)
    old = "a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    new = "b-1-cp311-abi3-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"
    assert wheelhouse.glibc([old, "c-1-py3-none-any.whl"]) == "2.17"
    assert wheelhouse.glibc([old, new]) == "2.27"
    assert wheelhouse.glibc(["c-1-py3-none-any.whl"]) == ""
