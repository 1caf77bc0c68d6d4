# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Which tests give something else than unpatched, and which of these may."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

import yaml
from modes import Mode
from outcomes import CRASHED, FAILED, Outcome, PASSED, Results, SKIPPED
from tabulate import tabulate

EXPECTED = Path(__file__).with_name("expected_differences.yaml")

#: What a test gives that was not run.
ABSENT = Outcome("absent")


@dataclass(frozen=True)
class Expected:
    """A difference that may be, and must be.

    Attributes:
        says: part of what the test must say. It is what keeps a listed test from
            failing for another reason unseen.
        reason: why the difference is none to be fixed.
    """

    says: str
    reason: str


@dataclass(frozen=True)
class Difference:
    """A test that gives something else in another mode.

    Attributes:
        reason: why it may, None if that is not listed.
    """

    test: str
    before: Outcome
    after: Outcome
    reason: Optional[str] = None

    def __str__(self) -> str:
        statuses = f"{self.before.status} -> {self.after.status}"
        lines = [f"{self.test}: {statuses}"]
        for outcome in (self.before, self.after):
            if outcome.says:
                says = outcome.says[:600].replace("\n", "\n        ")
                lines.append(f"    {outcome.status}: {says}")
        if self.reason is not None:
            lines.append(f"    expected: {self.reason}")
        return "\n".join(lines)


@dataclass
class Comparison:
    """A mode against unpatched.

    Attributes:
        differences: all of them, those that are listed too.
        vanished: tests that are listed, were run, and give the same.
    """

    mode: Mode
    differences: List[Difference] = field(default_factory=list)
    vanished: List[str] = field(default_factory=list)

    @property
    def unexpected(self) -> List[Difference]:
        """The differences that have no reason."""
        return [d for d in self.differences if d.reason is None]

    @property
    def good(self) -> bool:
        """Whether every difference is listed, and what is listed is there."""
        return not self.unexpected and not self.vanished

    def __str__(self) -> str:
        lines = [f"{self.mode.name} against unpatched:"]
        lines += [f"  {d}" for d in self.differences if d.reason is not None]
        lines += [f"  NOT LISTED {d}" for d in self.unexpected]
        lines += [f"  NO LONGER DIFFERS {test}" for test in self.vanished]
        if len(lines) == 1:
            lines.append("  the same, test by test")
        return "\n".join(lines)


def compare(
    mode: Mode,
    unpatched: Results,
    other: Results,
    expected: Mapping[str, Expected],
) -> Comparison:
    """Compares test by test; failures that say something else are differences.

    Args:
        mode: that of ``other``.
        unpatched: what to compare with.
        other: of the same tests.
        expected: what may differ in a mode that need not be the same, by test.
    """
    listed = {} if mode.same else expected
    result = Comparison(mode)
    for test in sorted({*unpatched.outcomes, *other.outcomes}):
        before = unpatched.outcomes.get(test, ABSENT)
        after = other.outcomes.get(test, ABSENT)
        if before != after:
            reason = _reason(listed.get(test), after)
            result.differences.append(Difference(test, before, after, reason))
        elif test in listed:
            result.vanished.append(test)
    return result


def _reason(expected: Optional[Expected], after: Outcome) -> Optional[str]:
    if expected is None or after.status != FAILED or expected.says not in after.says:
        return None
    return expected.reason


def read_expected(path: Path = EXPECTED) -> Dict[str, Expected]:
    """Reads the list of expected differences: entries of a ``reason`` and of
    ``tests``, each with a part of what it says.

    Raises:
        ValueError: a reason or what a test says is missing, or a test is listed twice.
    """
    listed: Dict[str, Expected] = {}
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
        reason = " ".join(entry["reason"].split())
        for test, says in entry["tests"].items():
            if not reason or not says:
                raise ValueError(f"{path.name}: {test} needs a reason and a message")
            if test in listed:
                raise ValueError(f"{path.name}: {test} is listed twice")
            listed[test] = Expected(says, reason)
    return listed


def table(results: Mapping[str, Results], comparisons: Sequence[Comparison]) -> str:
    """A table of all modes.

    Args:
        results: by the name of the mode.
        comparisons: of all modes but ``unpatched``.
    """
    of_mode = {c.mode.name: c for c in comparisons}
    rows = []
    for name, result in results.items():
        comparison = of_mode.get(name)
        rows.append(
            [
                name,
                len(result.outcomes),
                *(result.count(s) for s in (PASSED, FAILED, SKIPPED, CRASHED)),
                round(result.seconds),
                len(comparison.differences) if comparison else None,
                len(comparison.unexpected) if comparison else None,
            ]
        )
    headers = ("mode", "tests", PASSED, FAILED, SKIPPED, CRASHED, "seconds")
    return tabulate(rows, (*headers, "differ", "not listed"))
