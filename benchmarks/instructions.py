"""Counts the instructions of the kernels under callgrind: a figure of speed that a busy machine does not move.

    python benchmarks/instructions.py            compare with benchmarks/instructions/baseline.json
    python benchmarks/instructions.py --update   count again and write the baseline
    python benchmarks/instructions.py --build    compile only, for a count to come

Counts are those of the AVX2 build, which callgrind can run, and hold for one compiler. The compiled program is kept
under build/ for as long as the sources stay the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "src" / "cpp"
DRIVER = HERE / "instructions" / "count.cpp"
BUILD = HERE.parent / "build" / "instructions"
BASELINE = HERE / "instructions" / "baseline.json"
KERNELS = ("bin_columns", "fit_greedy", "boost_greedy", "fit_joint", "fit_joint_q", "predict", "linear_models")
ALLOWED = 1.05  # factor by which counts may rise before the baseline must be updated
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-ffp-contract=fast",
    "-Wno-psabi",
    "-pthread",
]


def missing() -> str | None:
    """What is not here that counting needs."""
    for program in ("g++", "valgrind"):
        if shutil.which(program) is None:
            return program
    return None


def compiler() -> str:
    """Name and version of the compiler, which counts hang on."""
    return subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]


def build() -> Path:
    """The kernels, compiled as the package does, in a small program that calls them; kept from an earlier call."""
    texts = [path.read_bytes() for path in sorted([*SOURCES.glob("*.hpp"), SOURCES / "kernels.cpp", DRIVER])]
    key = hashlib.sha256(b"\0".join([*texts, compiler().encode(), " ".join(FLAGS).encode()])).hexdigest()[:16]
    kept = BUILD / f"count-{key}"
    if kept.exists():
        return kept
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        program, kernels = Path(folder) / "count", Path(folder) / "kernels.o"
        isa = ["-march=x86-64-v3", "-DSB_ISA=avx2"]
        subprocess.run(["g++", *FLAGS, *isa, "-c", str(SOURCES / "kernels.cpp"), "-o", str(kernels)], check=True)
        subprocess.run(["g++", *FLAGS, str(DRIVER), str(kernels), "-o", str(program)], check=True)
        for old in BUILD.glob("count-*"):
            old.unlink(missing_ok=True)
        program.replace(kept)  # in one step, as another process may build it too
    return kept


def count(program: Path, kernel: str) -> int:
    """Instructions of one call of a kernel."""
    tool = ["valgrind", "--tool=callgrind", "--toggle-collect=counted", "--callgrind-out-file=/dev/null"]
    done = subprocess.run([*tool, str(program), kernel], check=True, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind said nothing about {kernel}:\n{done.stderr}")
    return int(found[1])


def counts() -> dict[str, int]:
    """Instructions of every kernel."""
    program = build()
    return {kernel: count(program, kernel) for kernel in KERNELS}


def risen(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """Lines that name the kernels whose count rose by more than is allowed."""
    return [
        f"{kernel}: {before[kernel]:,} -> {now[kernel]:,} instructions ({now[kernel] / before[kernel] - 1:+.1%})"
        for kernel in before
        if now[kernel] > ALLOWED * before[kernel]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--build", action="store_true", help="compile only; do nothing where a tool is missing")
    args = parser.parse_args()
    absent = missing()
    if args.build:
        if absent is None:
            build()
        return 0
    if absent is not None:
        print(f"error: {absent} is not installed", file=sys.stderr)
        return 2
    now = counts()
    if args.update:
        BASELINE.write_text(json.dumps({"compiler": compiler(), "counts": now}, indent=1) + "\n", encoding="utf-8")
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    for kernel, value in now.items():
        before = baseline["counts"].get(kernel)
        print(f"{kernel:14} {value:12,}" + ("" if before is None else f"  {value / before - 1:+.1%}"))
    if baseline["compiler"] != compiler():
        print(f"the baseline is of another compiler: {baseline['compiler']}", file=sys.stderr)
        return 0
    for line in risen(now, baseline["counts"]):
        print(f"risen: {line}", file=sys.stderr)
    return 1 if risen(now, baseline["counts"]) else 0


if __name__ == "__main__":
    sys.exit(main())
