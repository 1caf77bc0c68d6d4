# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What each test gave, from the logs that pytest-reportlog writes."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"
EXPECTED_FAILURE = "xfailed"
#: The process ended within the test.
CRASHED = "crashed"

#: What differs from run to run in the text of a failure: addresses, and the folders of
#: files.
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_FOLDERS = re.compile(r"/(?:[\w.+@-]+/)+")


@dataclass(frozen=True)
class Outcome:
    """What a test gave.

    Attributes:
        status: one of the constants above.
        says: of failures, their messages; a failed subtest is one of them.
    """

    status: str
    says: str = ""


@dataclass
class Results:
    """The outcomes of one mode.

    Attributes:
        outcomes: by test id, which begins with ``executorch/``. A module that can't be
            collected is a failure under its own path.
        seconds: sum over the tests, without imports.
    """

    outcomes: Dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0

    def count(self, status: str) -> int:
        """The number of tests of a status."""
        return sum(o.status == status for o in self.outcomes.values())

    def add(self, log: Path) -> None:
        """Adds what a process gave."""
        reports: Dict[str, List[Dict[str, Any]]] = {}
        for report in _read(log):
            if "nodeid" in report:
                reports.setdefault(report["nodeid"], []).append(report)
        for test, of_test in reports.items():
            self.seconds += sum(r.get("duration", 0.0) for r in of_test)
            if of_test[0]["$report_type"] != "CollectReport":
                self.outcomes[test] = _outcome(of_test)
            elif of_test[0]["outcome"] == FAILED:
                self.outcomes[test] = Outcome(FAILED, _message(of_test[0]))


def _read(log: Path) -> Iterator[Dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):  # a process that was killed may leave half a line
                yield json.loads(line)


def _outcome(reports: List[Dict[str, Any]]) -> Outcome:
    """The outcome of a test with reports on set-up, subtests, call and tear-down."""
    failures = [_message(r) for r in reports if r["outcome"] == FAILED]
    if failures:
        return Outcome(FAILED, "\n".join(failures))
    if not any(r["when"] == "teardown" for r in reports):
        return Outcome(CRASHED)
    of_test = [r for r in reports if r["$report_type"] == "TestReport"]
    skipped = [r for r in of_test if r["outcome"] == SKIPPED]
    if any("wasxfail" in r for r in skipped):
        return Outcome(EXPECTED_FAILURE)
    return Outcome(SKIPPED if skipped else PASSED)


def _message(report: Dict[str, Any]) -> str:
    """The text of a failure, without what differs from run to run."""
    failure = report["longrepr"]
    if isinstance(failure, dict):
        failure = failure["reprcrash"]["message"]
    text = _ADDRESS.sub("0x…", str(failure).strip())
    return _FOLDERS.sub("…/", text)
