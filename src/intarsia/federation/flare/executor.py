"""The way into a participant: bytes of one request in, bytes of one reply out. FLARE's job process holds it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from intarsia.exceptions import IntarsiaError
from intarsia.federation.flare.engine import check_engine
from intarsia.federation.flare.filter import ANSWERS, MESSAGE
from intarsia.federation.flare.job import TASK
from intarsia.federation.flare.locks import lock_job
from intarsia.federation.site import Site
from intarsia.protocol import Failure, encode


class Answering(Executor):
    """Hands each request to the participant of this site. The job says which run it is of, and nothing else."""

    def __init__(self, run: str) -> None:
        super().__init__()
        check_engine()
        lock_job()
        self._run = run
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002
        """Answer; whatever goes wrong, no text of an exception that is not ours leaves."""
        data = shareable.get(MESSAGE)
        if task_name != TASK or not isinstance(data, bytes):
            return make_reply(ReturnCode.BAD_TASK_DATA)
        name = fl_ctx.get_identity_name()
        try:
            if self._site is None:
                kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
                self._site = Site(name, kit, self._run)
            reply = encode(self._site.answer(data))
        except IntarsiaError as error:  # about files and settings of its own, which are nobody else's business
            self._log(fl_ctx)
            text = f"participant {name!r} cannot take part ({type(error).__name__}); its own log says why."
            reply = encode(Failure(error=type(error).__name__, message=text))
        except Exception as error:  # noqa: BLE001
            self._log(fl_ctx)
            text = f"participant {name!r} failed with a {type(error).__name__}"
            reply = encode(Failure(error="LocalAlgorithmError", message=text))
        result = Shareable()
        result[MESSAGE] = reply
        asked = "" if self._site is None else self._site.asked
        result[ANSWERS] = {
            "message": asked,
            "sha256": sha256(data).hexdigest(),
        }  # for the gate's log; it goes no farther
        return result

    def _log(self, fl_ctx: FLContext) -> None:
        """Into the site's own log, and not among the errors that an administrator may ask for."""
        self.log_exception(fl_ctx, "the request could not be answered", fire_event=False)
