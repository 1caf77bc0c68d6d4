# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Lists the constants of programs, and how two programs differ in them."""

import math
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence, Union

import torch
from executorch.exir.synthesized_constants.compact import fill_value
from executorch.exir.synthesized_constants.reader import StoredConstant
from tabulate import tabulate


@dataclass(frozen=True)
class Row:
    """One constant, as JSON can hold it.

    Attributes:
        name: its name.
        where: see ``StoredConstant``.
        shape: of the stored form.
        dtype: e.g. ``"float32"``.
        dim_order: of the bytes, outermost first.
        bytes: their number.
        fill: the element if all are equal, as text where JSON has no number for it; None
            if they are not, or if the data file was not given.
    """

    name: str
    where: str
    shape: List[int]
    dtype: str
    dim_order: List[int]
    bytes: int
    fill: Union[bool, int, float, str, None]


@dataclass(frozen=True)
class Difference:
    """How the constants of one program differ from those of another.

    Attributes:
        added: names that only the second has.
        dropped: names that only the first has.
        changed: names of both that are in another place, or have another shape, dtype,
            dim order or content.
    """

    added: List[str]
    dropped: List[str]
    changed: List[str]


def rows_of(constants: Iterable[StoredConstant]) -> List[Row]:
    """Returns what a listing says of constants."""
    return [
        Row(
            name=c.name,
            where=c.where,
            shape=list(c.shape),
            dtype=str(c.dtype).replace("torch.", ""),
            dim_order=list(c.dim_order),
            bytes=math.prod(c.shape) * c.dtype.itemsize,
            fill=_fill(c.tensor),
        )
        for c in constants
    ]


def compare_constants(
    first: Iterable[StoredConstant], second: Iterable[StoredConstant]
) -> Difference:
    """Compares the constants of two programs. Those in data files that were not given
    are compared by all but content."""
    before = {c.name: c for c in first}
    after = {c.name: c for c in second}
    return Difference(
        added=sorted(after.keys() - before.keys()),
        dropped=sorted(before.keys() - after.keys()),
        changed=sorted(
            name
            for name in before.keys() & after.keys()
            if not _equal(before[name], after[name])
        ),
    )


def format_rows(rows: Sequence[Row]) -> str:
    """Returns a table, or a sentence if there is nothing to list."""
    if not rows:
        return "no named constants"
    lines = [["" if v is None else str(v) for v in vars(row).values()] for row in rows]
    return tabulate(lines, headers=list(vars(rows[0])), disable_numparse=True)


def format_difference(
    difference: Difference, first: Sequence[Row], second: Sequence[Row]
) -> str:
    """Returns one line for each constant that differs, marked as in a text diff."""
    before: Dict[str, Row] = {row.name: row for row in first}
    after: Dict[str, Row] = {row.name: row for row in second}
    marked = [("-", before[name]) for name in difference.dropped]
    for name in difference.changed:
        marked += [("-", before[name]), ("+", after[name])]
    marked += [("+", after[name]) for name in difference.added]
    if not marked:
        return "the same named constants"
    table = format_rows([row for _, row in marked]).splitlines()
    signs = [" ", " ", *(sign for sign, _ in marked)]
    return "\n".join(f"{sign} {line}" for sign, line in zip(signs, table))


def _equal(a: StoredConstant, b: StoredConstant) -> bool:
    described = [(c.where, c.shape, c.dtype, c.dim_order) for c in (a, b)]
    if described[0] != described[1]:
        return False
    if a.tensor is None or b.tensor is None:
        return True
    return torch.equal(_bits(a.tensor), _bits(b.tensor))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _fill(tensor: Optional[torch.Tensor]) -> Union[bool, int, float, str, None]:
    fill = None if tensor is None else fill_value(tensor)
    if isinstance(fill, complex):
        return str(fill)
    if isinstance(fill, float) and not math.isfinite(fill):
        return str(fill)
    return fill
