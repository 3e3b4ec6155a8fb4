"""Keys of a study with secure sums: who makes them, the list that all agree on, consent to it, and a run's secrets."""

from __future__ import annotations

import json
import os
import shutil
import threading
import tomllib

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

pytest.importorskip("cryptography")
from intarsia.cli import kits as kit_commands
from intarsia.cli import main
from intarsia.cli import participant as commands
from intarsia.exceptions import FederationError, InputError, SettingError
from intarsia.federation.algorithms import algorithm_of
from intarsia.federation.certificates.authority import Authority
from intarsia.federation.certificates.enrolment import approve, join, read_request, write_request
from intarsia.federation.certificates.keys import certificate_of, fingerprint
from intarsia.federation.key_list import KEYS, OWN_KEY, in_groups, keys_of, read_keys, write_keys
from intarsia.federation.kit_folder import STARTUP, install, write_study
from intarsia.federation.kit_readme import write_readme
from intarsia.federation.secure import FileVault
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study, make_secure, read_study, smallest_quorum
from intarsia.privacy.secure.group import Group
from intarsia.privacy.secure.identity import safety_number

NAMES = ("a", "b", "c")
STUDY = Study("heart", NAMES, n_clusters=2, settings={"random_state": 0}, secure_sums=True)
HEAD = "name = 's'\nsecure_sums = true\n"


def make_kit(kit, study, name, credentials):
    """A kit as the engine's adapter makes it, as far as these tests need it."""
    for folder in ("local", STARTUP):
        (kit / folder).mkdir(parents=True)
    (kit / STARTUP / "fed_client.json").write_text(json.dumps({"client": {"fqsn": name}}))
    (kit / "local" / "resources.json").write_text("{}")
    install(kit, credentials)
    write_settings(kit / "local", LocalSettings(id_column="patient"))
    write_study(kit, study)


def joined(folder, authority, name, *, again=False, asked="joining", kit=None):
    """From the request to the kit of a participant that makes its own key."""
    signer = Authority.read(authority)
    request, _ = write_request(STUDY, name, folder / f"{name}-{asked}")
    approve(read_request(request, STUDY, signer, again=again), STUDY, authority, signer, folder / f"{name}.json")
    join(folder / f"{name}.json", folder / f"{name}-{asked}", kit or folder / name, make_kit)
    return kit or folder / name


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An authority and three kits, made once: keys take their time."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "authority").mkdir()
    Authority.create(STUDY.name).write(folder / "authority")
    write_study(folder / "authority", STUDY)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None]
    for name in NAMES:
        kit = joined(folder, folder / "authority", name)
        table = pl.DataFrame({"patient": [f"p{n}" for n in range(40)], "x": values[:, 0], "y": values[:, 1]})
        table.write_csv(kit / "data.csv")
    return folder


@pytest.fixture
def authority(made, tmp_path):
    shutil.copytree(made / "authority", tmp_path / "authority")
    return tmp_path / "authority"


@pytest.fixture
def kits(made, tmp_path):
    return {name: shutil.copytree(made / name, tmp_path / name) for name in NAMES}


@pytest.fixture
def listed(tmp_path, authority, kits):
    """The coordinator's list of keys."""
    write_keys(tmp_path / KEYS, Authority.read(authority).keys(STUDY))
    return tmp_path / KEYS


@pytest.fixture
def intarsia(capsys, monkeypatch):
    """A command, and what it says; a site that would start is noted in its kit instead."""
    started = []
    for module in (commands, kit_commands):
        monkeypatch.setattr(module, "engine", lambda: None)
    monkeypatch.setattr(commands, "check_certificates", lambda _: None)
    monkeypatch.setattr(commands, "become", lambda *_: started.append(True))

    def run(*words, rc=0):
        with pytest.raises(SystemExit) as end:
            main(list(map(str, words)))
        said = capsys.readouterr()
        assert end.value.code == rc, said.err
        return " ".join((said.out if rc == 0 else said.err).split())

    run.started = started
    return run


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("participants = ['a', 'b']", "needs 3 to 200 participants: in a sum over two, each .* Got 2"),
        (f"participants = {[f'p{n}' for n in range(201)]}", "Got 201"),
        ("participants = ['a', 'b', 'c']\nmethod = 'one_shot'", "needs method = 'federated'.*rounds = 1"),
        ("participants = ['a', 'b', 'c']\nquorum = 2", "quorum must be at least 3 of 3 .* Got 2"),
        ("participants = ['a', 'b', 'c', 'd']\nquorum = 2", "quorum must be at least 3 of 4"),
        ("participants = ['a', 'b', 'safety_number']", "'safety_number'"),
        ("participants = ['a', 'b', 'c']\nmin_holders = 2", "unknown settings: 'min_holders'"),
    ],
)
def test_a_study_that_secure_sums_cannot_protect_is_refused(text, why, tmp_path):
    (tmp_path / "study.toml").write_text(HEAD + text)
    with pytest.raises(SettingError, match=why):
        read_study(tmp_path / "study.toml")


def test_a_secure_study_is_read_and_its_quorum_is_more_than_two_thirds(tmp_path):
    (tmp_path / "study.toml").write_text(HEAD + "participants = ['a', 'b', 'c', 'd']\nquorum = 3")
    assert read_study(tmp_path / "study.toml").secure_sums
    assert [smallest_quorum(n) for n in (3, 4, 6, 10, 50)] == [3, 3, 5, 7, 34]
    for n in range(3, 201):
        assert smallest_quorum(n) == Group.of("run", [f"p{i}" for i in range(n)], 1).threshold
    assert not Study("s", ("a",)).secure_sums
    with pytest.raises(SettingError, match="secure_sums must stand at the top"):
        algorithm_of(replace(STUDY, secure_sums=False, settings={"secure_sums": True}))


def test_the_algorithm_of_a_secure_study_is_secure():
    _, described = algorithm_of(replace(STUDY, settings={"min_holders": 3}))
    assert (described["secure_sums"], described["min_holders"]) == (True, 3)
    assert algorithm_of(replace(STUDY, secure_sums=False))[1]["secure_sums"] is False


def test_a_study_is_made_secure_in_its_file_which_participants_get(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("# ours\nname = 's'\nparticipants = ['a', 'b', 'c']\n[settings]\nrandom_state = 0\n")
    assert make_secure(path) == read_study(path) == make_secure(path)
    assert path.read_text().startswith("secure_sums = true\n# ours\n")
    assert path.read_text().count("secure_sums") == 1
    path.write_text("name = 's'\nparticipants = ['a', 'b', 'c']\nsecure_sums = false\n")
    with pytest.raises(SettingError, match="says secure_sums = false"):
        make_secure(path)
    path.write_text("name = 's'\nparticipants = ['a', 'b']\n")
    with pytest.raises(SettingError, match="needs 3 to 200 participants"):
        make_secure(path)
    assert "secure_sums" not in path.read_text()


def forget_approval(authority, name):
    signer = Authority.read(authority)
    del signer.signed[name]
    signer.write_signed(authority)


def test_the_list_has_every_participant_with_a_key_of_its_own_and_one_number(tmp_path, authority, kits, intarsia):
    forget_approval(authority, "c")
    target = tmp_path / "out.json"
    said = intarsia("federation", "keys", "--authority", authority, "-o", target, rc=1)
    assert "1 participant(s) were not approved with keys of their own yet: 'c'" in said
    assert not target.exists()
    shutil.rmtree(kits["c"])
    joined(tmp_path, authority, "c")
    said = intarsia("federation", "keys", "--authority", authority, "-o", target)
    keys = read_keys(target)
    assert f"safety number: {safety_number(keys)} " in said
    for name, kit in kits.items():
        own = fingerprint(certificate_of((kit / STARTUP / "client.crt").read_bytes()).public_key())
        assert in_groups(keys[name]) == own == json.loads(target.read_text())[name]
        assert own in said
    write_study(authority, replace(STUDY, secure_sums=False))
    assert "has no secure sums" in intarsia("federation", "keys", "--authority", authority, "-o", target, rc=1)


def test_a_key_that_the_coordinator_made_is_in_no_list(tmp_path, authority):
    signer = Authority.read(authority)
    assert set(signer.keys(STUDY)) == set(NAMES)
    signer.credentials(STUDY, "c")
    signer.write_signed(authority)
    with pytest.raises(FederationError, match="'c'"):
        Authority.read(authority).keys(STUDY)


def test_a_kit_whose_key_was_made_by_the_coordinator_is_refused(tmp_path, authority, kits, listed):
    assert keys_of(kits["a"], listed) == read_keys(listed)
    signer = Authority.read(authority)
    make_kit(tmp_path / "made", STUDY, "a", signer.credentials(STUDY, "a"))
    with pytest.raises(SettingError, match="was not made by its own participant.*join-request study.toml --name a"):
        keys_of(tmp_path / "made", listed)
    shutil.copy(kits["a"] / OWN_KEY, tmp_path / "made")  # which is about another key
    with pytest.raises(SettingError, match="was not made by its own participant"):
        keys_of(tmp_path / "made", listed)
    install(kits["b"], signer.credentials(STUDY, "b"))  # a new key for a kit that was joined
    with pytest.raises(SettingError, match="was not made by its own participant"):
        keys_of(kits["b"], listed)


def test_only_a_kit_of_a_secure_study_says_who_made_its_key(tmp_path, authority):
    plain = replace(STUDY, secure_sums=False)
    forget_approval(authority, "a")
    signer = Authority.read(authority)
    request, _ = write_request(plain, "a", tmp_path / "joining")
    approve(read_request(request, plain, signer), plain, authority, signer, tmp_path / "a.json")
    join(tmp_path / "a.json", tmp_path / "joining", tmp_path / "kit", make_kit)
    assert not (tmp_path / "kit" / OWN_KEY).exists()
    assert keys_of(tmp_path / "kit") is None
    with pytest.raises(SettingError, match="--keys is for a study with secure_sums"):
        keys_of(tmp_path / "kit", tmp_path / "keys.json")


def test_a_list_of_other_participants_or_with_another_key_of_ones_own_is_refused(tmp_path, kits, listed):
    keys = read_keys(listed)
    other = tmp_path / "other.json"
    for changed, why in (
        ({**keys, "d": "0" * 64}, "unknown: 'd'"),
        ({name: keys[name] for name in "ab"}, "missing: 'c'"),
        ({**keys, "a": "0" * 64}, f"another key for 'a' than this kit: 0000 .* instead of {in_groups(keys['a'])}"),
        ({**keys, "b": keys["a"]}, "the same key for 'a', 'b'"),
    ):
        write_keys(other, changed)
        with pytest.raises(SettingError, match=why):
            keys_of(kits["a"], other)
    for text in ("", "[]", '{"a": 3}', "[" * 90_000):
        other.write_text(text)
        with pytest.raises(InputError, match="is not a list of keys"):
            keys_of(kits["a"], other)
    other.write_text('{"a": "12"}')
    with pytest.raises(InputError, match="fingerprint of participant 'a' must have 64"):
        keys_of(kits["a"], other)
    with pytest.raises(InputError, match="cannot be read"):
        keys_of(kits["a"], tmp_path / "nothing.json")
    other.write_text(json.dumps({name: in_groups(digits).upper().replace(" ", ":") for name, digits in keys.items()}))
    assert keys_of(kits["a"], other) == keys


def test_a_renewed_key_needs_a_new_list(tmp_path, authority, kits, listed):
    joined(tmp_path, authority, "a", again=True, asked="again", kit=kits["a"])
    with pytest.raises(SettingError, match="another key for 'a' .* after a renewal all participants need a new list"):
        keys_of(kits["a"], listed)
    write_keys(listed, Authority.read(authority).keys(STUDY))
    assert set(keys_of(kits["a"], listed)) == set(NAMES)


def test_a_study_that_was_changed_in_the_kit_is_checked_again(kits, listed):
    write_study(kits["a"], replace(STUDY, quorum=2))
    with pytest.raises(SettingError, match="quorum must be at least 3 of 3"):
        keys_of(kits["a"], listed)


def words(kit, *more):
    return ("--kit", kit, "--table", kit / "data.csv", *more)


def fill_in(form):
    text = form.read_text().replace('agreed_by = ""', 'agreed_by = "Dr. Who"')
    form.write_text(text.replace('\non = ""', '\non = "2026-11-15"'))


def test_the_form_lists_all_keys_and_consent_ends_when_one_changes(tmp_path, authority, kits, listed, intarsia):
    kit, form, keys = kits["a"], tmp_path / "form.toml", read_keys(listed)
    said = intarsia("participant", "preview", *words(kit, "--keys", listed, "--form", form))
    assert f"safety number: {safety_number(keys)} Compare it with the other participants by phone" in said
    assert not (kit / KEYS).exists()  # a preview changes nothing
    text = form.read_text()
    assert tomllib.loads(text)["keys"] == {"safety_number": safety_number(keys)} | {
        name: in_groups(digits) for name, digits in keys.items()
    }
    assert "by phone or in person" in text
    assert tomllib.loads(text)["requests"]["method"] == "federated"
    fill_in(form)
    assert "has no list of the participants' keys yet. Hint: --keys" in intarsia(
        "participant", "serve", *words(kit, "--consent", form), rc=1
    )
    intarsia("participant", "serve", *words(kit, "--keys", listed, "--consent", form))
    assert read_keys(kit / KEYS) == keys
    intarsia("participant", "serve", *words(kit, "--consent", kit / "consent.toml"))  # as after a restart
    assert len(intarsia.started) == 2

    joined(tmp_path, authority, "b", again=True, asked="again", kit=kits["b"])
    changed = tmp_path / "changed.json"
    write_keys(changed, Authority.read(authority).keys(STUDY))
    said = intarsia("participant", "serve", *words(kit, "--keys", changed, "--consent", form), rc=1)
    assert f"[keys] b: agreed '{in_groups(keys['b'])}', now '{in_groups(read_keys(changed)['b'])}'" in said
    assert "[keys] safety_number: agreed" in said
    assert read_keys(kit / KEYS) == keys  # only a list that was agreed to is kept
    assert len(intarsia.started) == 2


def test_a_site_without_a_list_says_what_to_do(kits, intarsia):
    for command in ("preview", "serve"):
        said = intarsia("participant", command, *words(kits["a"]), rc=1)
        assert "the study 'heart' has secure sums, and" in said
        assert "has no list of the participants' keys yet. Hint: --keys keys.json" in said
    assert "--keys needs a study" in intarsia(
        "participant", "preview", "--table", kits["a"] / "data.csv", "--keys", "keys.json", rc=1
    )


def test_the_kits_of_a_secure_study_say_which_commands_to_type(tmp_path):
    texts = {}
    for study in (STUDY, replace(STUDY, secure_sums=False)):
        for name in ("a", "authority"):
            write_readme(tmp_path, study, name)
            texts[name, study.secure_sums] = (tmp_path / "README.md").read_text()
            assert max(map(len, texts[name, study.secure_sums].splitlines())) <= 125
    assert "preview --kit kit/ --table data.csv --id COLUMN --keys keys.json " in texts["a", True]
    assert "own_key.json" in texts["a", True]
    assert "intarsia federation keys --authority authority/ -o keys.json" in texts["authority", True]
    assert not any("keys.json" in texts[name, False] for name in ("a", "authority"))


def test_a_vault_survives_is_read_by_its_owner_only_and_forgets(tmp_path):
    vault = FileVault(tmp_path / "run.vault")
    assert vault.load() is None
    for secret in (b"one", b"two" * 1000):
        vault.store(secret)
        assert FileVault(tmp_path / "run.vault").load() == secret
        assert (tmp_path / "run.vault").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["run.vault"]
    vault.forget()
    assert vault.load() is None
    vault.forget()
    (tmp_path / "run.vault").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        vault.load()


@pytest.mark.skipif(os.name != "posix", reason="no locks")
def test_one_process_at_a_time_has_a_vault(tmp_path):
    vault, order = FileVault(tmp_path / "run.vault"), []

    def wait():
        with FileVault(tmp_path / "run.vault").locked():
            order.append("second")

    with vault.locked():
        other = threading.Thread(target=wait)
        other.start()
        other.join(0.2)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
