"""The paper's experiments: every table and figure beside the paper's numbers and beside what simple methods give.

``softboost reproduce`` runs them, as does ``python -m softboost._paper``. Settings and the paper's own numbers are
data, in ``config``.
"""

from .command import add_arguments, main, run_from_args

__all__ = ["add_arguments", "main", "run_from_args"]
