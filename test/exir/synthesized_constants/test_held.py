# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import torch
from executorch.exir.synthesized_constants.compact import CompactValue
from executorch.exir.synthesized_constants.held import HeldValues
from torch.fx import Graph


def value(elements: int) -> CompactValue:
    return CompactValue(torch.zeros(elements, dtype=torch.uint8), (elements,))


def test_what_was_used_longest_ago_goes_first() -> None:
    graph = Graph()
    a, b, c = (graph.placeholder(name) for name in "abc")
    held = HeldValues(10)
    held.put(a, value(4))
    held.put(b, value(4))
    assert held.get(a) is not None
    held.put(c, value(4))
    assert (a in held, b in held, c in held) == (True, False, True)
    held.make_room(6)
    assert (a in held, c in held) == (False, True)


def test_a_value_that_exceeds_the_limit_is_not_held() -> None:
    graph = Graph()
    a, b = (graph.placeholder(name) for name in "ab")
    held = HeldValues(10)
    held.put(a, value(4))
    held.put(b, value(11))
    assert a in held and b not in held and held.get(b) is None


def test_a_value_that_is_put_again_counts_once() -> None:
    graph = Graph()
    a, b = (graph.placeholder(name) for name in "ab")
    held = HeldValues(10)
    for _ in range(3):
        held.put(a, value(5))
    held.put(b, [value(2), value(3)])  # several results
    assert a in held and b in held
    held.set_limit(9)
    assert a not in held and b in held


def test_small_values_stay() -> None:
    graph = Graph()
    a, b = (graph.placeholder(name) for name in "ab")
    held = HeldValues(10)
    held.put(a, value(4))
    held.put(b, value(5))
    for node in (a, b):
        held.drop_if_larger(node, 4)
    assert a in held and b not in held
