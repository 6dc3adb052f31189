"""``python -m softboost._paper``: the same as ``softboost reproduce``."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
