# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""XNNPACK takes a constant along with whatever uses it, and gives what eager gives.

Its passes replace the weights of one op at a time, name what they make after them, and
store them in the layout of that op; so a constant of several ops must be one for each.
"""

from typing import Any, Dict

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.synthesized_constants import read_synthesized_constants
from executorch.exir.synthesized_constants.test.helpers import lower_and_run, Lowered


def wave(*sizes: int) -> torch.Tensor:
    """A known value with unequal elements."""
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes).sin()


def delegates(lowered: Lowered) -> int:
    """The number of instructions, if all are calls of delegates."""
    assert set(lowered.instructions()) == {"XnnpackBackend"}
    return len(lowered.instructions())


class Norms(torch.nn.Module):
    mean_1: torch.Tensor
    var_1: torch.Tensor
    mean_2: torch.Tensor
    var_2: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("mean_1", "var_1", "mean_2", "var_2"):
            self.register_buffer(name, torch.rand(2) + 0.5)

    def first(
        self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
    ) -> torch.Tensor:
        return F.batch_norm(x, self.mean_1, self.var_1, scale, shift)

    def second(
        self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
    ) -> torch.Tensor:
        return F.batch_norm(x, self.mean_2, self.var_2, scale, shift)


class OneKernelBeforeTwoNorms(Norms):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([0.5, 2.0]))
        self.shift = torch.nn.Parameter(torch.tensor([1.0, -1.0]))

    def forward(self, x):
        kernel = wave(2, 2, 3, 3)
        one = self.first(F.conv2d(x, kernel), self.scale, self.shift)
        return one + self.second(F.conv2d(x, kernel), self.scale, self.shift)


class OneScaleOfTwoNorms(Norms):
    def forward(self, x):
        scale, shift = torch.full((2,), 1.5), torch.full((2,), 0.5)
        return self.first(x, scale, shift) + self.second(x * 2, scale, shift)


class SmallKernelOfTwoConv1d(torch.nn.Module):
    def forward(self, x):
        kernel = torch.full((2, 2, 3), 0.25)
        return F.conv1d(x, kernel) + F.conv1d(x * 2, kernel)


class KernelOfTwoConv1d(torch.nn.Module):
    def forward(self, x):
        kernel = wave(2, 2, 5)
        return F.conv1d(x, kernel) + F.conv1d(x * 2, kernel)


class KernelAndFactor1d(torch.nn.Module):
    def forward(self, x):
        kernel = wave(2, 2, 5)
        return F.conv1d(x, kernel), x[:, :, :5] * kernel


class KernelAndFactor2d(torch.nn.Module):
    def forward(self, x):
        kernel = wave(2, 2, 3, 3)
        return F.conv2d(x, kernel), x[:, :, :3, :3] * kernel


class FactorAndKernel2d(torch.nn.Module):
    def forward(self, x):
        kernel = wave(2, 2, 3, 3)
        return x[:, :, :3, :3] * kernel, F.conv2d(x, kernel)


class KernelOfThreeKinds(torch.nn.Module):
    def forward(self, x):
        kernel = wave(2, 1, 3, 3)
        depthwise = F.conv2d(x, kernel, groups=2)
        transposed = F.conv_transpose2d(x, kernel, groups=2)
        return depthwise, transposed, F.conv2d(x[:, :1], kernel)


IMAGE = (2, 2, 6, 6)
SOUND = (1, 2, 16)


@pytest.mark.parametrize(
    "model,shape",
    [
        (OneKernelBeforeTwoNorms, IMAGE),
        (OneScaleOfTwoNorms, IMAGE),
        (SmallKernelOfTwoConv1d, SOUND),
        (KernelOfTwoConv1d, SOUND),
        (KernelAndFactor1d, SOUND),
        (KernelAndFactor2d, IMAGE),
        (FactorAndKernel2d, IMAGE),
        (KernelOfThreeKinds, IMAGE),
    ],
)
def test_a_constant_of_several_ops_of_a_delegate(model: Any, shape: Any) -> None:
    torch.manual_seed(0)
    # XNNPACK adds up in another order than eager.
    lowered = lower_and_run(
        model().eval(),
        (torch.randn(shape),),
        partitioner=[XnnpackPartitioner()],
        rtol=1e-4,
        atol=1e-5,
    )
    assert lowered.lifted
    assert delegates(lowered) == 1


class Operand(torch.nn.Module):
    """A known value that an op wants channels-last, and another one does not."""

    def __init__(self, op: torch.nn.Module) -> None:
        super().__init__()
        self.op = op

    def forward(self, x):
        known = wave(1, 2, 6, 6)
        return self.op(known) + x + known


@pytest.mark.parametrize("op", [torch.nn.Conv2d(2, 2, 1), torch.nn.PReLU(2)])
def test_an_operand_that_is_wanted_channels_last_is_handed_in(op: Any) -> None:
    lowered = lower_and_run(
        Operand(op),
        (torch.randn(1, 2, 6, 6),),
        partitioner=[XnnpackPartitioner()],
        rtol=1e-4,
        atol=1e-5,
    )
    assert delegates(lowered) == 1
    (name,) = {constant.name for constant in lowered.lifted}
    targets = lowered.edge.exported_program().graph_signature.synthesized_constants
    assert name in targets  # type: ignore[operator]


class InsideAndOutside(torch.nn.Module):
    def forward(self, x):
        kernel = wave(2, 2, 3, 3)
        return F.conv2d(x, kernel), torch.atan2(x[:, :, :3, :3], kernel)


def test_a_name_is_that_of_the_copy_outside_if_a_delegate_has_another() -> None:
    lowered = lower_and_run(
        InsideAndOutside(),
        (torch.randn(1, 2, 6, 6),),
        partitioner=[XnnpackPartitioner()],
        rtol=1e-4,
        atol=1e-5,
    )
    assert "XnnpackBackend" in lowered.instructions()
    assert "aten::atan2" in lowered.instructions()
    found: Dict[str, torch.Tensor] = read_synthesized_constants(
        bytes(lowered.executorch.buffer)
    )
    (value,) = found.values()
    assert torch.equal(value, wave(2, 2, 3, 3))
