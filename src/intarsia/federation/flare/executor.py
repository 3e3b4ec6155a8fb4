"""Requests into a site: bytes of one request in, bytes of one reply out. The engine's job process calls it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from traceback import format_exception

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from intarsia.exceptions import IntarsiaError, LocalAlgorithmError
from intarsia.federation.flare.engine import check_engine, lock_job
from intarsia.federation.flare.job import MESSAGE, REQUEST, TASK
from intarsia.federation.flare.starter import LIMIT
from intarsia.federation.pages import write_site_page
from intarsia.federation.site import RELEASES, Site
from intarsia.privacy.journal import Journal
from intarsia.protocol import Failure, Reply, encode

MAX_BYTES = LIMIT - 1024 * 1024  # of one reply; the engine adds its own headers


class Answering(Executor):
    """Hands each request to the participant of this site. The job only says to which run it belongs."""

    def __init__(self, run: str) -> None:
        super().__init__()
        check_engine()
        lock_job()
        self._run = run
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002
        """Return the reply to a request; the text of an exception that is not ours never leaves."""
        data = shareable.get(MESSAGE)
        if task_name != TASK or not isinstance(data, bytes):
            return make_reply(ReturnCode.BAD_TASK_DATA)
        result = Shareable()
        result[MESSAGE] = encode(self._answer(data, fl_ctx))
        result[REQUEST] = sha256(data).hexdigest()  # for the filter, which removes it
        return result

    def _answer(self, data: bytes, fl_ctx: FLContext) -> Reply:
        name, kit = fl_ctx.get_identity_name(), Path(fl_ctx.get_engine().get_workspace().get_root_dir())
        try:
            if self._site is None:
                self._site = Site(name, kit, self._run, MAX_BYTES)
            reply = self._site.answer(data)
        except IntarsiaError as error:  # about the site's own files and settings
            kind, text = type(error).__name__, f"cannot take part ({type(error).__name__}); its own log says why."
            self._log(fl_ctx)
        except Exception as error:  # noqa: BLE001
            kind, text = LocalAlgorithmError.__name__, f"failed with a {type(error).__name__}"
            self._log(fl_ctx)
        else:
            self._log_cause(fl_ctx, self._site.last_error if isinstance(reply, Failure) else None)
            return reply
        failure = Failure(error=kind, message=f"participant {name!r} {text}")
        Journal(kit / RELEASES).write_reply(failure, None)
        write_site_page(kit, name)
        return failure

    def _log_cause(self, fl_ctx: FLContext, error: BaseException | None) -> None:
        """Write why the participant answered with a failure to the site's own log, if it did."""
        if error is not None:
            text = "".join(format_exception(error))
            self.log_error(fl_ctx, f"a request was answered with a failure:\n{text}", fire_event=False)

    def _log(self, fl_ctx: FLContext) -> None:
        """Write the exception to the site's own log, not to the errors that an administrator may ask for."""
        self.log_exception(fl_ctx, "the request could not be answered", fire_event=False)
