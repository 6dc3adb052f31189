"""The kernel's own tests, and mutated files, under the address and undefined-behaviour sanitizers.

The short run of `make slow`: the extension is built once more, for the plainest instruction set and without
optimisation, into build/. The long runs are `make sanitize` and `make fuzz`. In `make test` the same tests run on the
extension as it is installed, and fewer files (test_model_file.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / f"sanitized-{sys.implementation.cache_tag}"
N_FILES = 2000


def find(tool):
    """A tool of this environment, or of the system."""
    beside = Path(sys.executable).with_name(tool)
    return str(beside) if beside.exists() else shutil.which(tool)


def runtime_libraries():
    """The sanitizer's library, which must be loaded first, and the C++ one that it watches."""
    compiler = find("g++")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("needs g++ on Linux")
    names = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    if not all(Path(name).is_absolute() for name in names):  # a bare name is one that the compiler does not have
        pytest.skip("needs g++'s libasan and libubsan")
    return compiler, f"{names[0]} {names[2]}"


def built(compiler):
    """The extension built with the sanitizers; objects are kept, so that a second run compiles nothing."""
    import fcntl

    cmake, ninja = find("cmake"), find("ninja")
    if cmake is None or ninja is None or importlib.util.find_spec("nanobind") is None:
        pytest.skip("needs cmake, ninja and nanobind")
    import nanobind

    BUILD.mkdir(parents=True, exist_ok=True)
    options = {
        "CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_CXX_COMPILER": compiler,
        "CMAKE_MAKE_PROGRAM": ninja,
        "Python_EXECUTABLE": sys.executable,
        "SOFTBOOST_SANITIZE": "ON",
        "SOFTBOOST_VARIANTS": "OFF",
        "nanobind_DIR": nanobind.cmake_dir(),
    }
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building
        run([cmake, "-S", ROOT, "-B", BUILD, "-G", "Ninja", *[f"-D{k}={v}" for k, v in options.items()]])
        run([cmake, "--build", BUILD])
    (core,) = BUILD.glob("_core*.so")
    assert b"__asan_init" in core.read_bytes()
    return core


def run(command, **environment):
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    output = done.stdout + done.stderr
    reports = [output.find(sign) for sign in ("ERROR: AddressSanitizer", "runtime error:") if sign in output]
    assert not reports, output[min(reports) :][:5000]
    assert done.returncode == 0, output[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def sanitized():
    """Run something with the sanitized extension."""
    compiler, preload = runtime_libraries()
    core = built(compiler)
    environment = {
        "LD_PRELOAD": preload,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps what it has until it ends
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # so that the sanitizer sees every block
        "PYTEST_XDIST_WORKER": "",
    }
    return lambda *args: run([sys.executable, ROOT / "tests" / "with_core.py", core, *args], **environment)


def test_tests_of_the_kernels(sanitized):
    # -s: a report comes as the process dies, when pytest can no longer hand over what it has captured
    out = sanitized("pytest", "tests/test_kernels.py", "-q", "-s", "-p", "no:xdist", "-p", "no:cacheprovider")
    assert " passed" in out
    assert "failed" not in out


def test_mutated_files(sanitized, tmp_path):
    out = sanitized("fuzz", "--files", N_FILES, "--seed", 777, "--processes", 1, "--failures", tmp_path)
    figures = json.loads(out.strip().splitlines()[-1])
    assert figures["files"] == N_FILES
    assert figures["failed"] == 0
    assert figures["accepted"] > 0.05 * N_FILES
    assert figures["rejected"] > 0.5 * N_FILES
