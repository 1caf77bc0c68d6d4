# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.error import ExportError
from executorch.exir.synthesized_constants import (
    lift_synthesized_constants,
    Placement,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.manifest import MANIFEST_KEY
from executorch.exir.synthesized_constants.placement import DEFAULT_TAG
from executorch.exir.synthesized_constants.test.placing import (
    assert_same,
    lower,
    Placed,
    Positions,
    two_expected,
    two_methods,
    X,
)
from executorch.extension.flat_tensor.serialize.serialize import (
    FlatTensorConfig,
    FlatTensorSerializer,
)
from executorch.runtime import Runtime


def keys(placed: Placed, tag: str = DEFAULT_TAG) -> Any:
    """Key -> bytes of a data file, as upstream's reader gives them."""
    serializer = FlatTensorSerializer(FlatTensorConfig())
    payload: Any = serializer.deserialize(placed.program._tensor_data[tag])
    return {
        key: bytes(payload.buffers[entry.buffer_index])
        for key, entry in payload.named_data.items()
    }


@pytest.mark.skipif(
    "data_path" not in inspect.signature(Runtime.load_program).parameters,
    reason="new in the Python runtime of executorch 1.5",
)
@pytest.mark.parametrize("delegate", [False, True])
def test_the_stock_runtime_runs_with_the_file_and_says_when_it_is_missing(
    tmp_path: Path, delegate: bool
) -> None:
    placed = lower(Positions(), Placement.external("tables"), delegate)
    program = tmp_path / "program.pte"
    program.write_bytes(placed.pte)
    placed.program.write_tensor_data_to_file(str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {"program.pte", "tables.ptd"}
    runtime = Runtime.get()
    loaded = runtime.load_program(program, data_path=tmp_path / "tables.ptd")
    method = loaded.load_method("forward")
    assert method is not None
    assert_same(method.execute([X]), Positions()(X))
    alone = runtime.load_program(program)
    with pytest.raises(RuntimeError, match="error: 0x"):
        alone.load_method("forward")


def test_the_program_shrinks_by_what_the_file_takes() -> None:
    class Large(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat(128, 1) * torch.arange(8192.0).sin().reshape(1024, 8)

    inside, outside = lower(Large()), lower(Large(), Placement.EXTERNAL)
    taken = 4 * 8192
    # Less the list that says what is in the file.
    assert abs(len(inside.pte) - len(outside.pte) - taken) < 512
    assert taken <= len(outside.ptd[DEFAULT_TAG]) < taken + 1024
    assert_same(outside.run(X), Large()(X), atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        ExecutorchBackendConfig(external_constants=True),
        ExecutorchBackendConfig(external_constants=lambda node: "weights"),
    ],
)
def test_weights_leave_the_program_and_constants_stay_by_default(config: Any) -> None:
    placed = lower(Positions(), config=config)
    (tag,) = placed.ptd
    assert set(keys(placed, tag)) == {"linear.weight", "linear.bias"}
    assert len(placed.named()) == 3
    assert_same(placed.run(X), Positions()(X))


def test_weights_and_constants_may_share_a_file() -> None:
    config = ExecutorchBackendConfig(external_constants=True)
    placed = lower(Positions(), Placement.EXTERNAL, config=config)
    found = keys(placed)
    assert set(found) > {"linear.weight", "linear.bias"} and len(found) == 5
    assert list(placed.named()) == [MANIFEST_KEY]
    assert_same(placed.run(X), Positions()(X))


def test_constants_may_go_to_another_file_than_weights() -> None:
    config = ExecutorchBackendConfig(external_constants=lambda node: "weights")
    placed = lower(Positions(), Placement.external("tables"), config=config)
    assert set(keys(placed, "weights")) == {"linear.weight", "linear.bias"}
    assert len(keys(placed, "tables")) == 3


@pytest.mark.parametrize("delegate", [False, True])
def test_a_constant_of_two_methods_is_in_the_file_once(delegate: bool) -> None:
    placed = lower(two_methods(), Placement.EXTERNAL, delegate)
    mask = torch.full((8, 8), float("-inf")).triu(1).numpy().tobytes()
    assert placed.ptd[DEFAULT_TAG].count(mask) == 1
    assert placed.pte.count(mask) == 0
    (name,) = {c.name for c in placed.constants if c.stored_bytes == len(mask)}
    assert keys(placed)[name] == mask
    _assert_both_run(placed)


def test_two_names_of_the_same_bytes_are_both_found() -> None:
    class Bits(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            steps = torch.arange(32, dtype=torch.int32)
            floats = steps.view(torch.float32)
            return x[:4] + floats.view(4, 8), x.to(torch.int32)[:4] + steps.view(4, 8)

    placed = lower(Bits(), Placement.EXTERNAL)
    found = keys(placed)
    assert len(found) == 2 and len(set(found.values())) == 1
    assert placed.ptd[DEFAULT_TAG].count(*set(found.values())) == 1
    assert_same(placed.run(X), Bits()(X))


def test_a_constant_that_methods_put_in_two_files_has_two_names() -> None:
    def rule(constant: Any) -> Placement:
        if constant.method == "first":
            return Placement.PROGRAM
        return Placement.EXTERNAL

    placed = lower(two_methods(), rule)
    mask = torch.full((8, 8), float("-inf")).triu(1).numpy().tobytes()
    names = [c.name for c in placed.constants if c.stored_bytes == len(mask)]
    assert len(set(names)) == 2
    assert names[1].startswith(names[0])
    assert placed.named()[names[0]] == mask
    assert keys(placed)[names[1]] == mask
    _assert_both_run(placed)


def test_a_clash_of_programs_lifted_apart_is_an_error() -> None:
    methods = two_methods()
    for method, tag in (("first", "a"), ("second", "b")):
        policy = SynthesizedConstantPolicy(placement=Placement.external(tag))
        methods[method] = lift_synthesized_constants(methods[method], policy)
    placed = lower(methods, None)
    with pytest.raises(ExportError, match="full|where.*is in two files"):
        placed.pte


def _assert_both_run(placed: Placed) -> None:
    first, second = two_expected()
    assert_same(placed.run(X, method="first"), first)
    assert_same(placed.run(X, torch.ones(1, 8), method="second"), second)
