"""M4 quarterly: ``python benchmarks/m4.py --data-dir DIR``; see softboost._benchmarks.m4."""

from softboost._benchmarks.m4 import main

if __name__ == "__main__":
    raise SystemExit(main())
