# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The situations of public reports, with the flag on.

``stock.json`` holds what unpatched executorch 1.5.1 makes of each (delegates, kernel
calls, planned bytes, .pte bytes; or where it fails), ``golden.json`` the kernel calls
with the flag; as other golden results, a run with ``EXPECTTEST_ACCEPT=1`` writes them.
"""

import json
import logging
from pathlib import Path
from typing import Dict

import expecttest
import pytest
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.test.cases import CASES
from executorch.exir.synthesized_constants.test.known_left import known_left
from executorch.exir.synthesized_constants.test.run import Figures, run_case

HERE = Path(__file__).parent
STOCK = json.loads((HERE / "stock.json").read_text())
GOLDEN = HERE / "golden.json"
BACKENDS = ("none", "xnnpack")

UNLIMITED = SynthesizedConstantPolicy(
    max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
)

#: Known instructions that remain without limits, and why.
LEFT: Dict[str, Dict[str, int]] = {
    # dequantize never folds: a backend looks for constant -> dequantize -> op.
    "quant_conv_const_weight": {"dequantize_per_tensor": 1},
    "quant_neginf_mask": {"dequantize_per_tensor": 1},
    # The result of a branch, which is a method output in the end.
    "cond_nested_outputs": {"_clone_dim_order": 1},
    # Emitted for the loop itself.
    "scan_zero_carry": {"sym_size": 1},
}

#: Growth that the default policy allows (bytes, or this part of the file).
GROWTH_BYTES, GROWTH_PART = 64 << 10, 0.01


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.disable(logging.WARNING)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_a_situation_is_no_worse_than_stock(name: str, backend: str) -> None:
    stock = STOCK[name][backend]
    outcome = run_case(name, backend == "xnnpack", True)
    if "fails" in stock:
        if outcome.error:
            pytest.xfail(f"stock fails in {stock['fails']} too")
        return
    assert outcome.error == ""
    now, before = outcome.figures, Figures(**stock)
    assert now.delegates <= before.delegates
    assert now.kernel_calls <= before.kernel_calls
    assert now.planned_bytes <= before.planned_bytes
    allowed = max(GROWTH_BYTES, before.pte_bytes * GROWTH_PART)
    assert now.pte_bytes <= before.pte_bytes + allowed
    golden = json.loads(GOLDEN.read_text())
    if expecttest.ACCEPT:
        golden.setdefault(name, {})[backend] = now.kernel_calls
        rows = (f"  {json.dumps(n)}: {json.dumps(c)}" for n, c in golden.items())
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    assert now.kernel_calls == golden[name][backend]


STATIC = [name for name in CASES if not name.startswith("dyn_")]


@pytest.mark.parametrize("name", STATIC)
def test_nothing_that_is_known_is_left_without_limits(name: str) -> None:
    outcome = run_case(name, False, UNLIMITED, execute=False)
    if outcome.error:
        assert "fails" in STOCK[name]["none"], outcome.error
        pytest.xfail(f"stock fails in {STOCK[name]['none']['fails']} too")
    assert outcome.program is not None
    left: Dict[str, int] = {}
    for method in outcome.program.methods:
        for op, count in known_left(outcome.program, method).items():
            left[op] = left.get(op, 0) + count
    assert left == LEFT.get(name, {})
