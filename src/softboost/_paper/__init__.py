"""The paper's experiments: every table and figure, compared with the published numbers and with simple methods.

Run them with ``softboost reproduce`` or ``python -m softboost._paper``. The settings and the published numbers are in
``config``.
"""

from .command import add_arguments, main, run_from_args

__all__ = ["add_arguments", "main", "run_from_args"]
