# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Writes the program of ``test_issue_15505`` as unpatched packages lower it to stdout.

Run it with ``TORCH_DEVICE_BACKEND_AUTOLOAD=0``.
"""

import sys

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch.export import export
from torch.export.experimental import _export_forward_backward


class SigmoidSum(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).sum()


x = torch.zeros(1, 5, 8, requires_grad=True)
program = to_edge_transform_and_lower(
    _export_forward_backward(export(SigmoidSum(), (x,))),
    partitioner=[XnnpackPartitioner()],
).to_executorch()
if "executorch.exir.synthesized_constants" in sys.modules:
    sys.exit("the patch is active")
sys.stdout.buffer.write(program.buffer)
