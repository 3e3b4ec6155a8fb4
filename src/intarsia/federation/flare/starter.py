"""Start the server or a site of the engine, with a limit on what one message from outside may hold.

The engine's configuration (:data:`LIMITS`, in every kit) limits messages that come in pieces, and those that we send. One
piece may hold 2 GiB, which is fixed in its driver; so the driver is told before it starts. A piece that says that it is
larger is refused by its first bytes, before there is memory for it. A site that was killed counts as connected for ten
minutes, unless the server is told otherwise, too.
"""

from __future__ import annotations

import runpy
import sys

from intarsia.exceptions import FederationError
from intarsia.federation.flare.locks import lock_site

LIMIT = 256 * 1024 * 1024  # bytes
LIMITS = {"max_message_size": LIMIT, "streaming_max_blob_size": LIMIT}
GONE_AFTER = 45.0  # seconds without a heartbeat, of which a site has one in ten
MODULES = {
    "server": "nvflare.private.fed.app.server.server_train",
    "site": "nvflare.private.fed.app.client.client_train",
}


def limit_pieces() -> None:
    """Tell the driver."""
    from nvflare.fuel.f3.drivers import aio_http_driver

    if not hasattr(aio_http_driver, "MAX_FRAME_SIZE"):
        raise FederationError("this version of nvflare is not known here. Try: pip install 'intarsia[cli,flare]'")
    aio_http_driver.MAX_FRAME_SIZE = LIMIT


def forget_sooner() -> None:
    """Tell the server how long a site that gives no sign of life counts as connected."""
    from nvflare.private.fed.server import fed_server

    fed_server.BaseServer.heart_beat_timeout = property(lambda _: GONE_AFTER, lambda *_: None)


def main() -> None:
    """``python -m intarsia.federation.flare.starter server|site …``, with the engine's own arguments."""
    which, *arguments = sys.argv[1:]
    limit_pieces()
    forget_sooner() if which == "server" else lock_site()
    sys.argv = [MODULES[which], *arguments]
    runpy.run_module(MODULES[which], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
