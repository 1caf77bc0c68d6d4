# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import pytest
import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.op_traits import classify, OpClass

aten = torch.ops.aten
edge = exir_ops.edge


@pytest.mark.parametrize(
    "op, expected",
    [
        (aten.full.default, OpClass.FILL),
        (edge.aten.full_like.default, OpClass.FILL),
        (aten.new_zeros.default, OpClass.FILL),
        (aten.add.Tensor, OpClass.POINTWISE),
        (edge.dim_order_ops._to_dim_order_copy.default, OpClass.POINTWISE),
        (aten.expand.default, OpClass.SELECTION),
        (edge.aten.view_copy.default, OpClass.SELECTION),
        (aten.index.Tensor, OpClass.SELECTION),
        (aten.view.dtype, OpClass.FUNCTION),
        (aten.slice_scatter.default, OpClass.FUNCTION),
        (aten.arange.start_step, OpClass.FUNCTION),
        (aten.cumsum.default, OpClass.FUNCTION),
        (aten.rand.default, OpClass.OPAQUE),
        (aten.randn_like.default, OpClass.OPAQUE),
        (aten.bernoulli.p, OpClass.OPAQUE),
        (aten.native_dropout.default, OpClass.OPAQUE),
        (aten.empty.memory_format, OpClass.OPAQUE),
        (aten.new_empty.default, OpClass.OPAQUE),
        (edge.dim_order_ops._empty_dim_order.default, OpClass.OPAQUE),
        (aten.add_.Tensor, OpClass.OPAQUE),
        (aten.copy_.default, OpClass.OPAQUE),
        (torch.ops.higher_order.cond, OpClass.OPAQUE),
        (len, OpClass.OPAQUE),
    ],
)
def test_ops_are_classified(op: object, expected: OpClass) -> None:
    assert classify(op) is expected


def test_quantize_is_a_function_and_dequantize_is_left_alone() -> None:
    from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib

    assert quantized_decomposed_lib is not None
    ops = torch.ops.quantized_decomposed
    assert classify(ops.quantize_per_tensor.default) is OpClass.POINTWISE
    assert classify(ops.quantize_per_channel.default) is OpClass.FUNCTION
    assert classify(ops.dequantize_per_tensor.default) is OpClass.OPAQUE
    assert classify(ops.dequantize_per_channel.default) is OpClass.OPAQUE


def test_a_custom_op_is_not_ours_to_judge() -> None:
    @torch.library.custom_op("synthesized_constants_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    op = torch.ops.synthesized_constants_test.twice.default
    assert classify(op) is OpClass.OPAQUE


def test_only_ops_over_several_tensors_broadcast() -> None:
    assert op_traits.broadcasts(edge.aten.mul.Tensor)
    assert op_traits.broadcasts(aten.where.self)
    assert not op_traits.broadcasts(aten.neg.default)
    assert not op_traits.broadcasts(aten.cat.default)
    assert not op_traits.broadcasts(aten.mm.default)


def test_writes_and_aliases_come_from_the_schema() -> None:
    assert op_traits.written_arguments(aten.add_.Tensor) == [0]
    assert op_traits.written_arguments(aten.add.Tensor) == []
    assert op_traits.is_alias(aten.view.default)
    assert not op_traits.is_alias(aten.view_copy.default)


def test_names_are_the_same_in_both_dialects() -> None:
    assert op_traits.op_name(aten.full.default) == "aten.full.default"
    assert op_traits.op_name(edge.aten.full.default) == "aten.full.default"
