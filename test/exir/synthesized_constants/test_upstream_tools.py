# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Upstream's tools read files with names, data files and synthesized inputs."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from executorch.devtools.etrecord import parse_etrecord
from executorch.devtools.pte_tool.diff_pte import diff_pte, format_diff_result
from executorch.devtools.size_analysis_tool.size_analysis_tool import (
    generate_model_size_information,
)
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch.exir._serialize._program import (
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch.exir.print_program import pretty_print, print_program
from executorch.exir.synthesized_constants import (
    Placement,
    synthesized_inputs,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.test.placing import (
    assert_same,
    lower,
    Placed,
    Positions,
    X,
)
from executorch.extension.pybindings.portable_lib import (
    _load_for_executorch_from_buffer,
)
from torch.export import export

PLACEMENTS = [Placement.PROGRAM, Placement.EXTERNAL, Placement.INPUT]


@pytest.fixture(
    scope="module", params=[(p, d) for p in PLACEMENTS for d in (False, True)], ids=str
)
def placed(request: pytest.FixtureRequest) -> Placed:
    placement, delegate = request.param
    return lower(Positions(), placement, delegate)


def test_a_file_that_upstream_takes_apart_and_writes_again_runs(placed: Placed) -> None:
    taken_apart = deserialize_pte_binary(placed.pte)
    again = bytes(serialize_pte_binary(taken_apart, extract_delegate_segments=True))
    files = list(placed.ptd.values())  # the module does not keep them
    module = _load_for_executorch_from_buffer(again, *files)
    defaults = synthesized_inputs(placed.program).values()
    assert_same(module.forward([X, *defaults]), Positions()(X))
    read_again = deserialize_pte_binary(again).named_data
    assert (read_again and read_again.pte_data.keys() or set()) == placed.named().keys()


def test_diff_compares_with_a_program_without_constants(placed: Placed) -> None:
    # It reports no named data: its reader moves that out of where it then looks.
    stock = bytes(lower(Positions(), None).pte)
    result = diff_pte(stock, placed.pte)
    assert not result.error
    assert result.plan_diffs and not result.bitwise_equal
    assert format_diff_result(result)
    assert diff_pte(placed.pte, placed.pte).bitwise_equal


def test_size_analysis_counts_the_constants(placed: Placed) -> None:
    program = placed.program.exported_program()
    info = generate_model_size_information(program, flatbuffer=placed.pte)
    json.dumps(info)
    overview = info["overview"]
    assert overview["model_size"] == len(placed.pte)
    held = sum(
        program.constants[t].nbytes
        for t in program.graph_signature.synthesized_constants
    )
    assert overview["total_tensor_data_size"] >= held


def test_programs_can_be_printed(placed: Placed) -> None:
    program = placed.program.executorch_program
    plain, pretty = io.StringIO(), io.StringIO()
    print_program(program, out=plain)
    pretty_print(program, out=pretty)
    assert plain.getvalue() and pretty.getvalue()
    placed.program.dump_executorch_program(verbose=True, out=io.StringIO())


@pytest.mark.parametrize("placement", PLACEMENTS, ids=repr)
def test_an_etrecord_gives_the_program_back(tmp_path: Path, placement: Any) -> None:
    policy = SynthesizedConstantPolicy(placement=placement)
    edge = to_edge_transform_and_lower(
        export(Positions(), (X,)),
        compile_config=EdgeCompileConfig(
            lift_synthesized_constants=policy  # type: ignore[call-arg]
        ),
        generate_etrecord=True,
    )
    program = edge.to_executorch(ExecutorchBackendConfig())
    path = str(tmp_path / "record.bin")
    program.get_etrecord().save(path)
    record = parse_etrecord(path)
    loaded: Any = record.edge_dialect_program
    if isinstance(loaded, dict):
        (loaded,) = loaded.values()
    expected = edge.exported_program()
    inputs = synthesized_inputs(expected)
    assert list(synthesized_inputs(loaded)) == list(inputs)
    assert loaded.call_spec == expected.call_spec
    assert (
        loaded.graph_signature.synthesized_constants
        == expected.graph_signature.synthesized_constants
    )
    assert_same([loaded.module()(X, **inputs)], Positions()(X))


def test_model_explorer_shows_the_program(placed: Placed, tmp_path: Path) -> None:
    adapter = pytest.importorskip(
        "pte_adapter_model_explorer.main",
        reason="executorch-extension-model-explorer is not installed",
    )
    path = tmp_path / "program.pte"
    path.write_bytes(placed.pte)
    collections = adapter.PTEAdapter().convert(str(path), {})["graphCollections"]
    graphs = [graph for each in collections for graph in each.graphs]
    assert any(graph.id == "forward" and graph.nodes for graph in graphs)
