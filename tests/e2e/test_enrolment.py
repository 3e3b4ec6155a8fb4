"""Keys that never leave a site, certificates that end, and requests that nobody should sign."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

pytest.importorskip("nvflare")
pytest.importorskip("psutil")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from sklearn.mixture import GaussianMixture

from intarsia import cluster
from intarsia.cli import main
from intarsia.exceptions import FederationError, InputError, IntarsiaError, SettingError
from intarsia.federation.certificates.authority import Authority, renew
from intarsia.federation.certificates.enrolment import Approval, approve, join, read_request, write_request
from intarsia.federation.certificates.keys import certificate_of
from intarsia.federation.certificates.lifetimes import check_lifetimes, lifetimes
from intarsia.federation.flare.kit import make_again, make_kit, write_kits
from intarsia.federation.kit_folder import study_of
from intarsia.federation.site_settings import read_settings
from intarsia.federation.study_file import Server, Study
from intarsia.privacy.policy import ReleasePolicy
from tests.e2e.federations import PATIENCE, Federation
from tests.e2e.test_federation import assert_same

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
STUDY = Study(
    "heart", ("hungary", "cleveland"), n_clusters=2, release=ReleasePolicy(8), settings={"metric": "manhattan"}
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "kits"
    write_kits(STUDY, folder, keys_stay=True)
    return folder


@pytest.fixture
def kits(made, tmp_path):
    shutil.copytree(made, tmp_path / "kits")
    return tmp_path / "kits"


def written(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def joined(kits, name="hungary", again=False, asked="joining", kit="kit"):
    """From the request to the kit, by whoever does each."""
    here, authority = kits.parent, Authority.read(kits / "authority")
    request, seen = write_request(STUDY, name, here / asked)
    said = read_request(request, STUDY, authority, again=again)
    assert said.fingerprint == seen
    approve(said, STUDY, kits / "authority", authority, here / f"{name}.json")
    return join(here / f"{name}.json", here / asked, here / kit, make_kit)


def test_with_keys_that_stay_the_coordinator_makes_none_for_participants(kits):
    assert sorted(path.name for path in kits.iterdir()) == ["analyst", "authority", "server"]
    assert {path for path in written(kits) if path.endswith(".key")} == {
        "analyst/startup/client.key",
        "authority/authority.key",
        "server/startup/server.key",
    }
    assert sum(content.count(b"PRIVATE KEY") for content in written(kits).values()) == 6  # where each begins and ends
    for path in kits.rglob("*.key"):
        assert path.stat().st_mode & 0o077 == 0
    assert all(kit.stat().st_mode & 0o077 == 0 for kit in kits.iterdir())


def test_a_kit_that_was_joined_is_the_one_that_would_have_been_made(kits):
    write_kits(STUDY, kits.parent / "ordinary")
    mine, theirs = written(joined(kits).kit), written(kits.parent / "ordinary" / "hungary")
    own = {"startup/client.key", "startup/client.crt", "startup/rootCA.pem"}
    assert set(mine) == set(theirs)
    assert {path for path in mine if mine[path] != theirs[path]} == own
    assert read_settings(kits.parent / "kit" / "local").release == ReleasePolicy(8)
    assert read_settings(kits.parent / "kit" / "local").metric == "manhattan"
    assert (kits.parent / "kit" / "startup" / "client.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["server", "analyst"])
def test_a_lost_kit_of_the_server_or_the_analyst_is_made_again(kits, name):
    """It has all files of the lost one, but for the key; whoever trusts the authority trusts it."""
    shutil.move(kits / name, kits / "lost")
    until = make_again(kits / name, name, kits / "authority")
    mine, theirs = written(kits / name), written(kits / "lost")
    which = "server" if name == "server" else "client"
    assert set(mine) == set(theirs)
    changed = {path for path in mine if mine[path] != theirs[path]} - {"local/resources.json"}  # written at each start
    assert changed == {f"startup/{which}.key", f"startup/{which}.crt"}
    assert {life.name for life in lifetimes(kits / name)} == {life.name for life in lifetimes(kits / "lost")}
    assert json.loads((kits / "authority" / "approved.json").read_text())[name]["until"] == f"{until:%Y-%m-%d}"
    with pytest.raises(SettingError, match="already exists"):
        make_again(kits / name, name, kits / "authority")
    with pytest.raises(SettingError, match="join-request there, approve --again here"):
        make_again(kits / "hungary", "hungary", kits / "authority")


def test_every_kit_says_where_it_belongs_and_what_the_firewall_lets_through(kits):
    joined(kits)
    for kit, said in (
        (kits / "server", "allow incoming TCP connections on port 8102"),
        (kits / "analyst", "allow outgoing TCP connections to localhost, port 8102"),
        (kits / "authority", "off the network"),
        (kits.parent / "kit", "Where: on the machine of 'hungary'"),
    ):
        text = (kit / "README.md").read_text()
        assert said in text
        assert "chmod -R go=" in text
        assert "{" not in text
        assert max(map(len, text.splitlines())) <= 125
        assert not list(kit.rglob("*.sh"))  # which would start it without asking


def request_of(path, key, *attributes):
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    signed = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return path


def test_names_in_a_certificate_are_the_study_s_whatever_the_request_says(kits, tmp_path):
    key, authority = rsa.generate_private_key(65537, 2048), Authority.read(kits / "authority")
    names = (
        (NameOID.COMMON_NAME, "hungary"),
        (NameOID.ORGANIZATION_NAME, "heart"),
        (NameOID.UNSTRUCTURED_NAME, "lead"),
    )
    request = request_of(tmp_path / "r.pem", key, *names)
    approve(read_request(request, STUDY, authority), STUDY, kits / "authority", authority, tmp_path / "a.json")
    said = msgspec.json.decode((tmp_path / "a.json").read_bytes(), type=Approval)
    subject = certificate_of(said.certificate.encode()).subject
    assert subject.rfc4514_string() == "O=hungary,CN=hungary"


@pytest.mark.parametrize(
    ("names", "key", "why"),
    [
        (("canada", "heart"), None, "not a participant of 'heart'"),
        (("server", "heart"), None, "not a participant"),
        (("analyst@heart.study", "heart"), None, "not a participant"),
        (("hungary", "lungs"), None, "for another study"),
        (("hungary", "heart"), rsa.generate_private_key(65537, 3072), "RSA key with 2048 bits"),
        (("hungary", "heart"), ec.generate_private_key(ec.SECP256R1()), "RSA key with 2048 bits"),
    ],
)
def test_requests_that_nobody_should_sign_are_refused(names, key, why, kits, tmp_path):
    authority = Authority.read(kits / "authority")
    attributes = zip((NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME), names, strict=True)
    request = request_of(tmp_path / "r.pem", key or rsa.generate_private_key(65537, 2048), *attributes)
    with pytest.raises(FederationError, match=why):
        read_request(request, STUDY, authority)


def test_a_request_that_was_changed_or_is_none_is_refused(kits, tmp_path):
    authority = Authority.read(kits / "authority")
    request, _ = write_request(STUDY, "hungary", tmp_path / "asked")
    raw = x509.load_pem_x509_csr(request.read_bytes()).public_bytes(serialization.Encoding.DER)
    changed = x509.load_der_x509_csr(raw.replace(b"hungary", b"hungarx"))
    (tmp_path / "changed.pem").write_bytes(changed.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(FederationError, match="not signed with its own key"):
        read_request(tmp_path / "changed.pem", STUDY, authority)
    for content in (b"", b"rows", b"-----BEGIN CERTIFICATE REQUEST-----\n", bytes(200_000)):
        (tmp_path / "r.pem").write_bytes(content)
        with pytest.raises(InputError):
            read_request(tmp_path / "r.pem", STUDY, authority)
    with pytest.raises(SettingError, match="not a participant of 'heart'. Participants: 'hungary', 'cleveland'"):
        write_request(STUDY, "canada", tmp_path / "other")
    with pytest.raises(SettingError, match="already exists"):
        write_request(STUDY, "hungary", tmp_path / "asked")


def test_a_name_is_approved_once_unless_it_is_a_renewal_and_a_key_has_one_name(kits, tmp_path):
    joined(kits)
    authority = Authority.read(kits / "authority")
    with pytest.raises(FederationError, match="'hungary' already has a certificate, valid until 20.*--again"):
        read_request(tmp_path / "joining" / "hungary.request.pem", STUDY, authority)
    key = serialization.load_pem_private_key((tmp_path / "joining" / "private.key").read_bytes(), None)
    names = ((NameOID.COMMON_NAME, "cleveland"), (NameOID.ORGANIZATION_NAME, "heart"))
    with pytest.raises(FederationError, match="the key of 'hungary'"):
        read_request(request_of(tmp_path / "r.pem", key, *names), STUDY, authority)


def test_a_renewed_kit_has_another_key_and_everything_else_as_it_was(kits, tmp_path):
    kit = joined(kits).kit
    (kit / "labels.csv").write_text("mine")
    (kit / "local" / "intarsia.toml").write_text("[release]\nmin_cluster_size = 20\n")
    before = written(kit)
    joined(kits, again=True, asked="again")
    after = written(kit)
    assert {path for path in after if after[path] != before.get(path)} == {"startup/client.key", "startup/client.crt"}
    with pytest.raises(SettingError, match="not the kit of 'cleveland'"):
        joined(kits, "cleveland", asked="third")
    write_kits(STUDY, tmp_path / "others", keys_stay=True)
    shutil.rmtree(kits)
    (tmp_path / "others").rename(kits)
    with pytest.raises(FederationError, match="made by another authority"):
        joined(kits, asked="fourth")


def test_an_answer_that_is_not_to_what_was_asked_is_refused(kits, tmp_path):
    joined(kits)
    said = msgspec.json.decode((tmp_path / "hungary.json").read_bytes(), type=Approval)
    write_request(STUDY, "hungary", tmp_path / "another")
    other = Authority.create("heart")

    def refused(answer, why, asked="joining", **more):
        (tmp_path / "answer.json").write_bytes(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))
        with pytest.raises(IntarsiaError, match=why):
            join(tmp_path / "answer.json", tmp_path / asked, tmp_path / "new", make_kit, **more)
        assert not (tmp_path / "new").exists()

    changed = msgspec.structs.replace
    refused(said, "for another key", asked="another")
    refused(changed(said, authority=other.certificate.decode()), "not signed by the authority")
    refused(changed(said, name="cleveland"), "another name than the request")
    refused(
        changed(said, study=replace(STUDY, release=ReleasePolicy(1), server=Server("x.org"))),
        "differs from that of the request in 'server', 'release'",
    )
    refused(said, "another authority", authority="00 11")
    refused(b"{}", "is not the reply of a coordinator")
    refused(changed(said, certificate="x"), "not valid PEM")


def test_certificates_last_and_say_when_they_end(kits, capsys):
    ends = {held.file: held.ends for held in lifetimes(kits / "server")}
    now = datetime.now(UTC)
    assert ends["startup/server.crt"] - now > timedelta(days=729)
    assert ends["startup/rootCA.pem"] - now > timedelta(days=3649)
    assert check_lifetimes(kits / "server") == []
    assert check_lifetimes(kits / "authority") == []
    (soon,) = check_lifetimes(kits / "server", now + timedelta(days=710))
    assert "'localhost' (startup/server.crt) expires in 19 days, on 20" in soon
    assert "intarsia federation renew" in soon
    with pytest.raises(FederationError, match="'localhost' .startup/server.crt. expired on 20"):
        check_lifetimes(kits / "server", now + timedelta(days=731))
    with pytest.raises(FederationError, match="clock"):
        check_lifetimes(kits / "server", now - timedelta(days=1))
    (soon,) = check_lifetimes(joined(kits).kit, now + timedelta(days=710))
    assert "join-request --kit" in soon
    with pytest.raises(SettingError, match="no certificate"):
        lifetimes(kits)
    with pytest.raises(SystemExit) as end:
        main(["federation", "certificates", "--kit", str(kits / "analyst"), "--json"])
    assert end.value.code == 0
    assert [held["name"] for held in json.loads(capsys.readouterr().out)] == ["analyst@heart.study", "heart"]


def test_nothing_starts_with_a_certificate_that_has_ended(kits, capsys):
    expired = -timedelta(minutes=30)
    for name in ("server", "analyst"):
        renew(kits / name, study_of(kits / name), kits / "authority", expired)
    for words in (("start", "--kit", "server"), ("run", "--kit", "analyst"), ("status", "--kit", "analyst")):
        with pytest.raises(SystemExit) as end:
            main(["federation", *words[:2], str(kits / words[2])])
        assert end.value.code == 1
        assert "expired on" in capsys.readouterr().err


class WithMixtures(Federation):
    """Sites whose settings name a clusterer that is not in sklearn.cluster."""

    more = ("--local", "GaussianMixture(n_components=2)")


def test_a_site_whose_key_never_left_takes_part_beside_an_ordinary_one(tmp_path):
    """By the commands that users type; what reaches the coordinator is searched for the key."""
    rng = np.random.default_rng(0)
    tables = {
        name: pl.DataFrame({c: rng.normal(size=40) + 9 * (np.arange(40) % 2) for c in columns})
        for name, columns in {"a": "xy", "b": "yz"}.items()
    }
    federation = WithMixtures(tmp_path, tables)
    shutil.rmtree(tmp_path / "kits" / "a")
    coordinator, site = tmp_path / "coordinator", tmp_path / "site"
    coordinator.mkdir()
    asked = federation.command("federation", "join-request", "study.toml", "--name", "a", "-o", "site", check=True)
    seen = asked.stdout.partition("in person: ")[2].splitlines()[0]
    shutil.copy(site / "a.request.pem", coordinator)
    words = ("federation", "approve", "coordinator/a.request.pem", "--authority", "kits/authority", "-o", "coordinator")
    assert "--again" in federation.command(*words, "--fingerprint", seen).stderr
    assert "another fingerprint" in federation.command(*words, "--again", "--fingerprint", "0000").stderr
    assert "must be confirmed" in federation.command(*words, "--again").stderr
    federation.command(*words, "--again", "--fingerprint", seen, check=True)
    federation.command(
        "federation", "join", "coordinator/a.approved.json", "--request", "site", "-o", "kits/a", check=True
    )
    key = (site / "private.key").read_bytes()
    assert key == (tmp_path / "kits" / "a" / "startup" / "client.key").read_bytes()
    body = b"".join(key.splitlines()[1:-1])
    numbers = serialization.load_pem_private_key(key, None).private_numbers()
    secrets = [body[:60], *(str(n).encode() for n in (numbers.p, numbers.q, numbers.d))]
    reached = [*written(coordinator).values()]
    reached += [
        content for name in ("server", "analyst", "authority") for content in written(tmp_path / "kits" / name).values()
    ]
    assert len(reached) > 20
    for content in reached:
        assert not any(secret in content.replace(b"\n", b"").replace(b"\\n", b"") for secret in secrets)
    for name in ("server", "analyst"):  # lost, and made anew: b's kit and a's fit them
        shutil.rmtree(tmp_path / "kits" / name)
        renew_lost = ("federation", "renew", "--lost", name, "--kit", f"kits/{name}", "--authority", "kits/authority")
        federation.command(*renew_lost, check=True)
    with federation:
        process = federation.begin()
        assert process.wait(PATIENCE) == 0, federation.log()
        local = GaussianMixture(n_components=2)
        assert_same(federation, cluster(tables, 2, local=local, random_state=0, release=ReleasePolicy()))
