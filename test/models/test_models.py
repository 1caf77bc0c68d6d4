# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Tiny models of real architectures: right, smaller, and nothing known is left."""

import logging
from typing import Any, Dict

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.schema import KernelCall
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.test.helpers import (
    assert_runs_like,
    lower,
    Lowered,
)
from executorch.exir.synthesized_constants.test.known_left import known_left
from executorch.exir.synthesized_constants.test.tiny_models import make, MODELS
from torch.export import export

UNLIMITED = SynthesizedConstantPolicy(
    max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
)
TOLERANCE: Dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.disable(logging.WARNING)


def kernel_calls(lowered: Lowered) -> int:
    return sum(
        isinstance(i.instr_args, KernelCall)
        for chain in lowered.plan().chains
        for i in chain.instructions
    )


@pytest.mark.parametrize("xnnpack", [False, True], ids=["none", "xnnpack"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_right_and_computes_nothing_that_is_known(
    name: str, xnnpack: bool
) -> None:
    model, inputs = make(name)
    with torch.no_grad():
        expected = model(*inputs)
    program = export(model, inputs)
    partitioner = [XnnpackPartitioner()] if xnnpack else None
    stock = lower(program, False, partitioner)
    lifted = lower(program, True, partitioner)
    unlimited = lower(program, UNLIMITED, partitioner)
    for lowered in (lifted, unlimited):
        try:
            assert_runs_like(stock, expected, inputs, **TOLERANCE)
        except RuntimeError:
            continue  # a kernel that stock lacks
        assert_runs_like(lowered, expected, inputs, **TOLERANCE)
    assert not known_left(unlimited.executorch)
    assert kernel_calls(lifted) < kernel_calls(stock)
    assert len(lifted.plan().delegates) <= len(stock.plan().delegates)
    planned = [sum(x.plan().non_const_buffer_sizes) for x in (lifted, stock)]
    assert planned[0] <= planned[1]
    sizes = [len(x.executorch.buffer) for x in (lifted, stock)]
    assert sizes[0] <= sizes[1] + max(64 << 10, sizes[1] // 100)


def test_frozen_position_tables_fold_through_parameters() -> None:
    model, inputs = make("vit_resized")
    with torch.no_grad():
        expected = model(*inputs)
    policy = SynthesizedConstantPolicy(through_parameters=True)
    program = export(model, inputs)
    partitioner = [XnnpackPartitioner()]
    folded = lower(program, policy, partitioner)
    assert_runs_like(folded, expected, inputs, **TOLERANCE)
    assert kernel_calls(folded) < kernel_calls(lower(program, True, partitioner))
