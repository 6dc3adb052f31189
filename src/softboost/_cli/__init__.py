"""The ``softboost`` command: the entry point in :mod:`main` and one module per command."""
