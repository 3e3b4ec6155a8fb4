"""Replies out of a site: a reply passes only as the bytes that the participant's journal lists.

A site's ``privacy.json`` names this filter, so that no job can do without it. If it raises, only that fact leaves.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from nvflare.apis.filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from intarsia.exceptions import ProtocolError, ReleaseError
from intarsia.federation.flare.job import MESSAGE, REQUEST
from intarsia.federation.site import RELEASES
from intarsia.privacy.journal import LEFT, Journal
from intarsia.protocol import decode_reply


class Gate(Filter):
    """FLARE's filter of task results, in every kit of a participant."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Return a result with nothing but the reply, or raise an error if the reply is not in the journal."""
        data, request = shareable.get(MESSAGE), shareable.get(REQUEST)
        if not isinstance(data, bytes):
            raise ProtocolError("a result is not a message")
        decode_reply(data)
        journal = Journal(Path(fl_ctx.get_engine().get_workspace().get_root_dir()) / RELEASES)
        listed = [entry for entry in journal.entries(LEFT) if entry.get("digest") in (request, None)]
        if not listed or listed[-1].get("sha256") != sha256(data).hexdigest():
            raise ReleaseError("a reply is not the one that the journal lists last for its request")
        passed = Shareable()
        passed[MESSAGE] = data
        return passed
