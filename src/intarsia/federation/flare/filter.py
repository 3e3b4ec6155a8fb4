"""The way out of a participant: only replies of our closed list pass, and each is written down before it leaves.

A site's ``privacy.json`` names this filter, so no job can do without it. Whatever it raises, only the fact leaves.
"""

from __future__ import annotations

import json
import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from nvflare.apis.filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from intarsia.exceptions import ProtocolError, ReleaseError
from intarsia.federation.flare.starter import LIMIT
from intarsia.protocol import Failure, Reply, decode_reply, encode, tag_of
from intarsia.protocol.catalogue import fields_of, rows_behind

MESSAGE, ANSWERS = "intarsia.message", "intarsia.answers"
RELEASES = "releases.jsonl"
MOST = LIMIT - 1024 * 1024  # bytes; the engine puts its own around ours


class Gate(Filter):
    """FLARE's filter of task results, as every kit of ours has it."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Decode, check, write down; nothing else in the result goes on. The rules were those of the participant's gate."""
        data = shareable.get(MESSAGE)
        if not isinstance(data, bytes):
            raise ProtocolError("a result is not one of our messages")
        reply = decode_reply(data)
        out = encode(reply)
        if len(out) > MOST:
            text = f"an answer of {len(out)} bytes is larger than the {MOST} that one message may hold"
            reply = Failure(error=ReleaseError.__name__, message=f"{text}. Hint: fewer columns.")
            out = encode(reply)
        kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
        write_down(kit / RELEASES, reply, out, shareable.get(ANSWERS))
        passed = Shareable()
        passed[MESSAGE] = out
        return passed


def write_down(path: Path, reply: Reply, out: bytes, answers: Any) -> None:
    """One line of JSON for a message that is about to leave; if it cannot be written, nothing leaves."""
    line = json.dumps(entry(reply, out, answers), ensure_ascii=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def entry(reply: Reply, out: bytes, answers: Any) -> dict[str, Any]:
    """What is known of a message: every field with its entries, and how few rows stand behind one of them."""
    behind = rows_behind(reply)
    fields: dict[str, dict[str, int | None]] = {}
    for held in fields_of(reply):
        if held.entries is None:
            continue
        field = fields.setdefault(held.path, {"entries": 0, "bytes": 0, "fewest_rows": behind.get(held.path)})
        field["entries"] = (field["entries"] or 0) + held.entries
        field["bytes"] = (field["bytes"] or 0) + held.n_bytes
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "message": tag_of(reply),
        "answers": answers,
        "fields": fields,
        "bytes": len(out),
        "sha256": sha256(out).hexdigest(),
    }
