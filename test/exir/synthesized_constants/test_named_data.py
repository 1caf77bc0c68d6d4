# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import copy
from typing import Any

import torch
from executorch.exir._serialize._program import PTEFile
from executorch.exir.synthesized_constants.named_data import own_named_data
from executorch.exir.synthesized_constants.names import parse_name
from executorch.exir.synthesized_constants.test.placing import lower
from torch.export import export


class Tied(torch.nn.Module):
    """A table that kernels look up in and the delegate multiplies by."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.table(ids) + torch.arange(8) / 8.0
        return torch.nn.functional.linear(hidden, self.table.weight)


def tied_file() -> Any:
    """What is about to be written for ``Tied``."""
    placed = lower(export(Tied(), (torch.arange(4),)), delegate=True)
    emitted: Any = placed.program._emitter_output
    make: Any = PTEFile
    return make(
        program=copy.deepcopy(emitted.program),
        named_data=placed.program._named_data,
        named_constants=emitted.named_constant_map,
    )


def test_named_data_that_is_a_constant_needs_no_bytes() -> None:
    file = tied_file()
    assert file.named_data.pte_data.keys() - own_named_data(file, 16).keys()


def test_a_delegate_of_a_training_program_keeps_its_copy() -> None:
    file = tied_file()
    (plan,) = file.program.execution_plan
    training = copy.copy(plan)
    training.name = "__et_training_gradients_index_forward"
    file.program.execution_plan.append(training)
    assert own_named_data(file, 16) == file.named_data.pte_data


def test_a_program_without_synthesized_constants_is_left_as_it_is() -> None:
    file = tied_file()
    file.named_constants = {}
    for key in [k for k in file.named_data.pte_data if parse_name(k)]:
        del file.named_data.pte_data[key]
    assert own_named_data(file, 16) == file.named_data.pte_data
