"""The folder of a kit: damaged files are told in one sentence."""

from __future__ import annotations

import pytest

from intarsia.exceptions import InputError, SettingError
from intarsia.federation.kit_folder import name_of, study_of
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
