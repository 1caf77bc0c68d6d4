# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Lowers programs with the flag off and on, and prints the hash of each file. Tests run
it in processes of their own, with what they want to compare."""

import hashlib
import os

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from torch.export import Dim, export
from torch.export.experimental import _export_forward_backward


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return 1 - x * torch.full((4, 1, 1), 0.5)


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.sigmoid(self.linear(x)).sum()


class Mask(torch.nn.Module):
    def forward(self, x):
        length = x.shape[-1]
        mask = torch.ones(8, 8).tril()[:length, :length]
        return (x + mask).softmax(-1) + torch.arange(length)


class Branch(torch.nn.Module):
    def forward(self, x):
        def then(x):
            return x + torch.arange(4)

        def otherwise(x):
            return x * 2 - torch.ones(4)

        return torch.cond(x.sum() > 0, then, otherwise, (x,))


torch.manual_seed(0)
conv = export(Conv().eval(), (torch.ones(1, 3, 8, 8),))
loss = _export_forward_backward(export(Loss(), (torch.ones(3, 4),), strict=True))
mask = export(Mask(), (torch.ones(8, 8),))
shape = {0: Dim("n", max=7)}
dynamic = export(Loss(), (torch.ones(3, 4),), dynamic_shapes=(shape,))
branch = export(Branch(), (torch.ones(4),))
for flag in ("0", "1"):
    os.environ["EXECUTORCH_LIFT_SYNTHESIZED_CONSTANTS"] = flag  # stock does not look
    unchecked = EdgeCompileConfig(_check_ir_validity=False)
    lowered = {
        "conv": to_edge_transform_and_lower(conv, partitioner=[XnnpackPartitioner()]),
        "loss": to_edge_transform_and_lower(loss, partitioner=[XnnpackPartitioner()]),
        "methods": to_edge_transform_and_lower({"a": mask, "b": conv}),
        "dynamic": to_edge(dynamic),
        "branch": to_edge(branch, compile_config=unchecked),
    }
    programs = {name: edge.to_executorch() for name, edge in lowered.items()}
    programs["external"] = to_edge(conv).to_executorch(
        ExecutorchBackendConfig(external_constants=True)
    )
    for name, program in programs.items():
        digest = hashlib.sha256(program.buffer).hexdigest()
        print(flag, name, len(program.buffer), digest)
