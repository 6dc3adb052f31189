"""The layers on the pages match the import contract, and every file that a page names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "softboost"
FOLDERS = (ROOT, PACKAGE, ROOT / "tests", ROOT / "src" / "cpp")
PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "docs/method.md")
NAMED_FILE = re.compile(r"`([\w./-]*(?:/|\.py|\.hpp|\.cpp|\.toml|\.md))`")
NAME_IN_FILE = re.compile(r"`([\w.]+)` (?:in|of) `([\w./]+\.py)`")


def layers() -> list[list[str]]:
    """Names on each line of the import contract, from high to low."""
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return [line.split(" | ") for line in next(c for c in contracts if c["type"] == "layers")["layers"]]


def read(page: str) -> str:
    path = ROOT / page
    if not path.exists():
        pytest.skip(f"{page} is not part of this source tree")
    return path.read_text(encoding="utf-8")


def shown_layers(page: str) -> list[list[str]]:
    """The same from the list on a page, whose lines are names, at least two spaces, and a description."""
    text = read(page)
    block = re.search(r"^## Layers\n.*?(?:```|<pre class=\"layers\">)\n(.*?)(?:```|</pre>)", text, re.S | re.M)
    assert block is not None
    lines = [line.strip("│ ") for line in block[1].splitlines() if re.match(r"│? ?\w", line)]
    return [re.split(r", | · ", re.split(r" {2,}", line)[0]) for line in lines]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_page_shows_the_layers_of_the_import_contract(page):
    assert shown_layers(page) == layers()


def test_every_module_is_in_one_layer():
    found = {path.stem for path in PACKAGE.glob("*.py*") if path.stem != "__init__"}
    found |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    named = [name for line in layers() for name in line]
    assert len(set(named)) == len(named)
    assert set(named) == found


def test_no_constant_of_the_models_is_written_twice():
    """Streams, partial_fit and the batch learner share their constants: equal names with equal values are one name."""
    written = {}
    for folder in ("_boost", "_choice", "_data", "_linear", "_model", "online"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.Constant, ast.Tuple, ast.BinOp)):
                    continue
                target = node.targets[0]
                pairs = (
                    zip(target.elts, node.value.elts, strict=True)
                    if isinstance(target, ast.Tuple)
                    else [(target, node.value)]
                )
                for name, value in pairs:
                    written.setdefault((ast.unparse(name), ast.unparse(value)), []).append(path.name)
    assert {key: files for key, files in written.items() if len(files) > 1 and key[0] != "Array"} == {}


def find(name: str) -> Path | None:
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), None)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    names = set(NAMED_FILE.findall(read(page))) - {"site/", "build/"}
    assert names
    assert not [name for name in names if find(name) is None]


def defined_names(path: Path) -> set[str]:
    """Functions, classes, methods and constants of a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/method.md"])
def test_names_that_a_page_gives_are_in_their_files(page):
    pairs = NAME_IN_FILE.findall(read(page))
    assert pairs
    for name, file in pairs:
        path = find(file)
        assert path is not None, file
        assert set(name.split(".")) <= defined_names(path), f"{name} is not in {file}"


def test_forms_of_a_tree_are_defined_where_the_page_says():
    table = read("docs/architecture.md").split("## Forms of a tree")[1]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) >= 8
    for name, where in rows:
        named = re.findall(r"`(?:(\w+)` in `)?([\w./]+\.(?:py|hpp))`", where)
        assert named, where
        for other, file in named:
            path = find(file.removeprefix("src/cpp/"))
            assert path is not None, file
            form = other or re.search(r"`(\w+)`", name)[1]
            assert re.search(rf"^(class|struct|def) {form}\b", path.read_text(encoding="utf-8"), re.M), (form, file)
