# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""How much the flag adds to the peak memory of lowering.

    python test/bench/peak_memory.py [CASE ...] [--rounds N] [--xnnpack] [--heap]

Each lowering is a process of its own, with the flag off and on in turn. For the end of
``to_edge_transform_and_lower``, and of ``to_executorch`` after it, a row tells in KiB

- off, on: by how much the resident set's high-water mark has grown since before the
  lowering, the median over the rounds;
- on - off: the difference;
- noise: how far apart the runs with the flag off are;
- code: how much of the difference are pages of files that came in, which are those of
  torch's kernels that evaluation ran. The system may drop them at any time, and a
  process that has run the model has them already;
- largest, all: the sizes of the largest constant that is stored, and of all together;
- within: whether the difference, but for code, is at most the largest and noise.

``--heap`` counts instead what is allocated until ``to_edge_transform_and_lower`` ends:
the most bytes of tensors, and of Python objects, at once. That varies little.

Linux only: the high-water mark is reset through ``/proc``. A case is one of the tiny
models of the tests or of ``test/models/large_values.py``; all by default.
"""

import argparse
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple, Union

from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.synthesized_constants import (
    collect_reports,
    SynthesizedConstantPolicy,
)
from torch.export import export, ExportedProgram

TEST = Path(__file__).parents[1]
sys.path += [str(TEST), str(TEST / "models")]

from large_values import CASES, DEFAULT  # noqa: E402
from tensor_memory import peak_tensor_bytes  # noqa: E402
from tiny_models import make, MODELS  # noqa: E402

#: Less noise: one arena, and memory goes back to the system when it is freed.
QUIET = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 << 10),
    "MALLOC_TRIM_THRESHOLD_": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}

Flag = Union[bool, SynthesizedConstantPolicy]
Figures = Dict[str, int]


# --- In the process that lowers -----------------------------------------------------


def exported(name: str) -> "Tuple[ExportedProgram, SynthesizedConstantPolicy]":
    """The program of a case, and the policy that stands for the flag being on."""
    if name in MODELS:
        return export(*make(name)), DEFAULT
    module, inputs, policy = CASES[name]()
    return export(module, inputs), policy


def lowering(program: ExportedProgram, flag: Flag, xnnpack: bool) -> Callable[[], Any]:
    """What is measured: a call that lowers."""
    partitioner: Any = None
    if xnnpack:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
            XnnpackPartitioner,
        )

        partitioner = [XnnpackPartitioner()]
    config = EdgeCompileConfig(lift_synthesized_constants=flag)
    return lambda: to_edge_transform_and_lower(
        program, partitioner=partitioner, compile_config=config
    )


def resident() -> Figures:
    """KiB of the resident set: its high-water mark, and what of it are files' pages."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {k: int(fields[k].split()[0]) for k in ("VmHWM", "RssFile")}


def growth_of_resident_set(lower: Callable[[], Any]) -> Figures:
    """Lowers and emits; returns KiB."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = resident()
    edge = lower()
    lowered = resident()
    edge.to_executorch()
    emitted = resident()
    return {
        "lowered": lowered["VmHWM"] - before["VmHWM"],
        "emitted": emitted["VmHWM"] - before["VmHWM"],
        "lowered code": lowered["RssFile"] - before["RssFile"],
        "emitted code": emitted["RssFile"] - before["RssFile"],
    }


def growth_of_python(lower: Callable[[], Any]) -> Figures:
    """Lowers; returns the peak bytes of Python objects."""
    gc.collect()
    tracemalloc.start()
    lower()
    return {"bytes": tracemalloc.get_traced_memory()[1]}


def growth_of_tensors(lower: Callable[[], Any]) -> Figures:
    """Lowers; returns the peak bytes of tensors."""
    return {"bytes": peak_tensor_bytes(lower)[0]}


MEASURES = {
    "resident": growth_of_resident_set,
    "python": growth_of_python,
    "tensors": growth_of_tensors,
}


def child(name: str, what: str, on: bool, xnnpack: bool) -> None:
    """Measures one lowering and prints the figures as JSON."""
    program, policy = exported(name)
    lower = lowering(program, policy if on else False, xnnpack)
    with collect_reports() as reports:
        figures = MEASURES[what](lower)
    stored = [c.stored_bytes for report in reports for c in report.lifted]
    constants = {"largest": max(stored, default=0), "all": sum(stored)}
    print(json.dumps({**figures, **constants}))


# --- In the process that compares ---------------------------------------------------


def measure(name: str, what: str, on: bool, xnnpack: bool) -> Figures:
    """Runs ``child`` in a process of its own."""
    command = [sys.executable, __file__, name, "--child", what]
    command += ["--on"] * on + ["--xnnpack"] * xnnpack
    done = subprocess.run(
        command,
        env={**QUIET, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def resident_rows(name: str, rounds: int, xnnpack: bool) -> Iterator[List[str]]:
    """Compares the resident sets of one case, one row for each stage."""
    off: List[Figures] = []
    on: List[Figures] = []
    for _ in range(rounds):
        off.append(measure(name, "resident", False, xnnpack))
        on.append(measure(name, "resident", True, xnnpack))
    largest, total = (-(-on[0][key] // 1024) for key in ("largest", "all"))
    for stage in ("lowered", "emitted"):
        before = [run[stage] for run in off]
        noise = max(before) - min(before)
        added = _median(on, stage) - _median(off, stage)
        code = _median(on, f"{stage} code") - _median(off, f"{stage} code")
        figures = (_median(off, stage), _median(on, stage), added, noise, code)
        within = "yes" if added - code <= largest + noise else "no"
        cells = (f"{figure:.0f}" for figure in (*figures, largest, total))
        yield [name, stage, *cells, within]


def _median(runs: List[Figures], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def heap_rows(name: str, xnnpack: bool) -> Iterator[List[str]]:
    """Compares what is allocated in one case."""
    for what in ("tensors", "python"):
        off, on = (measure(name, what, flag, xnnpack) for flag in (False, True))
        figures = [off["bytes"], on["bytes"], on["bytes"] - off["bytes"]]
        figures += [on["largest"], on["all"]]
        yield [name, what, *(f"{figure / 1024:.1f}" for figure in figures)]


def show(cells: Sequence[str]) -> None:
    """Prints a row at once: the next one takes a while."""
    print(f"{cells[0]:12} {cells[1]:8}", *(f"{c:>10}" for c in cells[2:]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", default=[*MODELS, *CASES])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--xnnpack", action="store_true", help="delegate to XNNPACK")
    parser.add_argument("--heap", action="store_true", help="count allocations")
    parser.add_argument("--child", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--on", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        child(arguments.cases[0], arguments.child, arguments.on, arguments.xnnpack)
        return
    figures, constants = ["off", "on", "on - off"], ["largest", "all"]
    if arguments.heap:
        show(["case", "KiB of", *figures, *constants])
    else:
        show(["case", "until", *figures, "noise", "code", *constants, "within"])
    for case in arguments.cases:
        if arguments.heap:
            rows = heap_rows(case, arguments.xnnpack)
        else:
            rows = resident_rows(case, arguments.rounds, arguments.xnnpack)
        for row in rows:
            show(row)


if __name__ == "__main__":
    main()
