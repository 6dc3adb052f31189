"""Every code block of the README and the documentation runs, and prints what stands below it.

A page is run from top to bottom in a folder of its own: ``python`` blocks share their names, a ``text`` block right
after one is what it prints, and lines of ``bash`` blocks that begin with ``softboost`` are run too. Run this file to
write what is printed now into the pages.
"""

import contextlib
import importlib.util
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from softboost import cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
FETCHED = re.compile(r'<(?:script|img)[^>]*src="https?:|<link rel="stylesheet"[^>]*href="https?:')
LONG = ("softboost benchmark", "softboost reproduce", "softboost completion")
OPTIONAL = (
    "torch",
    "river",
    "mlforecast",
    "lightgbm",
    "polars",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "shap",
    "fugue",
    "fastapi",
)


@dataclass
class Block:
    language: str
    text: str
    line: int
    start: int  # of the text, in the page
    expected: "Block | None" = None


def blocks_of(page):
    """Code blocks of a page, each with the block of its output where there is one."""
    source = page.read_text(encoding="utf-8")
    found = [
        Block(m.group(1), m.group(2), source[: m.start()].count("\n") + 1, m.start(2)) for m in BLOCK.finditer(source)
    ]
    for first, second in itertools.pairwise(found):
        between = source[first.start + len(first.text) : second.start]
        if second.language == "text" and between.count("\n") <= 3:
            first.expected = second
    return [block for block in found if block.language in ("python", "bash")]


def missing_packages(blocks):
    """Optional packages that a page imports and that are not installed."""
    code = "\n".join(block.text for block in blocks)
    return [
        name
        for name in OPTIONAL
        if re.search(rf"^\s*(?:import|from) {name}\b", code, re.MULTILINE) and importlib.util.find_spec(name) is None
    ]


def run_block(page, block, names):
    """Run a block and return what it prints."""
    out = io.StringIO()
    if block.language == "python":
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(out):
            exec(code, names)
        return out.getvalue()
    for line in block.text.replace("\\\n", " ").splitlines():
        command = line.split("  #")[0].strip()
        if command.startswith("softboost ") and not command.startswith(LONG):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
                status = cli.main(shlex.split(command)[1:])
            assert status == 0, f"{page.name}: {command}: {err.getvalue()}"
    return out.getvalue()


def alike(shown, printed):
    """Same words; numbers with a fraction within a tenth, as they move a little from machine to machine.

    In a line that tells what was chosen, shares and rounds may differ too.
    """
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    shown, printed = (re.sub(r"^.*\bchose\b.*$", "", text, flags=re.MULTILINE) for text in (shown, printed))
    for a, b in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True):
        if "." not in a + b and a != b:
            return False
        if abs(float(a) - float(b)) > 0.1 * max(abs(float(a)), abs(float(b)), 0.01):
            return False
    return True


@pytest.fixture
def quiet_plots(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page, tmp_path, monkeypatch, quiet_plots):
    blocks = blocks_of(page)
    missing = missing_packages(blocks)
    if missing:
        pytest.skip(f"{page.name} needs {', '.join(missing)}, not installed")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in blocks:
        printed = run_block(page, block, names)
        if block.expected is not None:
            assert alike(block.expected.text, printed), f"{page.name}, line {block.line} prints:\n{printed}"


def test_readme_is_one_screen_and_names_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 70
    assert "make run" in text
    assert "make test" in text
    (block,) = [b for b in blocks_of(ROOT / "README.md") if b.language == "python"]
    assert len([line for line in block.text.splitlines() if line.strip()]) <= 10
    assert block.expected is not None


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} links to {target}"


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    method = (tmp_path / "method.html").read_text(encoding="utf-8")
    assert "<math" in method
    assert "arithmatex" not in method
    for page in tmp_path.glob("*.html"):  # nothing is fetched from elsewhere
        assert not FETCHED.search(page.read_text(encoding="utf-8")), page.name


def refresh(page, folder):
    """Write what the blocks of a page print into it."""
    os.chdir(folder)
    source, names, shift = page.read_text(encoding="utf-8"), {"__name__": "__main__"}, 0
    for block in blocks_of(page):
        printed = run_block(page, block, names)
        if block.expected is not None:
            start = block.expected.start + shift
            old = block.expected.text
            new = re.sub(r"[ \t]+$", "", printed, flags=re.MULTILINE)
            source = source[:start] + new + source[start + len(old) :]
            shift += len(new) - len(old)
    page.write_text(source, encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    os.environ["MPLBACKEND"] = "Agg"
    wanted = [Path(arg).resolve() for arg in sys.argv[1:]] or PAGES
    for page in wanted:
        if not missing_packages(blocks_of(page)):
            with tempfile.TemporaryDirectory() as folder:
                refresh(page, folder)
