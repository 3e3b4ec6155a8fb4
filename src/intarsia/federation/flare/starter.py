"""Start the engine's server or site, with a limit on the size of one message from outside.

The engine's configuration (:data:`LIMITS`, in every kit) limits messages that come in pieces, and those that we send. One
piece may hold 2 GiB, a constant of its network driver, which is lowered here. A piece that announces more is refused by its
first bytes, before memory is reserved for it. Connections are TLS 1.3. The server also stops counting a killed site as
connected after :data:`GONE_AFTER` seconds instead of ten minutes.
"""

from __future__ import annotations

import runpy
import sys

from intarsia.federation.flare import engine

LIMIT = 256 * 1024 * 1024  # bytes
LIMITS = {"max_message_size": LIMIT, "streaming_max_blob_size": LIMIT}
GONE_AFTER = 45.0  # seconds without a heartbeat; a site sends one every ten
MODULES = {"server": engine.SERVER_MODULE, "site": engine.SITE_MODULE}


def limit_pieces() -> None:
    """Lower the size of one piece of a message in the engine's network driver."""
    from nvflare.fuel.f3.drivers import aio_http_driver

    aio_http_driver.MAX_FRAME_SIZE = LIMIT


def forget_sooner() -> None:
    """Shorten the time after which the server takes a silent site for disconnected."""
    from nvflare.private.fed.server import fed_server

    fed_server.BaseServer.heart_beat_timeout = property(lambda _: GONE_AFTER, lambda *_: None)


def main() -> None:
    """Run ``python -m intarsia.federation.flare.starter server|site …``, with the engine's own arguments."""
    which, *arguments = sys.argv[1:]
    engine.check_engine()
    limit_pieces()
    engine.speak_tls_1_3()
    if which == "server":
        forget_sooner()
    else:
        engine.lock_site()
    sys.argv = [MODULES[which], *arguments]
    runpy.run_module(MODULES[which], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
