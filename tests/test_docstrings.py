"""Every public object says what each of its parameters does, and shows itself at work.

Docstrings are in the numpy style. The examples are run as doctests by the same test run; here it is checked that they
are there, that no parameter is missing or left over, and that defaults are told.
"""

import contextlib
import doctest
import importlib.util
import inspect
import io
import pkgutil
import re
import subprocess
import sys

import pytest

import helpers
import softboost
from softboost import datasets

MODULES = [
    "softboost",
    "softboost.datasets",
    "softboost.forecast",
    "softboost.forecast.lag_transforms",
    "softboost.forecast.target_transforms",
    "softboost.inspection",
    "softboost.losses",
    "softboost.online",
    "softboost.presets",
    "softboost.report",
    "softboost.transforms",
    "softboost.weak_learners",
]
HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
SEE = re.compile(r"As in :\w+:`[.~]?([\w.]+)`")


def names_of(module):
    """Public names of a module; those that need PyTorch are left out of ``__all__``."""
    if module.__name__ == "softboost.transforms" and importlib.util.find_spec("torch") is not None:
        return dir(module)
    return module.__all__


def public_objects():
    """Qualified name and object of everything public, each once."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in names_of(module):
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and id(thing) not in found:
                found[id(thing)] = f"{module_name}.{name}", thing
    return dict(found.values())


OBJECTS = public_objects()


def methods_of(thing):
    """Public methods written in this package, with their names."""
    if not inspect.isclass(thing):
        return
    for name, method in inspect.getmembers(thing, inspect.isfunction):
        if not name.startswith("_") and method.__module__.startswith("softboost"):
            yield name, method


def everything_callable():
    """Public objects and their methods, each once."""
    found = {id(thing): (name, thing) for name, thing in OBJECTS.items()}
    for name, thing in OBJECTS.items():
        for method_name, method in methods_of(thing):
            found.setdefault(id(method), (f"{name}.{method_name}", method))
    return dict(found.values())


CALLABLES = everything_callable()


def sections(doc):
    """Sections of a docstring by heading; what stands before the first has none."""
    parts = HEADING.split(inspect.cleandoc(doc or ""))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section):
    """Parameters of a section: name to its type and its description."""
    out, names = {}, []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            head, _, kind = line.partition(" : ")
            names = [name.strip() for name in head.split(",")]
            out.update({name: [kind, ""] for name in names})
        else:
            for name in names:
                out[name][1] += " " + line.strip()
    return {name.lstrip("*"): (kind.strip(), text.strip()) for name, (kind, text) in out.items()}


def parameters_of(thing):
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return {}
    parameters = inspect.signature(thing).parameters
    return {name: p for name, p in parameters.items() if name != "self" and not name.startswith("_")}


def documented(thing):
    found = sections(thing.__doc__)
    out = entries(found.get("Parameters", ""))
    if inspect.isclass(thing) and not out:  # a result, which users are given and do not make
        out = entries(found.get("Attributes", ""))
    return out


def documented_above(name):
    """The method of a base class that documents the parameters of a method that fills it in, else the method itself."""
    owner, _, method_name = name.rpartition(".")
    for base in OBJECTS[owner].__mro__:
        method = base.__dict__.get(method_name)
        if method is not None and "Parameters" in sections(method.__doc__):
            return method
    return CALLABLES[name]


@pytest.mark.parametrize("name", OBJECTS)
def test_public_objects_show_an_example(name):
    assert ">>> " in sections(OBJECTS[name].__doc__).get("Examples", ""), f"{name} has no section Examples with >>>"


@pytest.mark.parametrize("name", CALLABLES)
def test_parameters_are_documented(name):
    thing = CALLABLES[name] if name in OBJECTS else documented_above(name)
    taken, told = parameters_of(thing), documented(thing)
    assert set(taken) - set(told) == set(), f"{name} does not document {sorted(set(taken) - set(told))}"
    if "Parameters" in sections(thing.__doc__):
        assert set(told) - set(taken) == set(), f"{name} documents {sorted(set(told) - set(taken))}, which it lacks"
    for parameter, (kind, text) in told.items():
        where = f"{name}: {parameter}"
        assert text, f"{where} has no description"
        variable = taken.get(parameter)
        if variable is None or variable.kind in (variable.VAR_POSITIONAL, variable.VAR_KEYWORD):
            continue
        if SEE.search(text) and not kind:
            continue  # documented where it points
        assert kind, f"{where} has no type"
        if variable.default is not variable.empty:
            assert "default" in kind, f"{where} does not tell its default, {variable.default!r}"


SKIPPED = [name for name, thing in CALLABLES.items() if "+SKIP" in (thing.__doc__ or "")]


@pytest.mark.parametrize("name", SKIPPED)
def test_examples_that_need_files_or_extras_run_where_these_are(name, monkeypatch):
    def offline(source, looked, advice):
        raise datasets.DataUnavailableError(f"{source.file} is not in {looked}")

    monkeypatch.setattr(datasets, "_downloaded", offline)
    names = dict(vars(inspect.getmodule(CALLABLES[name])))
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for example in doctest.DocTestParser().get_examples(CALLABLES[name].__doc__):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                exec(compile(example.source, name, "single"), names)
            except (datasets.DataUnavailableError, ImportError) as error:
                pytest.skip(str(error))
        assert checker.check_output(example.want, out.getvalue(), flags), out.getvalue()


def test_versions_and_modules_are_public():
    assert softboost.__version__
    for name in MODULES:
        assert importlib.import_module(name).__doc__, name


def test_submodules_need_no_import_of_their_own():
    """``import softboost`` is enough, and loads no forecaster before it is used."""
    code = (
        "import sys, softboost\n"
        "assert 'softboost.forecast' not in sys.modules\n"
        "for name in dir(softboost):\n"
        "    getattr(softboost, name)\n"
        "print(softboost.forecast.Forecaster.__name__, softboost.inspection.__name__)\n"
        "softboost.nothing\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=helpers.PATIENCE)
    assert done.stdout == "Forecaster softboost.inspection\n"
    assert "module 'softboost' has no attribute 'nothing'" in done.stderr


def test_every_public_module_is_a_submodule():
    found = [m.name for m in pkgutil.iter_modules(softboost.__path__) if not m.name.startswith("_")]
    assert [name for name in dir(softboost) if name in found] == sorted(found)
