# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.synthesized_constants.measure import (
    compare,
    measure,
    MethodCost,
    ProgramCost,
)
from executorch.exir.synthesized_constants.test.helpers import lower
from expecttest import TestCase
from torch.export import export


class AddThenCumsum(torch.nn.Module):
    def forward(self, x):
        return (x + x).cumsum(0)


class MeasureTest(TestCase):
    def test_counts_kernels_and_delegates(self):
        program = export(AddThenCumsum(), (torch.zeros(16),))
        manager = lower(program, partitioner=[XnnpackPartitioner()]).executorch
        cost = measure(manager)
        method = cost.methods["forward"]
        self.assertEqual(method.kernels, ("aten::cumsum",))
        self.assertEqual(method.instructions, 2)
        self.assertEqual((method.delegates, method.delegate_calls), (1, 1))
        # Input, sum and result, each 64 bytes, of which two are alive at a time.
        self.assertGreaterEqual(method.planned_bytes, 2 * 64)
        self.assertEqual(cost.file_bytes, len(manager.buffer))

    def test_compares_method_by_method(self):
        before = ProgramCost(
            {
                "one": MethodCost(("aten::full", "aten::add"), 3, 1, 1, 4096),
                "two": MethodCost((), 1, 1, 1, 0),
            },
            file_bytes=123456,
        )
        after = ProgramCost(
            {
                "one": MethodCost(("aten::add",), 2, 1, 1, 64),
                "two": MethodCost((), 1, 1, 1, 0),
            },
            file_bytes=123460,
        )
        self.assertExpectedInline(
            compare(before, after),
            """\
                              before    after
--------------------------  --------  -------
one: instructions                  3        2
one: kernel calls                  2        1
one: delegates                     1        1
one: delegate calls                1        1
one: planned memory, bytes     4,096       64
two: instructions                  1        1
two: kernel calls                  0        0
two: delegates                     1        1
two: delegate calls                1        1
two: planned memory, bytes         0        0
.pte file, bytes             123,456  123,460""",
        )
