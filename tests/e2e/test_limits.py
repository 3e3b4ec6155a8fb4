"""How much one message may hold, shown to a real server by somebody with a certificate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl

import numpy as np
import polars as pl
import pytest

pytest.importorskip("nvflare")
pytest.importorskip("psutil")

import aiohttp
import psutil

from intarsia.federation.flare.starter import LIMIT, LIMITS
from intarsia.federation.kit_folder import study_of
from tests.e2e.federations import Federation, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("default")]
MIB = 1024 * 1024


def tables(n_columns):
    rng = np.random.default_rng(0)
    return {
        name: pl.DataFrame({f"x{c}": rng.normal(size=60) + 9 * (np.arange(60) % 2) for c in range(n_columns)})
        for name in "ab"
    }


async def speak(study, startup, declared, sent):
    """Announce one piece of so many bytes, send some of it, and say how the server ends the talk."""
    context = ssl.create_default_context(cafile=startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"wss://{study.host}:{study.port}/f3", ssl=context) as web,
    ):
        transport = web._response.connection.transport
        transport.write(bytes([0x82, 0xFF]) + declared.to_bytes(8, "big") + bytes(4))  # binary, masked with zeros
        for _ in range(sent // MIB):
            transport.write(bytes(MIB))
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while (message := await web.receive()).type is aiohttp.WSMsgType.BINARY:
                pass  # the server greets whoever connects
            return message.type, message.data


def talk(federation, declared, sent):
    study = study_of(federation.folder / "kits" / "server")
    startup = federation.folder / "kits" / "a" / "startup"
    wait_until(lambda: listens(study), every=0.5)
    return asyncio.run(speak(study, startup, declared, sent))


def listens(study):
    with contextlib.suppress(OSError), socket.create_connection((study.host, study.port), timeout=10):
        return True
    return False


def test_a_piece_larger_than_the_limit_is_refused_before_there_is_memory_for_it(tmp_path):
    federation = Federation(tmp_path, tables(2))
    for name in ("server", "analyst", "a", "b"):
        assert json.loads((tmp_path / "kits" / name / "local" / "comm_config.json").read_text()) == LIMITS
    federation.start("server")
    try:
        with pytest.raises(TimeoutError):
            talk(federation, 8 * MIB, 4 * MIB)  # it waits for the rest
        before = psutil.Process(federation.running["server"].pid).memory_info().rss
        kind, code = talk(federation, 1024 * MIB, 0)
        assert (kind, code) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.MESSAGE_TOO_BIG)
        assert talk(federation, LIMIT + 1, 0)[1] == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
        after = psutil.Process(federation.running["server"].pid).memory_info().rss
        print(f"the server grew by {(after - before) / MIB:.1f} MiB")  # noqa: T201
        assert after - before < 20 * MIB
    finally:
        federation.kill("server")


def test_a_message_in_pieces_larger_than_the_limit_is_refused(tmp_path):
    """A summary of 6,000 columns is above half a megabyte; this server takes an eighth of one."""
    federation = Federation(tmp_path, tables(6000), "one_shot", deadline=20)
    (tmp_path / "kits" / "server" / "local" / "comm_config.json").write_text(
        json.dumps(LIMITS | {"streaming_max_blob_size": MIB // 8})
    )
    with federation:
        process = federation.begin()
        try:
            wait_until(lambda: "exceeds configured limit 131072" in federation.log("server"))
            assert federation.answered() == 0
        finally:
            process.kill()
            process.wait()
