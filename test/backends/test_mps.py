# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What MPS makes of synthesized constants. Only some wheels have it, and none but
Apple's machines run it; the graph that it would write is made on any."""

from typing import List

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import export

mps_preprocess = pytest.importorskip("executorch.backends.apple.mps.mps_preprocess")

mps_partitioner = pytest.importorskip(
    "executorch.backends.apple.mps.partition.mps_partitioner"
)


class ScaledTable(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 + torch.full((1, 8), 2.0)


def test_scalars_and_tables_are_constants_and_no_inputs(monkeypatch) -> None:
    graphs: List = []

    def keep(graph) -> bytes:
        graphs.append(graph)
        return b"graph"

    monkeypatch.setattr(mps_preprocess, "convert_to_flatbuffer", keep)
    to_edge_transform_and_lower(
        export(ScaledTable(), (torch.randn(4, 8),)),
        partitioner=[
            mps_partitioner.MPSPartitioner([CompileSpec("use_fp16", bytes([False]))])
        ],
        compile_config=EdgeCompileConfig(lift_synthesized_constants=True),
    )
    (graph,) = graphs
    assert len(graph.input_ids) == 1
    sizes = [graph.mps_values[i].constant_buffer_size for i in graph.constant_ids]
    assert sizes == [4, 4]
