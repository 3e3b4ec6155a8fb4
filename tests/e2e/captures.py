"""A federation in clear text whose every byte is seen: a test build of the kits, and a tap between sites and server.

FLARE's kits can say ``connection_security: clear``; ours never do. Here the project file is changed on its way to FLARE's
provisioning, and sites and analyst dial the tap. The scheme is plain TCP, because web sockets mask what clients send.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import threading

import msgspec

from intarsia.protocol import decode_reply, decode_request
from tests.e2e.federations import ENVIRONMENT, INTARSIA, Federation, free_port

_INIT = """
import json, subprocess, sys
from pathlib import Path

real = subprocess.run

def run(command, **more):
    if "provision" in command:
        described = Path(command[command.index("-p") + 1])
        project = json.loads(described.read_text())
        for party in project["participants"]:
            party["connection_security"] = "clear"
            if party["type"] != "server":
                party["connect_to"] = {"host": "localhost", "port": int(sys.argv[1])}
        for builder in project["builders"]:
            if "static_file" in builder["path"]:
                builder["args"]["scheme"] = "tcp"
        described.write_text(json.dumps(project))
    return real(command, **more)

subprocess.run = run
from intarsia.cli import main
main(sys.argv[2:])
"""
_SERVE = """
import sys
from intarsia.federation.flare import kit

real = kit.command_of

def command_of(*given):
    command, environment = real(*given)
    return command, environment | {"PYTHONPATH": sys.argv[1], "HURT": sys.argv[2]}

kit.command_of = command_of
from intarsia.cli import main
main(sys.argv[3:])
"""
_BEGIN = re.compile(rb"(?:[\x81-\x8f]|\xde..)\xa4type[\xa0-\xbf]((?:query|reply)\.[a-z_]+)", re.DOTALL)
ANY_TAG = re.compile(rb"\xa4type[\xa0-\xbf]((?:query|reply)[.\w]*)")


class Tap:
    """Passes everything on in both directions, and keeps it, by connection and direction."""

    def __init__(self, port, target):
        self._target, self._kept = target, []
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
                    far.settimeout(None)
                except OSError:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        kept = []
        self._kept.append(kept)
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                kept.append(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)  # whoever reads from it ends, too
        source.close()

    def close(self):
        self._listening.close()

    @property
    def streams(self):
        return [b"".join(kept) for kept in list(self._kept)]


class Overheard(Federation):
    """A federation in clear text, through a tap; ``hurt`` says where a site's job process fails, by site."""

    def __init__(self, folder, tables, *arguments, **named):
        self.hurt = {}
        self._port = free_port()
        super().__init__(folder, tables, *arguments, **named)
        said = (folder / "study.toml").read_text()
        self.tap = Tap(self._port, int(re.search(r"port = (\d+)", said).group(1)))

    def __exit__(self, *_):
        super().__exit__(*_)
        self.tap.close()

    def make_kits(self):
        command = [sys.executable, "-c", _INIT, str(self._port), "federation", "init", "study.toml", "-o", "kits"]
        subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)

    def words(self, name):
        words = super().words(name)
        if name not in self.hurt:
            return words
        return [sys.executable, "-c", _SERVE, str(self.folder / "hurt"), self.hurt[name], *words[len(INTARSIA) :]]


def messages_in(stream):
    """Our messages in a stream, as bytes: FLARE carries each as one MessagePack string of bytes."""
    for found in _BEGIN.finditer(stream):
        at = found.start()
        for head, width in ((b"\xc4", 1), (b"\xc5", 2), (b"\xc6", 4)):
            if stream[at - width - 1 : at - width] == head:
                raw = stream[at : at + int.from_bytes(stream[at - width : at], "big")]
                with contextlib.suppress(msgspec.DecodeError):
                    if msgspec.msgpack.decode(raw).get("type", "").encode() == found.group(1):
                        yield raw
                        break


def decoded(raw):
    """One of the closed list, or a ProtocolError."""
    return (decode_request if msgspec.msgpack.decode(raw)["type"].startswith("query.") else decode_reply)(raw)
