"""Checks the locked test environment without the network: ``make audit``.

1. Every version in ``test.txt`` has a SHA-256 hash in ``hashes.txt``, and nothing else has one. (The hash of torch
   depends on the platform.)
2. The installed packages have the locked versions, and their requirements are met by each other.
3. If the package ``safety-db`` is installed, no locked version is in its list of known vulnerabilities. The list ends
   in 2021; the job of CI that asks the network (``make audit-online``) knows the later ones.

``python constraints/audit.py --write`` writes ``hashes.txt`` from a report of ``pip install --dry-run --report``.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
ELSEWHERE = {"torch"}  # from an index of its own, whose builds differ by platform


def locked() -> dict[str, str]:
    """Locked versions by canonical name."""
    lines = [line.strip() for line in (FOLDER / "test.txt").read_text().splitlines()]
    pairs = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def hashed() -> dict[str, str]:
    """Versions in ``hashes.txt`` by canonical name."""
    lines = (FOLDER / "hashes.txt").read_text().splitlines()
    pairs = [line.split(" --hash=sha256:")[0].split("==") for line in lines if " --hash=sha256:" in line]
    return {canonicalize_name(name): version for name, version in pairs}


def write_hashes() -> None:
    """Ask pip for the file of each locked version that suits this platform, without installing it."""
    wanted = [f"{name}=={version}" for name, version in locked().items() if name not in ELSEWHERE]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--report", str(report)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *wanted], check=True)
        found = json.loads(report.read_text())["install"]
    write_report(found)


def write_report(found: list[dict[str, dict[str, dict[str, dict[str, str]]]]]) -> None:
    """Write ``hashes.txt`` from the entries of a report."""
    lines = ["# Hashes of the files of test.txt for Linux on x86-64. Written by `make lock`."]
    for one in sorted(found, key=lambda one: canonicalize_name(str(one["metadata"]["name"]))):
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        lines.append(f"{name}=={version} --hash=sha256:{one['download_info']['archive_info']['hashes']['sha256']}")
    (FOLDER / "hashes.txt").write_text("\n".join(lines) + "\n")


def problems() -> list[str]:
    """All findings, in words."""
    versions, found = locked(), []
    hashes = hashed()
    for name in sorted((versions.keys() | hashes.keys()) - ELSEWHERE):
        if versions.get(name) != hashes.get(name):
            found.append(f"{name}: locked {versions.get(name)}, hashed {hashes.get(name)}; run make lock")
    for name, version in versions.items():
        found += _installed_problems(name, version)
    return found + _known_vulnerabilities(versions)


def _installed_problems(name: str, version: str) -> list[str]:
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return []  # an extra that is not in this environment
    own = installed.version.split("+")[0]
    found = [] if own == version else [f"{name}: locked {version}, installed {own}; run make test"]
    for text in installed.requires or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            other = distribution(requirement.name).version
        except PackageNotFoundError:
            found.append(f"{name} requires {requirement.name}, which is not installed")
            continue
        if not requirement.specifier.contains(other, prereleases=True):
            found.append(f"{name} requires {requirement}, installed is {other}")
    return found


def _known_vulnerabilities(versions: dict[str, str]) -> list[str]:
    package = importlib.util.find_spec("safety_db")
    if package is None or package.origin is None:
        return []
    known = json.loads((Path(package.origin).parent / "insecure_full.json").read_text())
    return [
        f"{name} {version}: {entry['advisory'][:200]}"
        for name, version in versions.items()
        for entry in known.get(name, [])
        if any(SpecifierSet(spec).contains(version, prereleases=True) for spec in entry["specs"])
    ]


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write_hashes()
    findings = problems()
    print("\n".join(findings) or f"{len(locked())} locked packages: hashes, versions and requirements are consistent")
    sys.exit(bool(findings))
