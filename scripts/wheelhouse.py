"""``make wheelhouse``: everything that a machine without internet needs, in one folder and one archive under build/.

The folder has all wheels of all extras at the versions of ``constraints.txt``, their hashes (``requirements.txt``), a script
that installs them (``install.sh``), the files in ``deploy``, the pages of ``docs`` as text, the licence, and an SBOM
(CycloneDX) of what is installed. It fits the version and platform of the Python that made it, and the glibc that its wheels
need or a newer one: wheels with compiled code fit no other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent
SBOM_TOOL = "cyclonedx-bom[validation]>=7,<8"
OLD_TAGS = {"1": 5, "2010": 12, "2014": 17}  # manylinux tags that do not name the minor version of glibc 2
SBOM = "sbom.cdx.json"


def run(*command: str | Path, **environment: str) -> None:
    """Run a command; end with its output if it fails."""
    done = subprocess.run(
        [str(word) for word in command], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def pip(*words: str | Path) -> None:
    """Run pip without chatter."""
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


def extras() -> str:
    """Return all extras as pip reads them: ``cli,flare,…``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ",".join(sorted(project["optional-dependencies"]))


def tag() -> str:
    """Return Python version and platform, as in the names of wheels: ``cp311-linux-x86_64``."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}-{sysconfig.get_platform()}"


def glibc(wheels: Iterable[str]) -> str:
    """Return the oldest glibc that all wheels of these names run with, as ``2.34``; empty if none needs it."""
    needed = [
        min(int(minor) if minor else OLD_TAGS[old] for minor, old in tags)
        for name in wheels
        if (tags := re.findall(r"manylinux(?:_2_(\d+)|(2014|2010|1))_", name))
    ]
    return f"2.{max(needed)}" if needed else ""


def requirement_of(wheel: Path) -> str:
    """Return name, version and hash of a wheel as a line of a requirements file."""
    with ZipFile(wheel) as content:
        name = next(n for n in content.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA"))
        lines = content.read(name).decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines[: lines.index("") if "" in lines else None] if ": " in line)
    return f"{fields['Name']}=={fields['Version']} --hash=sha256:{sha256(wheel.read_bytes()).hexdigest()}"


def write_sbom(folder: Path, beside: Path) -> None:
    """Install the wheels as on a machine without internet, and describe that environment, with licences and dependencies."""
    installed = beside / "installed"
    run("bash", folder / "install.sh", installed, sys.executable, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    tools = beside / "tools"
    run(sys.executable, "-m", "venv", tools)
    run(tools / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", SBOM_TOOL)
    words = ("environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml", "--output-file")
    run(tools / "bin/cyclonedx-py", *words, beside / SBOM, "--validate", installed / "bin/python")
    described = json.loads((beside / SBOM).read_text(encoding="utf-8"))
    missing = missing_from(described, folder)
    if missing:
        sys.exit(f"the SBOM does not list {len(missing)} of the wheels: {', '.join(missing)}")
    wheel = next(folder.glob("wheels/intarsia-*.whl"))
    described["metadata"]["component"]["version"] = wheel.name.split("-")[1]
    (folder / SBOM).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def missing_from(described: dict, folder: Path) -> list[str]:
    """Return the wheels, as ``name==version``, that an SBOM does not list."""
    parts = [*described["components"], described["metadata"]["component"]]
    listed = {f"{normal(one['name'])}=={one.get('version')}" for one in parts}
    lines = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line.split()[0].split("==") for line in lines]
    here = [f"{normal(name)}=={version}" for name, version in wanted]
    return [one for one in here if one not in listed and not one.startswith("intarsia==")]


def normal(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def make(folder: Path) -> None:
    """Fill the folder."""
    wheels, beside = folder / "wheels", folder.parent / "wheelhouse-work"
    for old in (folder, beside):
        shutil.rmtree(old, ignore_errors=True)
    wheels.mkdir(parents=True)
    beside.mkdir()
    pip("wheel", "--constraint", ROOT / "constraints.txt", "--wheel-dir", wheels, f"{ROOT}[{extras()}]")
    lines = sorted(requirement_of(wheel) for wheel in wheels.glob("*.whl"))
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "PYTHON").write_text(f"{tag()}\n", encoding="utf-8")
    if needed := glibc(wheel.name for wheel in wheels.glob("*.whl")):
        (folder / "GLIBC").write_text(f"{needed}\n", encoding="utf-8")
    shutil.copytree(ROOT / "deploy", folder, dirs_exist_ok=True)
    for name in ("LICENSE", "README.md"):
        shutil.copy(ROOT / name, folder)
    for page in (ROOT / "docs").rglob("*.md"):  # as text: no browser is needed to read them
        copied = folder / page.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copied)
    write_sbom(folder, beside)
    shutil.rmtree(beside)
    archive = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, folder.name)
    digest = sha256(archive.read_bytes()).hexdigest()
    archive.with_name(f"{archive.name}.sha256").write_text(f"{digest}  {archive.name}\n", encoding="utf-8")
    megabytes = archive.stat().st_size / 1e6
    print(archive)  # noqa: T201
    print(f"{len(lines)} wheels for {tag()}, {megabytes:.0f} MB, SHA-256 {digest}")  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / f"intarsia-{tag()}", help="the folder to make")
    make(parser.parse_args().output.resolve())
