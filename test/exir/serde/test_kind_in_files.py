# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import io
import os

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import Inspector, parse_etrecord
from executorch.exir import load, save, to_edge, to_edge_transform_and_lower
from executorch.exir.synthesized_constants.recipe import (
    description_of,
    get_synthesized_constant,
)
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    mask_program,
    merged,
    run_on_runtime,
    synthesized,
    with_flag,
)
from torch.export import export


@pytest.fixture(scope="module")
def edge():
    return to_edge(mask_program(), compile_config=with_flag()).exported_program()


def through_a_file(program):
    place = io.BytesIO()
    save(program, place)
    place.seek(0)
    return load(place)


def test_a_saved_edge_program_comes_back_with_kind_and_results(edge):
    again = through_a_file(edge)
    assert synthesized(again) == merged(edge)
    assert torch.equal(again.module()(*ARGS), expected())
    again.validate()


def test_a_saved_edge_program_comes_back_with_descriptions(edge):
    known = {n.name: description_of(n) for n in edge.graph.nodes}
    again = through_a_file(edge)
    assert synthesized(again)
    for node in again.graph.find_nodes(op="placeholder"):
        assert description_of(node) == known[node.name]
        assert get_synthesized_constant(again, node) == known[node.name]


def test_a_constant_without_description_keeps_its_kind():
    program = to_edge(mask_program(), compile_config=with_flag()).exported_program()
    for node in program.graph.find_nodes(op="placeholder"):
        node.meta.pop("synthesized_constant", None)
    again = through_a_file(program)
    assert synthesized(again) == merged(program)
    for node in again.graph.find_nodes(op="placeholder"):
        described = get_synthesized_constant(again, node)
        assert (described is not None) == (node.name in synthesized(again))


def test_the_program_of_a_delegate_keeps_the_kind_in_a_file():
    program = to_edge_transform_and_lower(
        mask_program(), partitioner=[XnnpackPartitioner()], compile_config=with_flag()
    ).exported_program()
    inner = program.graph_module.lowered_module_0.original_module
    again = through_a_file(program).graph_module.lowered_module_0.original_module
    assert synthesized(again) == merged(inner)
    assert torch.equal(again.module()(*ARGS)[0], inner.module()(*ARGS)[0])


def test_a_body_of_control_flow_survives_a_file():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(
                x.sum() > 0,
                lambda y: y + torch.arange(8),
                lambda y: y - torch.ones(8, 8).triu(),
                (x,),
            )

    program = to_edge(export(Branch(), ARGS), compile_config=with_flag())
    before = program.exported_program()
    again = through_a_file(before)
    assert synthesized(again) == merged(before)
    for args in (ARGS, (ARGS[0] - 100,)):
        assert torch.equal(again.module()(*args), Branch()(*args))


class Image(torch.nn.Module):
    """A constant of one element beside an operand in channels_last: strides alone do
    not tell the constant's dim order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = torch.nn.AvgPool2d(1)

    def forward(self, x):
        x = x.to(memory_format=torch.channels_last)
        return x * torch.full_like(x, 0.5) + x


IMAGE = (torch.randn(1, 3, 4, 5),)


def test_the_dim_order_of_a_constant_survives_a_file():
    manager = to_edge(export(Image(), IMAGE), compile_config=with_flag())
    program = manager.exported_program()
    assert [
        description_of(n).dim_order
        for n in program.graph.nodes
        if n.name in synthesized(program)
    ] == [(0, 2, 3, 1)]
    manager._edge_programs["forward"] = through_a_file(program)
    (result,) = run_on_runtime(manager.to_executorch(), *IMAGE)
    assert torch.equal(result.contiguous(), Image()(*IMAGE).contiguous())


@pytest.fixture(scope="module")
def lowered():
    edge = to_edge(mask_program(), compile_config=with_flag(), generate_etrecord=True)
    return edge.to_executorch()


def test_an_etrecord_keeps_the_kind(lowered, tmp_path):
    path = str(tmp_path / "record.bin")
    lowered.get_etrecord().save(path)
    record = parse_etrecord(path)
    edge = record.edge_dialect_program
    assert set(synthesized(edge).values()) == {
        "where_8x8_f32_c9a1f72b",
        "full_1_f32_729938dc",
        "mul_8_f32_b7b1e434",
    }
    assert torch.equal(edge.module()(*ARGS), expected())
    assert not synthesized(record.exported_program)  # that is the user's own
    assert torch.equal(record.exported_program.module()(*ARGS), expected())


def test_the_inspector_works_with_the_etrecord(lowered, tmp_path):
    path, dump = str(tmp_path / "record.bin"), str(tmp_path / "dump.etdp")
    lowered.get_etrecord().save(path)
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch_from_buffer(
        lowered.buffer, enable_etdump=True, debug_buffer_size=1 << 16
    )
    module.run_method("forward", list(ARGS))
    if module.has_etdump():
        module.write_etdump_result_to_file(dump)
    if not os.path.exists(dump):  # that of executorch 1.4 says that it has one
        pytest.skip("the runtime of this wheel writes no ETDump")
    inspector = Inspector(etdump_path=dump, etrecord=path)
    names = [event.name for block in inspector.event_blocks for event in block.events]
    assert any("native_call_addmm" in name for name in names)
    operators = {
        op
        for block in inspector.event_blocks
        for event in block.events
        for op in event.op_types
    }
    assert "aten.addmm.default" in operators or "addmm" in str(operators)
