# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Reads a .ptd data file without trusting it.

Upstream's reader runs a compiler on the whole file and believes what the header says; this
one looks at the table of names alone (extension/flat_tensor/serialize/flat_tensor.fbs),
and every access is checked against the size of the file.
"""

import mmap
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Union

Bytes = Union[bytes, bytearray, memoryview, mmap.mmap]

_MAGIC = b"FT01"
_HEADER_MAGIC = b"FH01"
#: Layout of the header, which is 8 bytes into the file: magic, its length, then offset
#: and size of the table, offset and size of the segments.
_HEADER = struct.Struct("<4sIQQQQ")
_HEADER_AT = 8


@dataclass(frozen=True)
class NamedBytes:
    """One entry of a data file.

    Attributes:
        offset: of its bytes in the file.
        size: in bytes.
        scalar_type: its dtype, as ``exir.scalar_type.ScalarType`` numbers them; None if
            it is not a tensor.
        sizes: shape.
        dim_order: outermost first.
    """

    offset: int
    size: int
    scalar_type: Optional[int]
    sizes: List[int]
    dim_order: List[int]


def read_names(data: Bytes) -> Dict[str, NamedBytes]:
    """Returns the entries of a data file by name.

    Args:
        data: the whole file.

    Raises:
        ValueError: it is not a .ptd file, or a damaged one; the message says what.
    """
    if bytes(data[4:8]) != _MAGIC:
        raise ValueError("it does not have the magic FT01")
    try:
        return _read_names(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error


def _read_names(data: Bytes) -> Dict[str, NamedBytes]:
    magic, _, _, _, base, _ = _HEADER.unpack_from(data, _HEADER_AT)
    if magic != _HEADER_MAGIC:
        raise ValueError("it has no header")
    root = _Table(data, _offset(data, 0))
    segments = root.tables(1)
    found: Dict[str, NamedBytes] = {}
    for entry in root.tables(2):
        index = entry.number(1, "<I")
        if index >= len(segments):
            raise ValueError("a name has no segment")
        offset = base + segments[index].number(0, "<Q")
        size = segments[index].number(1, "<Q")
        if offset + size > len(data):
            raise ValueError("a segment reaches beyond the end")
        layout = entry.table(2)
        found[entry.text(0)] = NamedBytes(
            offset,
            size,
            layout.number(0, "<b") if layout else None,
            layout.numbers(1, "i") if layout else [],
            layout.numbers(2, "B") if layout else [],
        )
    return found


class _Table:
    """A flatbuffer table. Offsets that lead out of the file are a ``struct.error`` when
    they are followed; a list is no longer than the file."""

    def __init__(self, data: Bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        if self._vtable < 0:
            raise ValueError("a table lies before the file")
        (self._vtable_size,) = struct.unpack_from("<H", data, self._vtable)

    def _field(self, index: int) -> Optional[int]:
        slot = 4 + 2 * index
        if slot + 2 > self._vtable_size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._vtable + slot)
        return self._at + offset if offset else None

    def number(self, index: int, code: str) -> int:
        at = self._field(index)
        return struct.unpack_from(code, self._data, at)[0] if at is not None else 0

    def table(self, index: int) -> "Optional[_Table]":
        at = self._field(index)
        return None if at is None else _Table(self._data, _offset(self._data, at))

    def text(self, index: int) -> str:
        return bytes(self.numbers(index, "B")).decode()

    def tables(self, index: int) -> "List[_Table]":
        at = self._field(index)
        if at is None:
            return []
        start = _offset(self._data, at) + 4
        count = len(self.numbers(index, "I"))
        places = (start + 4 * i for i in range(count))
        return [_Table(self._data, _offset(self._data, place)) for place in places]

    def numbers(self, index: int, code: str) -> List[Any]:
        at = self._field(index)
        if at is None:
            return []
        start = _offset(self._data, at)
        (count,) = struct.unpack_from("<I", self._data, start)
        if start + 4 + count * struct.calcsize(code) > len(self._data):
            raise ValueError("a list reaches beyond the end")
        return list(struct.unpack_from(f"<{count}{code}", self._data, start + 4))


def _offset(data: Bytes, at: int) -> int:
    return at + struct.unpack_from("<I", data, at)[0]
