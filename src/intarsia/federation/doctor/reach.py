"""The way to the server: its name, its port, TLS with the study's certificates, and its clock."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from intarsia.federation.doctor.finding import Finding, State
from intarsia.federation.kit_folder import ROOT, SERVER, STARTUP, name_of
from intarsia.federation.study_file import Study

NAME, PORT, TLS, CLOCK = "server name", "server port", "TLS", "clock"
PATIENCE = 8.0  # seconds for each step
MOST_SKEW = 300.0  # seconds that two clocks may differ; certificates are valid from an hour before they were made
_MOST_ANSWER = 4096
_UNREACHABLE = "the server cannot be reached"
_REFUSED = (
    "It may be excluded (intarsia federation admit), expired by the server's clock, or of another authority: ask the "
    "coordinator."
)
_OTHER_AUTHORITY = (
    "If a proxy inspects TLS, exempt this address: it must forward TCP. Else this kit is of another study or of older keys: "
    "ask the coordinator for a new one."
)


def way_to_server(study: Study, kit: Path, now: datetime) -> Iterator[Finding]:
    """Go to the server step by step; what comes after a fault is skipped."""
    addresses, finding = _resolve(study)
    yield finding
    if not addresses:
        yield from _skipped(_UNREACHABLE, PORT, TLS)
        return
    if name_of(kit) == SERVER and not _is_used(study.port):
        yield Finding(PORT, State.FINE, f"port {study.port} is free; the server does not run on this machine now")
        yield from _skipped("the server does not run", TLS)
        return
    try:
        connection = socket.create_connection((study.host, study.port), timeout=PATIENCE)
    except OSError as error:
        yield _no_connection(study, addresses, error)
        yield from _skipped(_UNREACHABLE, TLS)
        return
    yield Finding(PORT, State.FINE, f"{study.host}:{study.port} accepts connections")
    with connection:
        yield from _secure(study, kit, connection, now)


def _skipped(why: str, *about: str) -> Iterator[Finding]:
    for one in about:
        yield Finding(one, State.SKIPPED, f"not examined: {why}")


def _resolve(study: Study) -> tuple[list[str], Finding]:
    try:
        found = socket.getaddrinfo(study.host, study.port, type=socket.SOCK_STREAM)
    except OSError:
        remedy = f"Ask for a DNS entry, or add a line '<address> {study.host}' to the hosts file of this machine."
        return [], Finding(NAME, State.FAULT, f"{study.host!r} has no address on this machine", remedy)
    addresses = sorted({str(one[4][0]) for one in found})
    return addresses, Finding(NAME, State.FINE, f"{study.host!r} is {', '.join(addresses)}")


def _is_used(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was used a moment ago is free
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def _no_connection(study: Study, addresses: list[str], error: OSError) -> Finding:
    where = f"{study.host}:{study.port} ({', '.join(addresses)})"
    if isinstance(error, ConnectionRefusedError):
        seen, remedy = f"{where} refuses connections", "Start the server there (intarsia federation start)"
    elif isinstance(error, TimeoutError):
        seen, remedy = f"{where} does not answer within {PATIENCE:.0f} s", "Start the server there"
    else:
        seen, remedy = f"{where} cannot be reached: {error.strerror}", "Check the network of this machine"
    return Finding(
        PORT, State.FAULT, seen, f"{remedy}, and let outgoing TCP to port {study.port} through the firewall."
    )


def _context(kit: Path) -> ssl.SSLContext:
    """Return TLS 1.3 with the certificates of a kit; the name of the server is compared afterwards."""
    which = "server" if name_of(kit) == SERVER else "client"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(kit / STARTUP / ROOT)
    context.load_cert_chain(kit / STARTUP / f"{which}.crt", kit / STARTUP / f"{which}.key")
    return context


def _secure(study: Study, kit: Path, connection: socket.socket, now: datetime) -> Iterator[Finding]:
    try:
        context = _context(kit)
    except (OSError, ssl.SSLError):
        yield from _skipped(
            "the certificates of this kit cannot be used", TLS
        )  # what is wrong with the certificates is a finding of its own
        return
    connection.settimeout(PATIENCE)
    try:
        secured = context.wrap_socket(connection, server_hostname=study.host)
    except OSError as error:
        yield Finding(TLS, State.FAULT, *_why_not_secure(study, error))
        return
    with secured:
        seen = f"{secured.version()} with a certificate of this study's authority"
        try:
            answer = _ask(secured, study.host)
        except OSError:
            yield Finding(TLS, State.FAULT, "the server refused this kit's certificate", _REFUSED)
            return
    yield Finding(TLS, State.FINE, seen)
    yield from _compare_clocks(answer, now)


def _ask(secured: ssl.SSLSocket, host: str) -> bytes:
    """Return the server's answer to a request that it does not know: a refused certificate shows only here."""
    secured.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = secured.recv(_MOST_ANSWER)
    if not answer:
        raise ssl.SSLError("the server closed the connection")
    return answer


def _why_not_secure(study: Study, error: OSError) -> tuple[str, str]:
    """Return what was seen and what to do, by what the TLS library says."""
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = str(error.verify_message)
        if "expired" in detail or "not yet valid" in detail:
            return (
                f"the server's certificate: {detail}",
                "Check the clock here; else renew it: intarsia federation renew.",
            )
        return f"the server's certificate was not signed by this study's authority ({detail})", _OTHER_AUTHORITY
    if isinstance(error, TimeoutError):
        return f"no TLS answer within {PATIENCE:.0f} s", f"Check that port {study.port} is the federation's server."
    return (
        f"whatever listens on port {study.port} does not speak TLS 1.3 ({type(error).__name__})",
        "Check host and port of the study, and that no proxy stands between: it must forward TCP as it is.",
    )


def _compare_clocks(answer: bytes, now: datetime) -> Iterator[Finding]:
    for line in answer.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() != "date":
            continue
        with suppress(TypeError, ValueError):
            there = parsedate_to_datetime(value.strip())
            skew = (now - (there if there.tzinfo else there.replace(tzinfo=UTC))).total_seconds()
            seen = f"this clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the server's"
            if abs(skew) > MOST_SKEW:
                yield Finding(CLOCK, State.FAULT, seen, "Set the clock of the machine that is wrong: use NTP.")
            else:
                yield Finding(CLOCK, State.FINE, seen)
            return
