# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Runs the tests that executorch ships, unpatched and patched, and compares test by
test. ``python test/upstream/run_upstream.py --help`` says how."""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import pytest
from comparison import compare, Comparison, read_expected, table
from modes import LIVE, Mode, MODES, RENDERED, RENDERED_FORCED, UNPATCHED
from outcomes import Results
from suites import ALL, Suite

#: Seconds that a test and a process may take.
TEST_TIMEOUT = 600
PROCESS_TIMEOUT = 4 * 3600

#: How pytest ends when it ran all tests, or when there were none.
_FINISHED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
_NOTHING = pytest.ExitCode.NO_TESTS_COLLECTED


class RunError(Exception):
    """Tests could not be run."""


@dataclass(frozen=True)
class Run:
    """Where things are.

    Attributes:
        output: folder for logs and results; one folder for each mode.
        rendered: folder of the package ``executorch`` with the edits written to it.
        reuse: whether results that are there are taken.
    """

    output: Path
    rendered: Optional[Path] = None
    reuse: bool = False

    def tree(self, mode: Mode) -> Path:
        """The folder of the package ``executorch`` that is tested."""
        if not mode.rendered:
            return _installed()
        if self.rendered is None:
            raise RunError(f"mode {mode.name} needs --rendered")
        return self.rendered.resolve()

    def report(self, mode: Mode, suite: Suite) -> Path:
        """The file of results, there if the suite was run to its end."""
        return self.output / mode.name / f"{suite.name}.jsonl"


def _installed() -> Path:
    spec = importlib.util.find_spec("executorch.exir")
    if spec is None or spec.origin is None:
        raise RunError("executorch is not installed")
    return Path(spec.origin).parents[2]


def run_suite(run: Run, mode: Mode, suite: Suite) -> str:
    """Runs a suite in a process of its own, in a folder of its own.

    Returns:
        A line that says how it ended.

    Raises:
        RunError: not for tests that fail, but if there are none, or if pytest does not
            get to run them in this mode.
    """
    report = run.report(mode, suite)
    if run.reuse and report.exists():
        return f"{mode.name} {suite.name}: was there"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    partial, log = report.with_suffix(".partial"), report.with_suffix(".log")
    command = _command(run.tree(mode), mode, suite, partial)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, log.open("w") as out:
        environment = mode.environment({**os.environ, "TMPDIR": folder}, run.rendered)
        code = _wait(command, environment, folder, out)
    if code == _NOTHING:
        raise RunError(f"{mode.name} {suite.name}: no tests, see {log}")
    if code >= 0 and code not in _FINISHED:
        raise RunError(f"{mode.name} {suite.name}: pytest exit {code}, see {log}")
    partial.rename(report)
    last = log.read_text(errors="replace").rstrip().rsplit("\n", 1)[-1]
    how = last.strip("= ") if code >= 0 else f"killed by signal {-code}"
    return f"{mode.name} {suite.name}: {how} ({time.monotonic() - start:.0f} s)"


def _wait(command: List[str], environment: Dict[str, str], folder: str, out) -> int:
    """The exit code of a process; minus the signal, if it was killed by one."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
    )
    try:
        return process.wait(PROCESS_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _command(tree: Path, mode: Mode, suite: Suite, report: Path) -> List[str]:
    paths = [tree / "executorch" / path for path in suite.paths]
    for path in paths:
        if not Path(str(path).split("::")[0]).exists():
            raise RunError(f"{path} does not exist")
    plugins = (
        "pytest_reportlog.plugin",
        "pytest_timeout",
        "upstream_mode_check",
        "same_random_numbers",
        "executorch.kernels.quantized",  # registers what quantized programs call
    )
    return [
        *(sys.executable, "-m", "pytest"),
        *("-c", os.devnull, f"--rootdir={tree}"),
        # ``executorch`` is a namespace package: modules must be found by their names.
        *("--import-mode=importlib", "-o", "consider_namespace_packages=true"),
        *("-o", "python_files=test_*.py *_test.py test.py"),
        *("-p", "no:cacheprovider", *(f"-p{plugin}" for plugin in plugins)),
        f"--mode-of-upstream={mode.name}",
        f"--tree-of-upstream={tree}",
        f"--report-log={report}",
        "--report-log-exclude-logs-on-passed-tests",
        f"--timeout={TEST_TIMEOUT}",
        "--continue-on-collection-errors",
        *("-q", "-ra", "--tb=short", "-Wignore"),
        *map(str, paths),
    ]


def run_and_compare(
    run: Run, modes: Sequence[Mode], suites: Sequence[Suite], jobs: int = 1
) -> List[Comparison]:
    """Runs all suites in all modes, and prints a table and the differences.

    Args:
        run: where.
        modes: the first is what the others are compared with.
        suites: what.
        jobs: processes at a time.

    Raises:
        RunError: as ``run_suite``.
    """
    tasks = [(mode, suite) for suite in suites for mode in modes]
    with ThreadPoolExecutor(jobs) as pool:
        for line in pool.map(lambda task: run_suite(run, *task), tasks):
            print(line, flush=True)
    results = {mode.name: Results() for mode in modes}
    for mode, suite in tasks:
        results[mode.name].add(run.report(mode, suite))
    expected = read_expected()
    comparisons = [
        compare(mode, results[modes[0].name], results[mode.name], expected)
        for mode in modes[1:]
    ]
    print("", table(results, comparisons), *comparisons, sep="\n")
    return comparisons


def _modes(names: str) -> List[Mode]:
    unknown = sorted(set(names.split(",")) - set(MODES))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such mode: {', '.join(unknown)}")
    return [MODES[name] for name in names.split(",")]


def _arguments(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "path",
        nargs="*",
        help="file, folder or test id below executorch/, each in a process of its own; "
        "default: all",
    )
    parser.add_argument(
        "--modes",
        type=_modes,
        help=f"of {', '.join(MODES)}, with commas; unpatched is always run. Default: "
        "off,forced and with --rendered its two",
    )
    parser.add_argument(
        "--rendered",
        type=Path,
        metavar="DIR",
        help="DIR/executorch is the package with all edits written to it, and tests",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/upstream"), metavar="DIR"
    )
    parser.add_argument(
        "--reuse", action="store_true", help="take results that DIR has already"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return parser.parse_args(arguments)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Returns 0, or 1 if a difference is not listed or a listed one is not there, or 2
    if tests could not be run."""
    options = _arguments(arguments)
    modes = options.modes or [
        *LIVE,
        *((RENDERED, RENDERED_FORCED) if options.rendered else ()),
    ]
    modes = [UNPATCHED, *(mode for mode in modes if mode is not UNPATCHED)]
    suites = [Suite.of(path) for path in options.path] or ALL
    run = Run(options.output.resolve(), options.rendered, options.reuse)
    try:
        comparisons = run_and_compare(run, modes, suites, options.jobs)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(not all(comparison.good for comparison in comparisons))


if __name__ == "__main__":
    sys.exit(main())
