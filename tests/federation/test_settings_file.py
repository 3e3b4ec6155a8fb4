"""Settings files: read, written, and refused with one kind of error."""

from __future__ import annotations

import pytest

from intarsia.exceptions import SettingError
from intarsia.federation.settings_file import looser
from intarsia.federation.site_settings import LocalSettings, read_settings, write_settings
from intarsia.privacy.policy import OPEN, ReleasePolicy


def test_settings_survive_writing(tmp_path):
    said = LocalSettings(
        '/d/ö "x".csv',
        ("a", 'b"'),
        "id",
        "HDBSCAN(min_cluster_size=20)",
        "drop",
        "manhattan",
        release=ReleasePolicy(9, "withhold", 3, max_rounds=None),
    )
    write_settings(tmp_path, said)
    assert read_settings(tmp_path) == said
    for wrong, why in (
        ('tabel = "x"', "tabel"),
        ("[release]\nmin_size = 3", "unknown rules: 'min_size'. Known rules: min_cluster_size"),
        ('[release]\nmin_cluster_size = "3"', "release.*Expected `int`, got `str`.*min_cluster_size"),
        ("[release]\nmin_cluster_size = 0", "min_cluster_size must be a whole number from 1"),
        ('[release]\nsmall = "hide"', "small must be one of"),
        ("release = 5", "must be a table of rules"),
    ):
        (tmp_path / "intarsia.toml").write_text(wrong)
        with pytest.raises(SettingError, match=why):
            read_settings(tmp_path)


def test_rules_that_let_out_more_than_usual_are_named():
    assert looser(ReleasePolicy(9, "withhold", 3, max_rounds=3)) == []
    assert looser(OPEN) == [
        "min_cluster_size",
        "allow_extremes",
        "allow_discrete",
        "allow_any_covariance",
        "max_rounds",
    ]
