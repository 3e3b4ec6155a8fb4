"""Federations over NVIDIA FLARE: the only folder that knows it. Its names are loaded by whoever needs them.

=================  =====================================================================================
``study``          what a coordinator and everybody else agree on: ``study.toml``
``kit``            a folder for each party, with its key and its locks
``site``           a participant's own settings, and what it keeps
``gate``           the way out of a participant
``executor``       the way in
``controller``     runs an algorithm at the server
``job``            what is submitted: settings, no code
``driver``         submits, waits, submits again
=================  =====================================================================================
"""
