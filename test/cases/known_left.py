# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The measure of what is left to lift."""

import collections
from typing import Any, Counter, List, Set

from executorch.exir import ExecutorchProgramManager
from executorch.exir.schema import (
    DelegateCall,
    IntList,
    KernelCall,
    OptionalTensorList,
    Tensor,
    TensorDataLocation,
    TensorList,
)

# Ops whose tensor operands count for their shape alone.
_SHAPE_ONLY = {
    "full_like",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "sym_size",
    "zeros_like",
}
# Ops whose result nobody knows.
_UNKNOWABLE = {
    "_empty_dim_order",
    "bernoulli",
    "empty_like",
    "native_dropout",
    "new_empty",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
}


def known_left(
    program: ExecutorchProgramManager, method: str = "forward"
) -> Counter[str]:
    """Counts instructions of an emitted plan whose result the compiler knew: no
    argument depends on an input, a weight or mutable state.

    Constants without a name in the .pte are taken for weights. What writes a method
    output is not counted, nor are control-flow jumps and moves; with jumps in the plan
    the answer is an approximation.

    Returns:
        Number of such instructions by name of the op.
    """
    plans = program.executorch_program.execution_plan
    plan = next(plan for plan in plans if plan.name == method)
    values = [value.val for value in plan.values]
    calls = [i.instr_args for chain in plan.chains for i in chain.instructions]
    constants = {i for i, v in enumerate(values) if _is_named_constant(v)}
    unknown = set(plan.inputs) | _weights_and_state(plan, values, calls)
    unknown -= constants
    produced: Set[int] = set()
    left: Counter[str] = collections.Counter()
    for call in calls:
        if isinstance(call, DelegateCall):
            results = [i for i in call.args if i not in produced | constants | unknown]
            unknown.update(results)
        elif isinstance(call, KernelCall):
            name = plan.operators[call.op_index].name.split("::")[-1]
            results = _leaves(values, call.args[-1])
            arguments = [j for i in call.args[:-1] for j in _leaves(values, i)]
            depends = any(j in unknown for j in arguments if j not in results)
            depends = depends and name not in _SHAPE_ONLY
            depends = depends or name in _UNKNOWABLE or name.startswith("copy_")
            depends = depends or "executorch_prim" in plan.operators[call.op_index].name
            if depends:
                unknown.update(results)
            else:
                unknown.difference_update(results)
                left[name] += not set(results) & set(plan.outputs)
        else:
            continue
        produced.update(results)
    return +left


def _leaves(values: List[Any], index: int) -> List[int]:
    value = values[index]
    if isinstance(value, (TensorList, OptionalTensorList, IntList)):
        return [i for i in value.items if i >= 0]
    return [index]


def _is_named_constant(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.allocation_info is None
        and value.extra_tensor_info is not None
        and bool(value.extra_tensor_info.fully_qualified_name)
        and value.extra_tensor_info.location is not TensorDataLocation.EXTERNAL
    )


def _weights_and_state(plan: Any, values: List[Any], calls: List[Any]) -> Set[int]:
    """Constants without a name, and tensors in planned memory that are read before
    anything writes them: mutable buffers."""
    found = {
        i
        for i, v in enumerate(values)
        if isinstance(v, Tensor)
        and not _is_named_constant(v)
        and (v.data_buffer_idx > 0 or v.extra_tensor_info is not None)
    }
    written: Set[int] = set(plan.inputs)
    for call in calls:
        if isinstance(call, KernelCall):
            results = set(_leaves(values, call.args[-1]))
            read = {j for i in call.args[:-1] for j in _leaves(values, i)} - results
            # copy_ gives back the buffer that it writes to.
            if plan.operators[call.op_index].name.endswith("copy_"):
                read |= {call.args[0]}
        elif isinstance(call, DelegateCall):
            results, read = set(call.args), set()
        else:
            continue
        found |= {
            i
            for i in read - written
            if isinstance(values[i], Tensor) and values[i].allocation_info is not None
        }
        written |= results
    return found
