# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What the name of a constant says: ``arange_8x8_i64_3f2a9c10`` is 8x8 elements of int64.

Light on purpose: serialization imports it.
"""

import re
from typing import NamedTuple, Optional, Tuple

_NAME = re.compile(
    r"\w+?_(?:(\d+(?:x\d+)*)_)?([a-z]+\d+)_[0-9a-f]{8,64}(?:_\w*)?", re.A
)


class NameParts(NamedTuple):
    """Shape and dtype (``f32``) of a stored form."""

    shape: Tuple[int, ...]
    dtype: str


def parse_name(name: str) -> Optional[NameParts]:
    """Returns what a name says, None if it is not the name of a constant."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    sizes = match[1].split("x") if match[1] else []
    return NameParts(tuple(map(int, sizes)), match[2])
