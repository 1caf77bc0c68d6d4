# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Looks constants up on the stock C++ runtime, by a program of ours that is compiled
against the headers and libraries of the installed package."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Sequence

import executorch.exir
import pytest
import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_pattern_op_partitions,
)
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch.exir.synthesized_constants import Placement, synthesized_inputs
from executorch.exir.synthesized_constants.test.placing import (
    lower,
    Placed,
    Positions,
    two_methods,
)
from torch.fx.passes.operator_support import OperatorSupportBase

#: What the installed package's own CMake configuration gives to those who link it.
FLAGS = ("-std=c++17", "-DC10_USING_CUSTOM_GENERATED_MACROS", "-w")
ROOT = Path(executorch.exir.__file__).parent.parent
SOURCE = Path(__file__).with_name("named_data_probe.cpp")


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return name
    return ""


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = _compiler()
    if not compiler:
        pytest.skip("there is no C++ compiler: none of $CXX, c++, g++, clang++")
    if not (ROOT / "lib").is_dir():
        pytest.skip("executorch has no libraries to link: they are new in 1.5")
    binary = tmp_path_factory.mktemp("probe") / "named_data_probe"
    include = ROOT / "include"
    command = [
        compiler,
        *FLAGS,
        f"-I{include}",
        f"-I{include / 'executorch/runtime/core/portable_type/c10'}",
        str(SOURCE),
        f"-L{ROOT / 'lib'}",
        "-Wl,--no-as-needed",  # kernels register themselves
        "-lexecutorch",
        "-lexecutorch_kernels_optimized",
        f"-Wl,-rpath,{ROOT / 'lib'}",
        "-o",
        str(binary),
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return binary


def look_up(probe: Path, *arguments: Any) -> Dict[str, bytes]:
    """Name -> bytes, as the runtime gives them."""
    command = [str(probe), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        name, size, content = line.split(" ")
        assert len(content) == 2 * int(size), line
        found[name] = bytes.fromhex(content)
    return found


def write(placed: Placed, directory: Path) -> Path:
    """Writes a program and its data files; returns the path of the program."""
    path = directory / "program.pte"
    path.write_bytes(placed.pte)
    placed.program.write_tensor_data_to_file(str(directory))
    return path


def values(placed: Placed, method: str = "forward") -> Dict[str, bytes]:
    """Name -> bytes of the constants that the graph of a method holds."""
    program = placed.edge.exported_program(method)
    return {
        target: program.constants[target].numpy().tobytes()
        for target in program.graph_signature.synthesized_constants
    }


def test_the_program_gives_each_constant_by_name(probe: Path, tmp_path: Path) -> None:
    placed = lower(two_methods())
    expected = {**values(placed, "first"), **values(placed, "second")}
    assert len(expected) == 4
    found = look_up(probe, write(placed, tmp_path), *expected)
    assert found == expected


def test_an_unnamed_constant_is_not_found(probe: Path, tmp_path: Path) -> None:
    placed = lower(Positions(), Placement.program(named=False))
    with pytest.raises(AssertionError, match="get_named_data_map"):
        look_up(probe, write(placed, tmp_path), *values(placed))


def test_a_constant_that_xnnpack_took_is_found_by_its_name(
    probe: Path, tmp_path: Path
) -> None:
    placed = lower(Positions(), delegate=True)
    mask = torch.full((8, 8), float("-inf")).triu(1).numpy().tobytes()
    (name,) = [c.name for c in placed.constants if c.stored_bytes == len(mask)]
    assert name not in placed.edge.exported_program().constants  # it went
    assert look_up(probe, write(placed, tmp_path), name)[name] == mask


def test_the_data_file_gives_constants_by_name(probe: Path, tmp_path: Path) -> None:
    placed = lower(Positions(), Placement.external("tables"))
    path = write(placed, tmp_path)
    found = look_up(probe, path, "--ptd", tmp_path / "tables.ptd", *values(placed))
    assert found == values(placed)


@pytest.mark.parametrize("tag", [None, "defaults"])
def test_default_values_of_inputs_are_found_by_name(
    probe: Path, tmp_path: Path, tag: Any
) -> None:
    placed = lower(Positions(), Placement.input(tag))
    expected = {
        name: value.numpy().tobytes()
        for name, value in synthesized_inputs(placed.program).items()
    }
    assert len(expected) == 3
    path = write(placed, tmp_path)
    where = ["--ptd", tmp_path / f"{tag}.ptd"] if tag else []
    found = look_up(probe, path, *where, *expected)
    assert found == expected


# --- A delegate ----------------------------------------------------------------------


class NamedDataProbe(BackendDetails):
    """Its blob is the list of names to look up when it is initialized."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> PreprocessResult:
        (spec,) = compile_specs
        return PreprocessResult(processed_bytes=spec.value)


class _Sigmoid(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and "sigmoid" in str(node.target)


class ProbePartitioner(Partitioner):
    """Gives each sigmoid to ``NamedDataProbe``."""

    def __init__(self, names: Sequence[str]) -> None:
        spec = CompileSpec("names", "\n".join(names).encode())
        self.delegation_spec = DelegationSpec("NamedDataProbe", [spec])

    def partition(self, exported_program: Any) -> PartitionResult:
        tags = {}
        partitions: List[Any] = generate_pattern_op_partitions(
            exported_program.graph_module, op_support=_Sigmoid()
        )
        for partition in partitions:
            tag = f"tag{partition.id}"
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
            tags[tag] = self.delegation_spec
        return PartitionResult(exported_program, tags)


class Delegated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * torch.arange(64.0).reshape(8, 8), 0).sigmoid()


def test_a_delegate_finds_a_constant_when_it_is_initialized(
    probe: Path, tmp_path: Path
) -> None:
    expected = values(lower(Delegated()))
    assert len(expected) == 1
    placed = lower(Delegated(), partitioner=[ProbePartitioner(list(expected))])
    (plan,) = placed.program.executorch_program.execution_plan
    assert [delegate.id for delegate in plan.delegates] == ["NamedDataProbe"]
    found = look_up(probe, write(placed, tmp_path), "--init", "forward")
    assert found == expected
