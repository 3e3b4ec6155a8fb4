"""Federations over NVIDIA FLARE: the only folder that knows it. Its names are loaded by whoever needs them.

=================  =====================================================================================
``study``          what a coordinator and everybody else agree on: ``study.toml``
``kit``            a folder for each party, with its locks
``keys``           the authority, certificates, and how long they last
``joining``        keys that never leave a participant
``rules``          release rules as files say them
``consent``        a form that says what would leave
``own``            a participant's own settings
``site``           a participant in its kit, and what it keeps
``starter``        starts the engine, with a limit on messages
``gate``           the way out of a participant
``executor``       the way in
``locks``          what a site's processes do not answer
``controller``     runs an algorithm at the server
``asking``         a request to everybody, and who answers
``presence``       who is there
``job``            what is submitted: settings, no code
``driver``         submits, waits, submits again
=================  =====================================================================================
"""

from __future__ import annotations

from intarsia.exceptions import FederationError


def need_engine() -> None:
    """Say what to install where the engine is missing."""
    try:
        import nvflare  # noqa: F401
    except ImportError:
        raise FederationError(
            "a federation needs nvflare, which is not installed. Try: pip install 'intarsia[cli,flare]'"
        ) from None
