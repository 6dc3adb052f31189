"""The audit of the locked packages that needs no network."""

import importlib.util
import json
from pathlib import Path

import pytest

CONSTRAINTS = Path(__file__).parents[1] / "constraints"


@pytest.fixture(name="audit")
def audit_of_a_copy(tmp_path):
    """The audit with a lock of two packages in a folder of its own."""
    spec = importlib.util.spec_from_file_location("audit", CONSTRAINTS / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.FOLDER = tmp_path
    (tmp_path / "test.txt").write_text("# lock\nno-such-package==1.0\nUnknown_Other==2.0\n")
    hashes = "no-such-package==1.0 --hash=sha256:00\nunknown-other==2.0 --hash=sha256:11\n"
    (tmp_path / "hashes.txt").write_text(hashes)
    return module


def test_every_locked_version_has_a_hash(audit):
    audit.FOLDER = CONSTRAINTS
    assert audit.hashed() == {name: v for name, v in audit.locked().items() if name not in audit.ELSEWHERE}


def test_consistent_lock_has_no_problems(audit):
    assert audit.problems() == []


def test_other_version_or_missing_hash_is_found(audit, tmp_path):
    (tmp_path / "hashes.txt").write_text("no-such-package==1.1 --hash=sha256:00\n")
    first, second = audit.problems()
    assert first == "no-such-package: locked 1.0, hashed 1.1; run make lock"
    assert second == "unknown-other: locked 2.0, hashed None; run make lock"


def test_installed_version_that_differs_is_found(audit):
    assert any("numpy: locked 0.1, installed" in text for text in audit._installed_problems("numpy", "0.1"))


def test_known_vulnerabilities_come_from_the_list(audit, tmp_path, monkeypatch):
    package = tmp_path / "safety_db"
    package.mkdir()
    (package / "__init__.py").write_text("")
    entry = {"advisory": "a hole", "specs": ["<1.5", ">=3,<4"]}
    (package / "insecure_full.json").write_text(json.dumps({"no-such-package": [entry], "unknown-other": [entry]}))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert audit.problems() == ["no-such-package 1.0: a hole"]
