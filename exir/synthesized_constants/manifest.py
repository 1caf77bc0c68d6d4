# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What a .pte says of the constants that neither a tensor of its own nor their name
describes: those in data files, the default values of inputs, and those that a delegate
took and stored in another dim order."""

import json
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from executorch.exir.synthesized_constants.placement import Placement

#: Key of the named data that holds it: JSON, name -> scalar type, sizes, dim order, where.
MANIFEST_KEY = "__et_synthesized_constants"

#: ``where`` of a constant in the .pte that a delegate took.
DELEGATE = "delegate"


@dataclass(frozen=True)
class ManifestEntry:
    """One constant.

    Attributes:
        scalar_type: its dtype, as ``exir.scalar_type.ScalarType`` numbers them.
        sizes: shape of the stored form.
        dim_order: of the bytes, outermost first.
        where: ``DELEGATE``, or the text of its placement.
    """

    scalar_type: int
    sizes: Tuple[int, ...]
    dim_order: Tuple[int, ...]
    where: str

    @property
    def tag(self) -> Optional[str]:
        """Name of the data file that has the bytes; None is the .pte."""
        return None if self.where == DELEGATE else Placement.parse(self.where).tag


def write_manifest(entries: Mapping[str, ManifestEntry]) -> bytes:
    """Returns entries as named data holds them."""
    rows = {
        name: [e.scalar_type, e.sizes, e.dim_order, e.where]
        for name, e in sorted(entries.items())
    }
    return json.dumps(rows, separators=(",", ":")).encode()


def read_manifest(data: bytes) -> Dict[str, ManifestEntry]:
    """Returns the entries that ``write_manifest`` wrote.

    Raises:
        ValueError: the data is something else.
    """
    rows = json.loads(data.decode())
    if not isinstance(rows, dict):
        raise ValueError("the list of constants is not an object")
    return {name: _entry(name, row) for name, row in rows.items()}


def _entry(name: str, row: object) -> ManifestEntry:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError(f"the entry of {name!r} is not a list of four")
    scalar_type, sizes, dim_order, where = row
    if type(scalar_type) is not int or not isinstance(where, str):
        raise ValueError(f"the entry of {name!r} has no dtype or place")
    if where != DELEGATE:
        Placement.parse(where)
    return ManifestEntry(scalar_type, _numbers(sizes), _numbers(dim_order), where)


def _numbers(values: object) -> Tuple[int, ...]:
    numbers: List[int] = []
    for value in values if isinstance(values, list) else [values]:
        if type(value) is not int or value < 0:
            raise ValueError(f"{values!r} is not a list of sizes")
        numbers.append(value)
    return tuple(numbers)
