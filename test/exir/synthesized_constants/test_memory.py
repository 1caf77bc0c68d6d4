# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The memory of tensors that the pass takes, counted."""

from typing import Any, Callable, List, Tuple

import pytest
import torch
from executorch.exir.synthesized_constants import (
    analyse,
    evaluate,
    lift_synthesized_constants,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.analyse import RETAINED_TOTAL
from executorch.exir.synthesized_constants.test.helpers import lower_and_run
from executorch.exir.synthesized_constants.test.large_values import (
    CausalMask,
    Fills,
    RotaryTable,
    UNLIMITED,
)
from executorch.exir.synthesized_constants.test.tensor_memory import peak_tensor_bytes
from torch.export import export, ExportedProgram

SIZE = 1024
VALUE = 4 * SIZE * SIZE  # bytes of a mask
SMALL = RETAINED_TOTAL  # what small values and descriptions may take
NO_TOTAL = SynthesizedConstantPolicy(max_total_bytes=None)


def lifted(
    module: torch.nn.Module, *inputs: torch.Tensor, policy: Any = True
) -> Tuple[int, ExportedProgram]:
    """The most bytes of tensors that the pass held at once, and the program after it."""
    program = export(module, inputs).run_decompositions({})
    return peak_tensor_bytes(lambda: lift_synthesized_constants(program, policy))


def stored_bytes(program: ExportedProgram) -> int:
    tensors = program.constants.values()
    return sum(t.numel() * t.element_size() for t in tensors)


def ops(program: ExportedProgram) -> List[str]:
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    return [str(n.target).split(".")[1] for n in calls]


class Sums(torch.nn.Module):
    """Makes ``count`` masks, and only then a small value of each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        masks = [torch.ones(SIZE, SIZE).tril(-i) for i in range(self.count)]
        for mask in masks:
            x = x + mask.sum(0)
        return x


class Rows(torch.nn.Module):
    """Takes one row of each of ``count`` tables."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(self.count):
            x = x * torch.arange(float(SIZE * SIZE)).add(i).reshape(SIZE, SIZE)[1]
        return x


class Chain(torch.nn.Module):
    """A chain of ``count`` ops over a mask."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(SIZE, SIZE).tril()
        for i in range(self.count):
            mask = mask * i + 1.0
        return x + mask


def test_what_cannot_be_stored_and_leads_to_nothing_small_is_not_computed() -> None:
    peak, program = lifted(CausalMask(SIZE), torch.zeros(SIZE, SIZE))
    assert "tril" in ops(program)
    assert peak <= SMALL
    peak, program = lifted(Chain(20), torch.zeros(SIZE, SIZE))
    assert "tril" in ops(program)
    assert peak <= SMALL


def test_a_small_part_of_a_large_value_takes_one_op_at_a_time() -> None:
    module = CausalMask(SIZE, lambda mask: mask[128])
    peak, program = lifted(module, torch.zeros(SIZE))
    assert ops(program) == ["add"]
    assert peak <= 2 * VALUE + SMALL  # an operand and the result of each op
    lower_and_run(module, (torch.randn(SIZE),))


def test_a_part_does_not_keep_the_whole_alive() -> None:
    peak, program = lifted(Rows(16), torch.zeros(SIZE))
    assert ops(program) == ["mul"] * 16
    assert peak <= 2 * VALUE + SMALL


def test_a_chain_that_is_stored_takes_one_op_at_a_time() -> None:
    peak, program = lifted(Chain(20), torch.zeros(SIZE, SIZE), policy=UNLIMITED)
    assert ops(program) == ["add"]
    assert stored_bytes(program) == VALUE
    assert peak <= 2 * VALUE + SMALL


def test_many_stored_constants_are_made_one_by_one() -> None:
    class Masks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i in range(12):
                x = x + torch.ones(SIZE, SIZE).tril(-i)
            return x

    peak, program = lifted(Masks(), torch.zeros(SIZE, SIZE), policy=UNLIMITED)
    assert stored_bytes(program) == 12 * VALUE
    assert peak <= stored_bytes(program) + VALUE + SMALL


def test_a_rotary_table_takes_little_more_than_what_is_stored() -> None:
    module = RotaryTable(4096, 64)
    peak, program = lifted(module, torch.zeros(1, 4096, 64), policy=NO_TOTAL)
    stored = stored_bytes(program)
    assert stored == 2 * 4096 * 64 * 4
    assert peak <= stored + stored // 2 + SMALL


def test_uniform_values_take_nothing_however_many() -> None:
    peak, _ = lifted(Fills(100, 4096), torch.zeros(1, 1, 1))  # of 64 MiB each
    assert peak <= 16 << 10


@pytest.mark.parametrize("masks", [3, 8])
def test_all_that_waits_is_within_the_evaluation_limit(
    masks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 16 << 20
    for module in (analyse, evaluate):
        monkeypatch.setattr(module, "EVALUATION_LIMIT", limit)
    peak, program = lifted(Sums(2 * masks), torch.zeros(SIZE))
    assert set(ops(program)) == {"add"}
    assert min(limit, 2 * masks * VALUE) // 2 <= peak <= limit + SMALL


def over_limit(make: Callable[[], torch.Tensor]) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + make()

    peak, program = lifted(Module(), torch.zeros(4))
    assert "sum" in ops(program)
    assert peak <= 4 << 20


def test_no_op_is_run_that_would_exceed_the_limit() -> None:
    numbers = lambda: torch.arange(1 << 15)  # noqa: E731
    over_limit(lambda: (numbers()[:, None] < numbers()).sum())  # 1 GiB
    over_limit(lambda: numbers().repeat(1 << 15).sum())  # 8 GiB
    over_limit(lambda: torch.cat([numbers().expand(2000, -1)] * 2, 1).tril().sum())
