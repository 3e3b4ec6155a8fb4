"""Secure sums at sites, without any network: every request meets a site that was restarted."""

from __future__ import annotations

import json
import shutil
import tomllib
import warnings

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

pytest.importorskip("cryptography")
pytest.importorskip("Crypto")
import intarsia
from intarsia import ReleasePolicy
from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.exceptions import ProtocolError, ReleaseError, SettingError
from intarsia.federation.algorithms import algorithm_of, as_json, forbidden, from_json, run_of, with_copies
from intarsia.federation.certificates.keys import KeyPair
from intarsia.federation.consent import form_of, keep, terms_of
from intarsia.federation.key_list import KEYS, keys_of, own_fingerprint, record_own_key, write_keys
from intarsia.federation.kit_folder import STARTUP, write_study
from intarsia.federation.preview import preview
from intarsia.federation.secure import credentials_of, forget_runs, vault_of
from intarsia.federation.site import RELEASES, Site
from intarsia.federation.site_settings import LocalSettings, write_settings
from intarsia.federation.study_file import Study
from intarsia.privacy.journal import LEFT, Journal
from intarsia.protocol import AskKeys, AskMasked, Masked, decode_reply, encode, tag_of
from intarsia.protocol.catalogue import exchanges
from intarsia.runtime.contract import Runtime
from intarsia.runtime.drive import drive

COLUMNS = {"a": "xy", "b": "yz", "c": "xz", "d": "xyz"}
STUDY = Study("s", tuple(COLUMNS), n_clusters=2, settings={"random_state": 0}, quorum=3, secure_sums=True)
N = 60


def table(name):
    rng = np.random.default_rng(ord(name))
    return pl.DataFrame({column: 9 * (np.arange(N) % 2) + rng.normal(size=N) for column in COLUMNS[name]})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Four kits that agree on their keys."""
    folder = tmp_path_factory.mktemp("made")
    kits = {name: folder / name for name in COLUMNS}
    for name, kit in kits.items():
        for inner in ("local", STARTUP):
            (kit / inner).mkdir(parents=True)
        table(name).write_csv(kit / "data.csv")
        (kit / STARTUP / "fed_client.json").write_text(json.dumps({"client": {"fqsn": name}}))
        (kit / STARTUP / "client.key").write_bytes(KeyPair.create().pem)
        write_study(kit, STUDY)
        record_own_key(kit)
    agree(kits)
    return copied(folder, folder)


@pytest.fixture(scope="module")
def ran(made, tmp_path_factory):
    """The same kits after a run to its end, and what was asked and told."""
    folder = tmp_path_factory.mktemp("ran")
    _, sites = run(copied(made["a"].parent, folder))
    return folder, sites


@pytest.fixture
def kits(made, tmp_path):
    return copied(made["a"].parent, tmp_path)


@pytest.fixture
def finished(ran, tmp_path):
    return copied(ran[0], tmp_path), ran[1]


def copied(source, target):
    kits = {name: target / name for name in COLUMNS}
    for name, kit in kits.items():
        if source != target:
            shutil.copytree(source / name, kit)
        write_settings(kit / "local", LocalSettings(str(kit / "data.csv")))
    return kits


def agree(kits):
    keys = {name: own_fingerprint(kit) for name, kit in kits.items()}
    for kit in kits.values():
        write_keys(kit / KEYS, keys)


class Sites(Runtime):
    """Sites that are asked by bytes, each restarted for each request; ``away(name, request)`` do not answer."""

    def __init__(self, kits, run, away=lambda *_: False):
        self._kits, self._run, self._away, self.asked, self.replies = kits, run, away, [], []

    def participants(self):
        return tuple(self._kits)

    def exchange(self, requests, on_reply=None):
        answers = {}
        for name, request in requests.items():
            if not self._away(name, request):
                answers[name] = Site(name, self._kits[name], self._run).answer(encode(request))
                self.asked.append((name, request))
                self.replies.append((name, encode(answers[name])))
                if on_reply is not None:
                    on_reply(name, answers[name], 0.0)
        return answers


def run(kits, study=STUDY, **options):
    sites = Sites(kits, run_of(study), **options)
    described = json.loads(json.dumps(as_json(with_copies(study, algorithm_of(study)[0]))))
    return drive(from_json(described, run_of(study)), sites, quorum=study.quorum), sites


def expected(study=STUDY):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return intarsia.cluster(
            {name: table(name) for name in study.participants}, 2, release=ReleasePolicy(), **study.settings
        )


def labels(kits):
    return {name: pl.read_csv(kit / "labels.csv")["cluster"].to_numpy() for name, kit in kits.items()}


def test_a_run_on_secure_sums_gives_the_labels_of_the_plain_one_and_tells_no_part(finished):
    kits, sites = finished
    for name, found in labels(kits).items():
        np.testing.assert_array_equal(found, expected().labels[name])
    left = [entry["reply"] for entry in Journal(kits["a"] / RELEASES).entries(LEFT)]
    assert left[:2] == ["reply.keys", "reply.shares"]
    assert "reply.refinement" not in left
    assert left.count("reply.masked") == left.count("reply.unmasked") >= 3
    for kit in kits.values():
        (vault,) = (kit / "intarsia").glob("*.vault")
        assert vault.stat().st_mode & 0o777 == 0o600
    again = run(kits)[1]
    assert again.replies == sites.replies  # the same requests get the same bytes


def test_a_participant_that_stops_between_two_steps_is_not_in_the_total(kits):
    outcome, sites = run(kits, away=lambda name, request: name == "d" and isinstance(request, AskMasked))
    assert not any(name == "d" and isinstance(request, AskMasked) for name, request in sites.asked)
    assert not (kits["d"] / "labels.csv").exists()
    assert outcome is not None


def test_a_sum_is_answered_once_over_restarts(finished):
    kits, sites = finished
    name, request = next((name, request) for name, request in sites.asked if isinstance(request, AskMasked))
    site = Site(name, kits[name], run_of(STUDY))
    assert isinstance(site.answer(encode(request)), Masked)
    other = replace(request, step_size=0.25 if request.step_size != 0.25 else 0.5)
    refused = Site(name, kits[name], run_of(STUDY)).answer(encode(other))
    assert refused.error == "ReleaseError"
    assert "each sum is answered once" in refused.message


def test_labels_are_written_also_if_a_site_dies_between_its_vault_and_its_files(finished):
    kits, sites = finished
    found = labels(kits)
    for name, kit in kits.items():
        (kit / "labels.csv").unlink()
        for told in (kit / "intarsia").glob("*.replies/*"):
            if isinstance(decode_reply(told.read_bytes()), Masked):
                told.unlink()
        asked = [request for asked, request in sites.asked if asked == name and isinstance(request, AskMasked)]
        before = [reply for told, reply in sites.replies if told == name and isinstance(decode_reply(reply), Masked)]
        assert encode(Site(name, kit, run_of(STUDY)).answer(encode(asked[-1]))) == before[-1]
    np.testing.assert_equal(labels(kits), found)


def test_another_run_is_refused_and_a_new_consent_form_lets_one_begin(finished):
    kits, first = finished
    with pytest.raises(ReleaseError, match=r"the job is of another run \(ffff"):
        Site("a", kits["a"], "f" * 16)
    for name, kit in kits.items():
        keep(kit, f"consent of {name}", is_new_form=True)
        assert vault_of(kit, run_of(STUDY)).load() is not None  # the first form changes nothing
        keep(kit, f"consent of {name}, given anew", is_new_form=True)
        assert vault_of(kit, run_of(STUDY)).load() is None
        assert not list((kit / "intarsia").glob("*.replies"))
    _, second = run(kits)
    assert first.replies[0] != second.replies[0]  # new keys
    for name, found in labels(kits).items():
        np.testing.assert_array_equal(found, expected().labels[name])
    forget_runs(kits["a"] / "nothing")


def test_a_coordinator_with_another_key_for_a_participant_or_other_participants_gets_nothing(kits):
    site = Site("a", kits["a"], run_of(STUDY))
    ask = AskKeys(run=run_of(STUDY), names=("a", "b", "c", "x"), n_sums=7)
    assert "'d', 'x'" in site.answer(encode(ask)).message
    (kits["b"] / STARTUP / "client.key").write_bytes(KeyPair.create().pem)
    record_own_key(kits["b"])
    with pytest.raises(SettingError, match="another key for 'b' than this kit"):
        credentials_of(kits["b"], run_of(STUDY))
    keys = {name: own_fingerprint(kit) for name, kit in kits.items()}
    write_keys(kits["b"] / KEYS, keys)  # the coordinator told b the truth, and all others nothing
    with pytest.raises((ReleaseError, ProtocolError), match="key of participant 'b' is not the one that was agreed on"):
        run(kits)


def test_a_site_without_a_list_or_with_a_key_of_the_coordinator_does_not_start(kits):
    (kits["a"] / KEYS).unlink()
    with pytest.raises(SettingError, match="has no list of the participants' keys yet"):
        Site("a", kits["a"], run_of(STUDY))
    (kits["b"] / "own_key.json").unlink()
    with pytest.raises(SettingError, match="was not made by its own participant"):
        Site("b", kits["b"], run_of(STUDY))


def test_an_algorithm_on_secure_sums_survives_the_way_to_the_server():
    algorithm = algorithm_of(replace(STUDY, settings={"min_holders": 3}))[0]
    assert (algorithm.min_holders, algorithm.quorum) == (3, 3)
    terms = algorithm.terms("a")
    assert (terms.secure_sums, terms.min_holders, terms.needed) == (True, 3, 3)
    sent = json.loads(json.dumps(as_json(algorithm)))
    assert sent["secure"] == {"min_holders": 3, "quorum": 3}
    assert from_json(sent) == algorithm
    for secure in (None, {}, {"min_holders": 1}, {"min_holders": 2, "quorum": 0}, {"min_holders": 2, "x": 1}):
        with pytest.raises(ProtocolError):
            from_json(sent | {"secure": secure})
    plain = as_json(algorithm_of(Study("s", ("a", "b"), "one_shot", 2))[0])
    with pytest.raises(ProtocolError, match="a method that has none"):
        from_json(plain | {"secure": {"min_holders": 2}})
    assert forbidden(algorithm, ReleasePolicy()) is None
    assert run_of(STUDY) != run_of(replace(STUDY, secure_sums=False)) != run_of(replace(STUDY, quorum=4))


def test_the_form_lists_every_message_of_a_secure_run_and_no_other(finished):
    kits, sites = finished
    settings = LocalSettings(str(kits["a"] / "data.csv"))
    seen = preview(settings, STUDY, "a", keys_of(kits["a"]))
    form = form_of(seen.terms, seen.messages)
    assert seen.terms["requests"]["secure_sums"] is True
    assert "Masked sums are" in form
    assert tomllib.loads(form)["leaves"]["reply.masked"]["values"] == "masked: only the total can be read"
    told = {tag_of(decode_reply(reply)) for name, reply in sites.replies if name == "a"}
    on_the_form = {tag_of(each.reply) for each in exchanges() if f'[leaves."{tag_of(each.reply)}"]' in form}
    assert told == on_the_form
    private = replace(STUDY, privacy=DifferentialPrivacy(1, bounds=dict.fromkeys("xyz", (-9, 20))))
    form = form_of((seen := preview(settings, private, "a", keys_of(kits["a"]))).terms, seen.messages)
    told = {"reply.keys", "reply.shares", "reply.masked", "reply.unmasked", "reply.sketch", "reply.labels_kept"}
    told.add("reply.model_kept")
    assert told == {tag_of(each.reply) for each in exchanges() if f'[leaves."{tag_of(each.reply)}"]' in form}
    assert "keys" not in terms_of(replace(STUDY, secure_sums=False), "a", settings, ["x"])


def test_the_form_of_a_private_study_has_two_epsilons_and_all_participants_spend_the_same(kits):
    pytest.importorskip("opendp")
    private = replace(STUDY, privacy=DifferentialPrivacy(1, bounds=dict.fromkeys("xyz", (-9, 20))))
    settings = LocalSettings(table=str(kits["a"].parent / "a.parquet"))
    terms = terms_of(private, "a", settings, list("xy"), keys_of(kits["a"]))
    agreed = tomllib.loads(form_of(terms, []))["privacy"]
    assert agreed["epsilon"] == 1
    assert agreed["epsilon_if_all_collude"] == pytest.approx(
        1.1977, abs=1e-4
    )  # 80 % of rho, and 3 times the other 20 %
    less = replace(settings, privacy=replace(settings.privacy, epsilon=0.5))
    with pytest.raises(SettingError, match="with secure sums all participants share the noise"):
        terms_of(private, "a", less, list("xy"), keys_of(kits["a"]))
