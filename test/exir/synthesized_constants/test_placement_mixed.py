# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from pathlib import Path
from typing import Any, List

import pytest
import torch
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import (
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.synthesized_constants import Placement, synthesized_inputs
from executorch.exir.synthesized_constants.placement import DEFAULT_TAG, Where
from executorch.exir.synthesized_constants.test.placing import (
    assert_same,
    lower,
    Positions,
    two_expected,
    two_methods,
    X,
)
from executorch.extension.pybindings.portable_lib import (
    _load_bundled_program_from_buffer,
    _load_for_executorch,
    _load_for_executorch_from_buffer,
    _load_for_executorch_from_bundled_program,
)
from executorch.extension.training import get_sgd_optimizer, TrainingModule
from torch.export import export
from torch.export.experimental import _export_forward_backward


def by_size(constant: Any) -> Placement:
    """Masks to a file, tables to inputs, scalars into the program."""
    if constant.stored_bytes >= 256:
        return Placement.EXTERNAL
    return Placement.INPUT if constant.stored_bytes > 4 else Placement.PROGRAM


@pytest.mark.parametrize("delegate", [False, True])
def test_all_places_in_one_program(delegate: bool) -> None:
    placed = lower(two_methods(), by_size, delegate)
    found = {c.placement.where for c in placed.constants if c.placement}
    assert found == {Where.EXTERNAL, Where.INPUT, Where.PROGRAM}
    first, second = two_expected()
    assert_same(placed.run(X, method="first"), first)
    assert_same(placed.run(X, torch.ones(1, 8), method="second"), second)
    with pytest.raises(RuntimeError, match="error: 0x"):
        placed.run(X, method="first", data=False)


@pytest.mark.parametrize("placement", [Placement.PROGRAM, Placement.INPUT, by_size])
def test_methods_that_share_a_mutable_buffer(placement: Any) -> None:
    class Counter(torch.nn.Module):
        state: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.add_(torch.arange(8.0))
            return x + self.state

    class Reader(torch.nn.Module):
        state: torch.Tensor

        def __init__(self, counter: Counter) -> None:
            super().__init__()
            self.register_buffer("state", counter.state)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.mul_(torch.full((8,), 2.0))
            return x * self.state + torch.arange(8.0)

    counter = Counter()
    placed = lower(
        {"count": export(counter, (X,)), "read": export(Reader(counter), (X,))},
        placement,
        config=ExecutorchBackendConfig(
            memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True),
            emit_mutable_buffer_names=True,
        ),
    )
    for method in ("count", "read"):
        outputs = placed.run(X, method=method)
        table = torch.arange(8.0)
        assert_same(outputs, X + table if method == "count" else table.expand(8, 8))


def test_the_name_of_a_mutable_buffer_is_not_that_of_a_constant() -> None:
    class State(torch.nn.Module):
        state: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.add_(torch.arange(8.0))
            return x + self.state * torch.arange(8.0)

    config = ExecutorchBackendConfig(emit_mutable_buffer_names=True)
    placed = lower(State(), config=config)
    assert set(placed.named()) == {c.name for c in placed.constants}
    values: List[Any] = [v.val for v in placed.read().execution_plan[0].values]
    names = {
        value.extra_tensor_info.fully_qualified_name
        for value in values
        if getattr(value, "extra_tensor_info", None)
    }
    assert names == {"state", *placed.named()}
    module = _load_for_executorch_from_buffer(placed.pte)
    table = torch.arange(8.0)
    for i in (1, 2):
        assert_same(module.forward([X]), X + i * table * table)


@pytest.mark.parametrize("placement", [Placement.PROGRAM, Placement.INPUT, by_size])
def test_a_bundled_program_verifies_its_cases(placement: Any) -> None:
    placed = lower(Positions(), placement)
    defaults = list(synthesized_inputs(placed.program).values())
    cases = [
        MethodTestCase([x, *defaults], [Positions()(x).detach()]) for x in (X, X + 1)
    ]
    bundled = BundledProgram(placed.program, [MethodTestSuite("forward", cases)])
    data = serialize_from_bundled_program_to_flatbuffer(bundled)
    loaded = _load_bundled_program_from_buffer(data)
    files = list(placed.ptd.values())  # the module does not keep them
    module = _load_for_executorch_from_bundled_program(loaded, *files)
    assert_same(module.forward([X, *defaults]), Positions()(X))
    if not placed.ptd:  # the verifier takes no data file
        for i in range(len(cases)):
            loaded.verify_result_with_bundled_expected_output("forward", i, 1e-5, 1e-6)
        with pytest.raises(RuntimeError):
            loaded.verify_result_with_bundled_expected_output("forward", 9)


# --- Training -----------------------------------------------------------------------


class Regression(torch.nn.Module):
    """A loss over fixed positions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weight = torch.arange(8) / 8.0 + torch.ones(8)
        return ((self.linear(x) - y) * weight).pow(2).mean()


def losses(steps: int) -> Any:
    """What eager gives."""
    model = Regression()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(X, X * 2)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize("placement", [Placement.PROGRAM, Placement.EXTERNAL, by_size])
def test_a_training_program_takes_steps(tmp_path: Path, placement: Any) -> None:
    program = _export_forward_backward(export(Regression(), (X, X * 2)))
    placed = lower(
        program,
        placement,
        config=ExecutorchBackendConfig(
            external_mutable_weights=True, emit_mutable_buffer_names=True
        ),
    )
    assert placed.constants
    (tmp_path / "program.pte").write_bytes(placed.pte)
    placed.program.write_tensor_data_to_file(str(tmp_path))
    files = [str(tmp_path / "program.pte"), str(tmp_path / f"{DEFAULT_TAG}.ptd")]
    module = TrainingModule(_load_for_executorch(*files))
    inputs = [X, X * 2, *synthesized_inputs(placed.program).values()]
    found = []
    optimizer: Any = None
    for _ in range(3):
        (loss,) = module.forward_backward("forward", inputs)
        optimizer = optimizer or get_sgd_optimizer(module.named_parameters(), 0.01)
        optimizer.step(module.named_gradients())
        found.append(float(loss))
    assert found[0] > found[-1]
    torch.testing.assert_close(found, losses(3), rtol=1e-4, atol=1e-5)
