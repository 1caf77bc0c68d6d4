# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Last step: what was found, what was done with it, and why.

Reasons are data; printing them is the report's own business.
"""

import contextlib
import contextvars
import dataclasses
from dataclasses import dataclass, field
from typing import Iterator, List, Mapping, Optional, Tuple

from executorch.exir.synthesized_constants.recipe import SynthesizedConstant
from tabulate import tabulate


@dataclass(frozen=True)
class Entry:
    """One value that the compiler knew.

    Attributes:
        constant: its description.
        lifted: whether it became a constant.
        reason: why not; "" if it was lifted.
        uses: number of placeholders that stand for it.
    """

    constant: SynthesizedConstant
    lifted: bool
    reason: str = ""
    uses: int = 0


@dataclass
class Report:
    """What one run of the pass over one method did.

    Attributes:
        method: name of the method, "" if unknown.
        entries: the values found that something at run time uses.
        folded: number of op calls that are gone.
    """

    method: str = ""
    entries: List[Entry] = field(default_factory=list)
    folded: int = 0

    def place(self, constants: Mapping[str, SynthesizedConstant]) -> None:
        """Takes over where constants were put.

        Args:
            constants: name that a constant had -> its description now.
        """
        for i, entry in enumerate(self.entries):
            placed = constants.get(entry.constant.name) if entry.lifted else None
            if placed is not None:
                constant = dataclasses.replace(
                    entry.constant,
                    name=placed.name,
                    method=placed.method,
                    placement=placed.placement,
                )
                self.entries[i] = dataclasses.replace(entry, constant=constant)

    @property
    def lifted(self) -> List[SynthesizedConstant]:
        """The constants that were made, each name once."""
        found = {e.constant.name: e.constant for e in self.entries if e.lifted}
        return list(found.values())

    @property
    def stored_bytes(self) -> int:
        """Bytes of the lifted constants, each name once."""
        return sum(c.stored_bytes for c in self.lifted)

    def __str__(self) -> str:
        rows = [_row(entry) for entry in self.entries]
        table = tabulate(rows, headers=_HEADERS, disable_numparse=True)
        title = f"Synthesized constants{' of ' + self.method if self.method else ''}: "
        summary = (
            f"{len(self.lifted)} lifted, {self.stored_bytes} bytes stored, "
            f"{self.folded} ops folded"
        )
        return title + summary + ("\n" + table if rows else "")


_HEADERS = (
    "name",
    "value",
    "stored",
    "bytes",
    "fill",
    "uses",
    "where",
    "source",
    "not lifted",
)


def _row(entry: Entry) -> Tuple[str, ...]:
    c = entry.constant
    dtype = str(c.dtype).replace("torch.", "")
    return (
        c.name if entry.lifted else c.op,
        f"{dtype}{_shape(c.shape)}",
        _shape(c.stored_shape) if entry.lifted else "",
        str(c.stored_bytes) if entry.lifted else "",
        "" if c.fill_value is None else str(c.fill_value),
        str(entry.uses) if entry.lifted else "",
        repr(c.placement).partition(".")[2] if c.placement else "",
        c.source,
        entry.reason,
    )


def _shape(shape: Tuple[Optional[int], ...]) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"


_collected: contextvars.ContextVar[Optional[List[Report]]] = contextvars.ContextVar(
    "synthesized_constant_reports", default=None
)


@contextlib.contextmanager
def collect_reports() -> Iterator[List[Report]]:
    """Collects the reports of all lowering inside the ``with`` block.

    Yields:
        A list that grows by one report for each run of the pass over a method.
    """
    reports: List[Report] = []
    token = _collected.set(reports)
    try:
        yield reports
    finally:
        _collected.reset(token)


def publish(report: Report) -> None:
    """Hands a report to whoever collects them."""
    reports = _collected.get()
    if reports is not None:
        reports.append(report)
