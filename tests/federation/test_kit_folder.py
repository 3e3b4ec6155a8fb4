"""The folder of a kit: damaged files are told in one sentence, and who else can enter."""

from __future__ import annotations

import os

import pytest

from intarsia.exceptions import InputError, SettingError
from intarsia.federation.kit_folder import name_of, open_to_others, study_of
from intarsia.federation.site_settings import read_settings
from intarsia.federation.study_file import read_study

DEEP = "[" * 100_000 + "]" * 100_000


def test_files_that_are_nested_too_deeply_are_refused(tmp_path):
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_client.json").write_text('{"client": ' + DEEP + "}")
    (tmp_path / "study.json").write_text('{"name": "a", "participants": ["b"], "settings": {"x": ' + DEEP + "}}")
    for name in ("intarsia.toml", "study.toml"):
        (tmp_path / name).write_text('table = ""\n[settings]\nx = ' + DEEP)
    with pytest.raises(SettingError, match="is not a kit: it has no readable study.json"):
        study_of(tmp_path)
    with pytest.raises(SettingError, match="is not a kit: no file in startup/ says whose it is"):
        name_of(tmp_path)
    with pytest.raises(InputError, match="more than 20 levels deep"):
        read_settings(tmp_path)
    with pytest.raises(InputError, match="more than 20 levels deep"):
        read_study(tmp_path / "study.toml")


@pytest.mark.skipif(os.name != "posix", reason="permissions are not in the mode")
def test_a_kit_that_others_can_enter_and_keys_that_they_can_read_are_told(tmp_path):
    (tmp_path / "startup").mkdir()
    paths = [tmp_path / "authority.key", tmp_path / "startup" / "client.key"]
    for path in paths:
        path.touch(mode=0o600)
    tmp_path.chmod(0o700)
    assert open_to_others(tmp_path) == []
    for mode in (0o750, 0o701, 0o720):
        tmp_path.chmod(mode)
        (told,) = open_to_others(tmp_path)
        assert f"(mode {mode:o})" in told
        assert "chmod -R go=" in told
    tmp_path.chmod(0o700)
    paths[1].chmod(0o640)
    (told,) = open_to_others(tmp_path)
    assert "1 private key(s)" in told
    assert "'startup/client.key'" in told


def test_files_of_an_authority_that_are_nested_too_deeply_are_refused(tmp_path):
    pytest.importorskip("cryptography")
    from intarsia.federation.certificates.authority import Authority
    from intarsia.federation.certificates.enrolment import join

    deep = "[" * 20_000 + "]" * 20_000  # such files have at most 100,000 bytes
    (tmp_path / "authority.key").touch()
    (tmp_path / "approved.json").write_text('{"a": {"new": ' + deep + "}}")
    study = '{"name": "heart", "participants": ["a"], "settings": {"x": ' + deep + "}}"
    (tmp_path / "a.approved.json").write_text('{"name": "a", "study": ' + study + "}")
    with pytest.raises(InputError, match="is not a list of approved certificates"):
        Authority.read(tmp_path)
    with pytest.raises(InputError, match="is not the reply of a coordinator"):
        join(tmp_path / "a.approved.json", tmp_path, tmp_path / "kit", lambda *_: None)
