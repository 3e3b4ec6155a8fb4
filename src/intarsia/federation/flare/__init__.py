"""The adapter to NVIDIA FLARE, and the only folder that imports it. Its names are imported from their modules.

=================  =====================================================================================
``engine``         the engine's internals that we rely on, and a check that they exist
``kit``            a start-up kit for the server, the analyst and every participant, with its locks
``starter``        starts the engine, with a limit on the size of messages
``locks``          what a site refuses to answer
``executor``       requests into a participant
``filter``         replies out of a participant
``job``            what is submitted: settings, no code
``controller``     runs an algorithm at the server
``task_runtime``   the runtime: one task per request
``presence``       which sites are connected
``driver``         submits a job, waits, submits it again
``session``        the analyst's session at the server
``attendance``     which participants a job waits for
=================  =====================================================================================
"""
