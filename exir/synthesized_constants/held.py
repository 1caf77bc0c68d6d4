# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Values that are at hand: those used last, up to a number of bytes."""

from collections import OrderedDict
from typing import Any, Optional

from executorch.exir.synthesized_constants.compact import CompactValue
from torch.fx import Node

#: A compact value, or a list of them for a node with several results.
Value = Any


class HeldValues:
    """Values by node, in the order of last use.

    Args:
        limit: bytes; the values used longest ago are dropped where all together would
            take more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: "OrderedDict[Node, Value]" = OrderedDict()
        self._bytes = 0

    def __contains__(self, node: object) -> bool:
        return node in self._values

    def get(self, node: Node) -> Optional[Value]:
        """Returns the value of a node, None if it is not here."""
        if node not in self._values:
            return None
        self._values.move_to_end(node)
        return self._values[node]

    def put(self, node: Node, value: Value) -> None:
        """Adds a value, unless it alone exceeds the limit."""
        self._drop(node)
        size = _bytes_of(value)
        if size <= self._limit:
            self.make_room(size)
            self._values[node] = value
            self._bytes += size

    def drop_if_larger(self, node: Node, size: int) -> None:
        """Drops the value of a node, if it is here and takes more than ``size`` bytes."""
        if node in self._values and _bytes_of(self._values[node]) > size:
            self._drop(node)

    def make_room(self, size: int) -> None:
        """Drops values until ``size`` bytes more are within the limit."""
        while self._values and self._bytes + size > self._limit:
            self._drop(next(iter(self._values)))

    def set_limit(self, limit: int) -> None:
        """Sets the limit, dropping what exceeds it."""
        self._limit = limit
        self.make_room(0)

    def _drop(self, node: Node) -> None:
        if node in self._values:
            self._bytes -= _bytes_of(self._values.pop(node))


def _bytes_of(value: Value) -> int:
    if isinstance(value, CompactValue):
        return value.nbytes
    return sum(map(_bytes_of, value))
