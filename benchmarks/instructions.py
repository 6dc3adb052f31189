"""Counts the instructions of the kernels under callgrind: a figure of speed that a busy machine does not move.

    python benchmarks/instructions.py            compare with benchmarks/instructions/baseline.json
    python benchmarks/instructions.py --update   count anew and write the baseline

Counts are those of the AVX2 build, which callgrind can run, and hold for one compiler.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "src" / "cpp"
BASELINE = HERE / "instructions" / "baseline.json"
KERNELS = ("bin_columns", "fit_greedy", "boost_greedy", "fit_joint", "fit_joint_q", "predict", "linear_models")
ALLOWED = 1.05  # counts may rise by this much before the baseline has to be written anew
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


def build(folder: Path) -> Path:
    """Compile the kernels as the package does, and the small program that calls them."""
    program = folder / "count"
    kernels = folder / "kernels.o"
    isa = ["-march=x86-64-v3", "-DSB_ISA=avx2"]
    subprocess.run(["g++", *FLAGS, *isa, "-c", str(SOURCES / "kernels.cpp"), "-o", str(kernels)], check=True)
    driver = HERE / "instructions" / "count.cpp"
    subprocess.run(["g++", *FLAGS, str(driver), str(kernels), "-o", str(program)], check=True)
    return program


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
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
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
    args = parser.parse_args()
    absent = missing()
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
