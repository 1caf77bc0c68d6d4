# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.


import dataclasses

import pytest
import torch
from executorch.exir.synthesized_constants.emit import restore_dim_order
from executorch.exir.synthesized_constants.recipe import describe_tensor, META_KEY
from executorch.exir.tensor import TensorSpec

DEFAULT, CHANNELS_LAST = (0, 1, 2, 3), (0, 2, 3, 1)


def restored(shape, lifted: torch.memory_format, now: torch.memory_format):
    """The dim order that is emitted for a constant that was lifted in one format and
    has another now."""
    node = torch.fx.Graph().placeholder("synth_full")
    tensor = torch.zeros(shape).to(memory_format=lifted)
    node.meta[META_KEY] = describe_tensor("full_f32_00000000", tensor, node)
    spec = TensorSpec.from_tensor(torch.zeros(shape).to(memory_format=now))
    restore_dim_order(node, spec)
    return tuple(spec.dim_order)


@pytest.mark.parametrize("lifted", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("now", [torch.contiguous_format, torch.channels_last])
def test_a_tensor_that_was_laid_out_anew_keeps_its_dim_order(lifted, now):
    order = CHANNELS_LAST if now is torch.channels_last else DEFAULT
    assert restored((2, 3, 4, 5), lifted, now) == order


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 1, 4, 5), (2, 3, 0, 5)])
def test_an_order_that_strides_do_not_tell_is_restored(shape):
    node = torch.fx.Graph().placeholder("synth_full")
    known = describe_tensor("full_f32_00000000", torch.zeros(shape), node)
    node.meta[META_KEY] = dataclasses.replace(known, dim_order=CHANNELS_LAST)
    spec = TensorSpec.from_tensor(torch.zeros(shape))
    restore_dim_order(node, spec)
    assert tuple(spec.dim_order) == CHANNELS_LAST
