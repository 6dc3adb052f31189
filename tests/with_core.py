"""Runs pytest or the fuzzing harness with another build of the extension.

python tests/with_core.py build/sanitized/_core.so pytest tests/test_kernels.py
python tests/with_core.py build/sanitized/_core.so fuzz --files 3000
"""

from __future__ import annotations

import importlib.util
import sys


def use(path: str) -> None:
    """Install the extension in sys.modules before it is imported."""
    spec = importlib.util.spec_from_file_location("softboost._core", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def main() -> int:
    _, path, what, *args = sys.argv
    use(path)
    from softboost import _kernels

    assert _kernels._core.__file__ == path, "another build of the extension is in use"
    if what == "pytest":
        import pytest

        return int(pytest.main(args))
    from fuzz import harness

    sys.argv = ["harness.py", *args]
    return harness.main()


if __name__ == "__main__":
    sys.exit(main())
