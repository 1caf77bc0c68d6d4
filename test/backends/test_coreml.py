# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""CoreML hands the delegate's program to coremltools, which knows its own kinds of
inputs. It converts on any machine; programs run on Apple's alone."""

from typing import List

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch.export import export

pytest.importorskip("coremltools")

from executorch.backends.apple.coreml.compiler import coreml_preprocess
from executorch.backends.apple.coreml.partition import CoreMLPartitioner


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((4, 4), -7.0).triu(1)
        one = torch.full((4, 4), 3.0)
        return torch.softmax(x * one + mask, -1) + one + mask


def converted(flag: bool, monkeypatch: pytest.MonkeyPatch) -> List[str]:
    """Lowers, and returns what is left outside of delegates."""
    kinds = []
    convert = coreml_preprocess.ct.convert

    def spy(model, **options):
        kinds.extend(spec.kind.name for spec in model.graph_signature.input_specs)
        return convert(model=model, **options)

    monkeypatch.setattr(coreml_preprocess.ct, "convert", spy)
    lowered = to_edge_transform_and_lower(
        export(Masked(), (torch.randn(4, 4),)),
        partitioner=[CoreMLPartitioner()],
        compile_config=EdgeCompileConfig(lift_synthesized_constants=flag),
    )
    assert lowered.to_executorch().buffer
    if flag:
        assert kinds.count("CONSTANT_TENSOR") >= 2
    assert set(kinds) <= {"CONSTANT_TENSOR", "USER_INPUT", "BUFFER"}
    nodes = lowered.exported_program().graph.find_nodes(
        op="call_function", target=torch.ops.higher_order.executorch_call_delegate
    )
    assert len(nodes) == 1
    return [
        str(node.target)
        for node in lowered.exported_program().graph.nodes
        if node.op == "call_function"
    ]


def test_a_program_with_synthesized_constants_is_converted(monkeypatch) -> None:
    assert converted(True, monkeypatch) == converted(False, monkeypatch)
