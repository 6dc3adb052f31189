"""Every code block of the README and the documentation runs and prints the output shown below it.

A page is run from top to bottom in a temporary folder. ``python`` blocks share their names, and a ``text`` block after
a block is its output. Lines of ``bash`` blocks that call ``softboost`` run too; if a line ends in ``# exit code 1``,
the command must return that code, and its output is stderr. Only the options of the two commands that take minutes are
checked, and the targets and extras of ``make`` and ``pip``. Other kinds of blocks are not allowed. Run this file to
update the outputs in the pages.
"""

import contextlib
import importlib.metadata
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

import test_docstrings
from helpers import PATIENCE
from softboost._cli import main as cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
FETCHED = re.compile(r'<(?:script|img)[^>]*src="https?:|<link rel="stylesheet"[^>]*href="https?:')
LONG = ("benchmark", "reproduce")  # commands that take minutes
PRINTED_BY = re.compile(r"^The outputs on this page were printed [^.]*(?:\.\d[^.]*)*\.$", re.MULTILINE)
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
    "dask",
)


@dataclass
class Block:
    language: str
    text: str
    line: int
    start: int  # position of the text in the page
    expected: "Block | None" = None


def blocks_of(page):
    """Code blocks of a page, each with the block of its output, if there is one."""
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
    named = [name for name in OPTIONAL if re.search(rf"^\s*(?:import|from) {name}\b", code, re.MULTILINE)]
    if "dask" in named:
        named.append("fugue")  # the interface to dask
    return [name for name in named if importlib.util.find_spec(name) is None]


def run_block(page, block, names):
    """Run a block and return what it prints."""
    out = io.StringIO()
    if block.language == "python":
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(out):
            exec(code, names)
        return out.getvalue()
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.strip():
            out.write(run_line(f"{page.name}: {line}", line))
    return out.getvalue()


def run_line(where, line):
    """Run a shell line that calls softboost and return its output; check other lines."""
    command, _, comment = (part.strip() for part in line.partition(" #"))
    called = re.match(r"softboost [^>]*", command)
    if called is None:
        check_tool(where, command)
        return ""
    words = shlex.split(called.group())[1:]
    if words[0] in LONG:
        cli.build_parser(words[0]).parse_args(words)
        return ""
    expected = int(comment.removeprefix("exit code ")) if comment.startswith("exit code") else 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = cli.main(words)
    assert status == expected, f"{where}: {err.getvalue()}"
    return out.getvalue() if expected == 0 else err.getvalue()


def check_tool(where, command):
    """Check that the targets and extras in a line that calls make or pip exist."""
    if command.startswith("make "):
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert command.split()[1] in targets, where
    elif command.startswith("pip install "):
        named = {extra for listed in re.findall(r"\[([a-z,]+)\]", command) for extra in listed.split(",")}
        assert named <= set(importlib.metadata.metadata("softboost").get_all("Provides-Extra")), where
    else:
        raise AssertionError(f"{where}: neither softboost nor make nor pip")


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


def marked(page):
    """The page that starts a dask cluster takes long and may hear the engine's own warnings; no other may hear any."""
    marks = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
    return pytest.param(page, marks=marks) if page.name == "many_series.md" else page


@pytest.fixture
def quiet_plots(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", [marked(page) for page in PAGES], ids=lambda page: str(page.relative_to(ROOT)))
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_is_left_out(page):
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert {language for language, _ in blocks} <= {"python", "bash", "text"}
    outputs = [block for block in blocks_of(page) if block.expected is not None]
    assert len(outputs) == [language for language, _ in blocks].count("text"), "a text that nothing prints"


def printed_by():
    """The sentence that says which versions printed the outputs of a page: those of ``constraints/test.txt``."""
    text = (ROOT / "constraints" / "test.txt").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w-]+)==(\S+)$", text, re.MULTILINE))
    names = {"NumPy": "numpy", "SciPy": "scipy", "scikit-learn": "scikit-learn", "pandas": "pandas"}
    *most, last = [f"{name} {locked[package]}" for name, package in names.items()]
    return f"The outputs on this page were printed with {', '.join(most)} and {last}."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_with_outputs_say_which_versions_printed_them(page):
    has_outputs = any(block.expected is not None for block in blocks_of(page))
    assert PRINTED_BY.findall(page.read_text(encoding="utf-8")) == [printed_by()] * has_outputs


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


# -- the pages about the code -----------------------------------------------------------------------------------------

PACKAGE = ROOT / "src" / "softboost"
FOLDERS = (ROOT, PACKAGE, ROOT / "src" / "cpp", ROOT / "tests", ROOT / "docs")
ABOUT_CODE = [ROOT / "docs" / "architecture.md", ROOT / "docs" / "method.md"]


def code_path(word):
    """The file or folder that a page names, or None."""
    return next((folder / word for folder in FOLDERS if (folder / word).exists()), None)


@pytest.mark.parametrize("page", ABOUT_CODE, ids=lambda page: page.name)
def test_files_and_names_of_the_code_exist(page):
    text = page.read_text(encoding="utf-8")
    for word in re.findall(r"`([\w/]+(?:\.(?:py|hpp|cpp|md)|/))`", text):
        assert code_path(word), f"{page.name} names {word}, which is not there"
    for names, word in re.findall(r"((?:`[\w.]+`(?:, | and )?)+) (?:in|of) `([\w/]+\.py)`", text):
        source = code_path(word).read_text(encoding="utf-8")
        for name in re.findall(r"`[\w.]*?(\w+)`", names):
            known = re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b", source, re.MULTILINE)
            assert known, f"{page.name} looks for {name} in {word}"


def test_every_module_has_its_place_on_the_architecture_page():
    text = ABOUT_CODE[0].read_text(encoding="utf-8")
    modules = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    for path in modules:
        assert path.stem.startswith("__") or re.search(rf"(?<!\w){path.stem}(?!\w)", text), f"{path.stem} is missing"


def test_reference_and_navigation_leave_nothing_out():
    """What can be seen without building the site."""
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    entries = re.findall(r"^::: (softboost[\w.]*)$", reference, re.MULTILINE)
    for name, found in test_docstrings.OBJECTS.items():
        home = f"{found.__module__}.{found.__qualname__}"
        assert any(f"{place}.".startswith(f"{entry}.") for entry in entries for place in (name, home)), name
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    pages = set(re.findall(r": ([\w/]+\.md)$", navigation, re.MULTILINE))
    assert {page.name for page in PAGES if page.parent.name == "docs"} <= pages


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    method = (tmp_path / "method.html").read_text(encoding="utf-8")
    assert "<math" in method
    assert "arithmatex" not in method
    reference = (tmp_path / "api.html").read_text(encoding="utf-8")
    for name in test_docstrings.OBJECTS:
        last = name.rsplit(".", 1)[-1]
        assert re.search(rf'id="softboost\.[\w.]*\b{last}"', reference), f"{name} is missing"
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
    if any(block.expected is not None for block in blocks_of(page)):
        source = f"{PRINTED_BY.sub('', source).rstrip()}\n\n{printed_by()}\n"
    page.write_text(source, encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    os.environ["MPLBACKEND"] = "Agg"
    wanted = [Path(arg).resolve() for arg in sys.argv[1:]] or PAGES
    for page in wanted:
        if not missing_packages(blocks_of(page)):
            with tempfile.TemporaryDirectory() as folder:
                refresh(page, folder)
