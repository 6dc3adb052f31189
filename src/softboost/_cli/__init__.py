"""The ``softboost`` command: the frame in :mod:`main`, and one module a command."""
