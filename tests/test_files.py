"""Files of ``intarsia._files``: written completely or not at all, locked by one process, TOML with one kind of error."""

import os
import stat
import subprocess
import sys

import pytest

from intarsia._files import lock, open_private, read_toml, write_atomically  # without public names
from intarsia.exceptions import InputError, OutputError


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "a.bin"
    write_atomically(path, b"old")

    def parts():
        yield b"new"
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        write_atomically(path, parts())
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]


def test_a_secret_is_its_owner_s_alone_and_other_permissions_are_kept(tmp_path):
    secret, shared = tmp_path / "key", tmp_path / "shared"
    write_atomically(secret, b"x", secret=True)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    shared.write_bytes(b"x")
    shared.chmod(0o640)
    write_atomically(shared, [b"y", b"z"])
    assert (stat.S_IMODE(shared.stat().st_mode), shared.read_bytes()) == (0o640, b"yz")


def test_what_cannot_be_written_is_named(tmp_path):
    with pytest.raises(OutputError, match="already exists and is not a file"):
        write_atomically(tmp_path, b"x")
    with pytest.raises(OutputError, match="nowhere/a cannot be written"):
        write_atomically(tmp_path / "nowhere" / "a", b"x")


def test_a_lock_belongs_to_one_process_at_a_time(tmp_path):
    code = (
        "import sys; from intarsia._files import lock; f = open(sys.argv[1], 'ab'); print(lock(f.fileno(), wait=False))"
    )

    def other():
        command = [sys.executable, "-c", code, str(tmp_path / "lock")]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout.strip()

    with (tmp_path / "lock").open("ab") as file:
        assert lock(file.fileno(), wait=False)
        assert other() == "False"
    assert other() == "True"


@pytest.mark.parametrize("content", [b"a = ", b"\xff"])
def test_an_error_about_toml_names_the_file_and_quotes_nothing(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.toml is not valid TOML \(\w+\)\.$"):
        read_toml(path)
    with pytest.raises(InputError, match="b.toml cannot be read"):
        read_toml(tmp_path / "b.toml")


DEEP = 5000


@pytest.mark.parametrize(
    "content", [f"a = {'[' * DEEP}{']' * DEEP}", f"[{'.'.join('a' * DEEP)}]", f"a = {'[' * 21}{']' * 21}"]
)
def test_toml_that_is_nested_too_deeply_is_refused(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=r"a\.toml has tables or lists within each other, more than 20 levels deep\.$"):
        read_toml(path)
    path.write_text(f"a = {'[' * 19}{']' * 19}")
    read_toml(path)


def test_links_that_lead_nowhere(tmp_path):
    """Where a link leads to a file that does not exist yet, that file is written; a folder is not made."""
    links = {name: tmp_path / name for name in ("new", "gone", "loop")}
    links["new"].symlink_to(tmp_path / "target")
    links["gone"].symlink_to(tmp_path / "nowhere" / "target")
    links["loop"].symlink_to(links["loop"])
    write_atomically(links["new"], b"x")
    assert (tmp_path / "target").read_bytes() == b"x"
    for name in ("gone", "loop"):
        with pytest.raises(OutputError, match=f"{name} cannot be written"):
            write_atomically(links[name], b"x")
    with pytest.raises(OutputError, match="cannot be written: File name too long"):
        write_atomically(tmp_path / ("x" * 300), b"x")


def test_a_function_may_write_the_content(tmp_path):
    write_atomically(tmp_path / "a", lambda file: file.writelines([b"x", b"y"]))
    assert (tmp_path / "a").read_bytes() == b"xy"


@pytest.mark.parametrize("before", [None, 0o644])
def test_a_private_file_is_its_owner_s_alone(tmp_path, before):
    path = tmp_path / "journal"
    if before is not None:
        path.write_bytes(b"old\n")
        path.chmod(before)
    with open_private(path) as file:
        file.write(b"new\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == (b"new\n" if before is None else b"old\nnew\n")
