# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Measures what the entry point and the edits add to importing torch and exir.

Run it as ``python test/bench/import_time.py [runs]``. Each run is a process of its own,
with and without autoload in turn; the medians of CPU time and their ratios are printed.
"""

import os
import statistics
import subprocess
import sys

MEASURE = """
import time
start = time.process_time()
import torch
middle = time.process_time()
import executorch.exir
print(middle - start, time.process_time() - middle)
"""


def measure(autoload: bool) -> "list[float]":
    """Returns the seconds that importing torch took, and then exir."""
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload)),
    }
    child = subprocess.run(
        [sys.executable, "-c", MEASURE],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(seconds) for seconds in child.stdout.split()]


def main(runs: int) -> None:
    measure(True)  # fills the caches of compiled files
    pairs = [(measure(False), measure(True)) for _ in range(runs)]
    for index, what in enumerate(("import torch", "import executorch.exir")):
        off = [pair[0][index] for pair in pairs]
        on = [pair[1][index] for pair in pairs]
        added = statistics.median(b - a for a, b in zip(off, on))
        print(
            f"{what:24} off {statistics.median(off):.3f} s"
            f"  on {statistics.median(on):.3f} s"
            f"  difference {1000 * added:6.1f} ms"
            f"  ratio {statistics.median(b / a for a, b in zip(off, on)):.3f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
