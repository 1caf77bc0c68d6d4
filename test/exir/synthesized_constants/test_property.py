# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Whatever runs and is right without the flag, runs and is right with it.

``make fuzz`` runs the same test with many more examples (FUZZ_EXAMPLES).
"""

import functools
import os
from typing import Any, Iterator, List, Tuple

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.program import _program
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.compact import bits
from executorch.exir.synthesized_constants.test.random_programs import (
    random_programs,
    RandomProgram,
)
from executorch.runtime import Runtime
from hypothesis import event, given, HealthCheck, note, settings
from torch._export import utils
from torch.export import exported_program

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "300"))

POLICIES = {
    "default": SynthesizedConstantPolicy(),
    "no_limits": SynthesizedConstantPolicy(
        max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
    ),
    "tight": SynthesizedConstantPolicy(
        max_bytes=16, max_total_bytes=40, max_uniform_bytes=0
    ),
    "nothing": SynthesizedConstantPolicy(max_total_bytes=0),
}


@pytest.fixture(autouse=True, scope="module")
def tables_made_once() -> Iterator[None]:
    """Lowering looks through all ops for its decomposition table each time, which takes
    longer than all else for programs as small as these."""
    cia_ops = functools.lru_cache(None)(utils._collect_all_valid_cia_ops)
    table = functools.lru_cache(None)(_program._default_decomposition_table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            exported_program, "_collect_all_valid_cia_ops", lambda: set(cia_ops())
        )
        patch.setattr(_program, "_default_decomposition_table", lambda: dict(table()))
        yield


def run(program: RandomProgram, flag: Any) -> List[torch.Tensor]:
    """Lowers with the flag and runs on the stock runtime."""
    exported = torch.export.export(program.module(), program.arguments())
    config = EdgeCompileConfig(lift_synthesized_constants=flag)
    buffer = to_edge(exported, compile_config=config).to_executorch().buffer
    method = Runtime.get().load_program(buffer).load_method("forward")
    assert method is not None
    return [x.clone() for x in method.execute(list(program.arguments()))]


def differs(got: List[torch.Tensor], wanted: Tuple[torch.Tensor, ...]) -> str:
    """Says what is not equal bit by bit, "" if nothing."""
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return (
                f"output {i} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
            )
        if not torch.equal(bits(a.contiguous()), bits(b.contiguous())):
            return f"output {i} is {a}, not {b}"
    return "" if len(got) == len(wanted) else f"{len(got)} outputs"


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@settings(
    max_examples=EXAMPLES // len(POLICIES),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(program=random_programs())
def test_lifting_never_makes_a_program_worse(
    policy: SynthesizedConstantPolicy, program: RandomProgram
) -> None:
    note(f"{program}\n{policy}")
    wanted = program.module()(*program.arguments())
    try:
        fault: Any = differs(run(program, policy), wanted)
    except Exception as error:
        fault = error
    if not fault:
        event("equal to eager")
        return
    try:
        stock = differs(run(program, False), wanted)
    except Exception as error:
        event(f"stock fails too: {type(error).__name__}")
        return
    if stock:
        event("stock is wrong too")
        return
    if isinstance(fault, Exception):
        raise fault
    raise AssertionError(fault)
