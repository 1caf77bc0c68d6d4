# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What a program costs at run time, and how two of them compare."""

from dataclasses import dataclass
from typing import Dict, List, Tuple

from executorch.exir.program import ExecutorchProgramManager
from executorch.exir.schema import DelegateCall, ExecutionPlan, KernelCall
from tabulate import tabulate


@dataclass(frozen=True)
class MethodCost:
    """What one method costs.

    Attributes:
        kernels: names of the ops that run on kernels, one for each call, in order.
        instructions: number of instructions of all kinds.
        delegates: number of delegates.
        delegate_calls: number of instructions that call one.
        planned_bytes: size of the memory-planned buffers.
    """

    kernels: Tuple[str, ...]
    instructions: int
    delegates: int
    delegate_calls: int
    planned_bytes: int


@dataclass(frozen=True)
class ProgramCost:
    """What a program costs.

    Attributes:
        methods: method name -> its cost.
        file_bytes: size of the .pte file.
    """

    methods: Dict[str, MethodCost]
    file_bytes: int


def measure(manager: ExecutorchProgramManager) -> ProgramCost:
    """Measures an emitted program."""
    plans = manager.executorch_program.execution_plan
    return ProgramCost(
        methods={plan.name: _measure_method(plan) for plan in plans},
        file_bytes=len(manager.buffer),
    )


def _measure_method(plan: ExecutionPlan) -> MethodCost:
    calls = [i.instr_args for chain in plan.chains for i in chain.instructions]
    return MethodCost(
        kernels=tuple(
            plan.operators[call.op_index].name
            for call in calls
            if isinstance(call, KernelCall)
        ),
        instructions=len(calls),
        delegates=len(plan.delegates),
        delegate_calls=sum(isinstance(call, DelegateCall) for call in calls),
        planned_bytes=sum(plan.non_const_buffer_sizes),
    )


def compare(before: ProgramCost, after: ProgramCost) -> str:
    """Returns a table of two programs with the same methods, one row per quantity."""
    rows: List[Tuple[str, int, int]] = []
    for name, old in before.methods.items():
        new = after.methods[name]
        prefix = f"{name}: " if len(before.methods) > 1 else ""
        rows += [
            (f"{prefix}instructions", old.instructions, new.instructions),
            (f"{prefix}kernel calls", len(old.kernels), len(new.kernels)),
            (f"{prefix}delegates", old.delegates, new.delegates),
            (f"{prefix}delegate calls", old.delegate_calls, new.delegate_calls),
            (f"{prefix}planned memory, bytes", old.planned_bytes, new.planned_bytes),
        ]
    rows.append((".pte file, bytes", before.file_bytes, after.file_bytes))
    return tabulate(
        [(what, f"{old:,}", f"{new:,}") for what, old, new in rows],
        headers=("", "before", "after"),
        colalign=("left", "right", "right"),
        disable_numparse=True,
    )
