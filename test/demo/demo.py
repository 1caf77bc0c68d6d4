# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Synthesized constants on two real programs, with every claim checked.

The first is the backward graph of pytorch/executorch#15505, the second a small Llama
with random weights. Each is lowered with the flag off and on, run on the stock runtime
and compared with eager. The exit code is 1 if a claim does not hold.
"""

import logging
import sys
import warnings
from dataclasses import dataclass
from typing import Callable, List, Sequence

warnings.simplefilter("ignore", FutureWarning)
logging.disable(logging.WARNING)

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.synthesized_constants import (
    collect_reports,
    read_synthesized_constants,
    Report,
)
from executorch.exir.synthesized_constants.measure import compare, measure, MethodCost
from executorch.runtime import Runtime
from torch.export import export, ExportedProgram
from torch.export.experimental import _export_forward_backward

PLANNED_LIMIT = 33_600_000  # bytes; stock plans 50.3 MB
FILE_SLACK = 512  # bytes, for names
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Lowered:
    """One program, lowered with the flag off or on."""

    pte: bytes
    cost: MethodCost
    reports: List[Report]

    def run(self, *inputs: torch.Tensor) -> List[torch.Tensor]:
        """Outputs of the stock runtime; they outlive it."""
        method = Runtime.get().load_program(self.pte).load_method("forward")
        assert method is not None
        return [output.clone() for output in method.execute(inputs)]


class Checks:
    """Prints claims as they are checked and remembers whether all hold."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, claim: str, holds: bool, seen: object = "") -> None:
        self.failed += not holds
        detail = f" ({seen})" if seen != "" else ""
        print(f"  {'ok    ' if holds else 'FAILED'} {claim}{detail}")


def lower_off_and_on(
    make: Callable[[], ExportedProgram], partitioner: Sequence[Partitioner]
) -> List[Lowered]:
    """Lowers the program with the flag off and on, and prints report and table."""
    results, costs = [], []
    for flag in (False, True):
        with collect_reports() as reports:
            program = to_edge_transform_and_lower(
                make(),
                partitioner=list(partitioner),
                compile_config=EdgeCompileConfig(
                    lift_synthesized_constants=flag  # type: ignore[call-arg]
                ),
            ).to_executorch()
        costs.append(measure(program))
        cost = costs[-1].methods["forward"]
        results.append(Lowered(bytes(program.buffer), cost, reports))
    for report in results[1].reports:
        print(report, end="\n\n")
    print(compare(*costs), end="\n\n")
    return results


class SigmoidSum(torch.nn.Module):
    """The forward of the program in #15505."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x).sum()


def sigmoid_sum_with_backward() -> ExportedProgram:
    x = torch.randn(1, 512, 8192, requires_grad=True)
    return _export_forward_backward(export(SigmoidSum(), (x,)))


def eager_loss_and_gradient(x: torch.Tensor) -> List[torch.Tensor]:
    x = x.clone().requires_grad_()
    loss = SigmoidSum()(x)
    loss.backward()
    assert x.grad is not None
    return [loss.detach(), x.grad]


def check_backward_outputs(check: Checks, stock: Lowered, lifted: Lowered) -> None:
    """Compares with eager on two inputs.

    The loss is a sum of 4 million float32 values. On random values any two orders of
    summation differ, and the runtime's kernel adds in another order than eager, so
    there the loss is held against stock's, bit by bit, and both errors are printed.
    On values whose sigmoid is 0, 1/2 or 1 every order gives the same sum, and the
    loss is held against eager's.
    """
    x = torch.randn(1, 512, 8192)
    loss, gradient = lifted.run(x)
    stock_loss, stock_gradient = stock.run(x)
    eager_loss, eager_gradient = eager_loss_and_gradient(x)
    exact = torch.sigmoid(x.double()).sum()

    def relative(value: torch.Tensor) -> float:
        return abs(value.double() - exact).item() / exact.item()

    error = (gradient - eager_gradient).abs().max().item()
    check("gradient within 1e-6 of eager", error <= TOLERANCE, f"{error:.1e}")
    check(
        "gradient equal to stock's in all bits", torch.equal(gradient, stock_gradient)
    )
    check(
        "loss equal to stock's in all bits, or within 1e-6 of the exact sum",
        torch.equal(loss, stock_loss) or relative(loss) <= TOLERANCE,
        f"relative errors of the sum: lifted {relative(loss):.1e}, stock "
        f"{relative(stock_loss):.1e}, eager {relative(eager_loss):.1e}",
    )
    x = torch.tensor([0.0, 64.0, -128.0])[torch.randint(0, 3, (1, 512, 8192))]
    loss, gradient = lifted.run(x)
    eager_loss, eager_gradient = eager_loss_and_gradient(x)
    error = abs(loss - eager_loss).item()
    check(
        "loss within 1e-6 of eager where any order of summation gives the same sum",
        error <= TOLERANCE,
        f"{loss.item()} and {eager_loss.item()}",
    )
    error = (gradient - eager_gradient).abs().max().item()
    check("gradient within 1e-6 of eager there", error <= TOLERANCE, f"{error:.1e}")


def demo_backward(check: Checks) -> None:
    print(
        "== #15505: sigmoid(x).sum() and its backward, x f32[1, 512, 8192], XNNPACK\n"
    )
    stock, lifted = lower_off_and_on(sigmoid_sum_with_backward, [XnnpackPartitioner()])
    for op in ("full_like", "expand_copy", "_to_dim_order_copy"):
        left = [k for k in lifted.cost.kernels if k.endswith("::" + op)]
        check(f"no {op} left", not left)
    planned = lifted.cost.planned_bytes
    check("planned memory at most 33.6 MB", planned <= PLANNED_LIMIT, f"{planned:,}")
    grown = len(lifted.pte) - len(stock.pte)
    check(".pte at most 512 bytes larger", grown <= FILE_SLACK, f"{grown:+,}")
    check_two_scalars(check, lifted)
    check_backward_outputs(check, stock, lifted)

    print("\n== The same without a partitioner\n")
    stock, lifted = lower_off_and_on(sigmoid_sum_with_backward, [])
    check_two_scalars(check, lifted)
    constants = read_synthesized_constants(lifted.pte)
    names = {c.name for report in lifted.reports for c in report.lifted}
    check("the .pte names the constants", set(constants) == names, sorted(constants))
    ones = all(t.numel() == 1 and t.item() == 1.0 for t in constants.values())
    check("their values are read back", ones)
    check_backward_outputs(check, stock, lifted)


def check_two_scalars(check: Checks, lifted: Lowered) -> None:
    sizes = [c.stored_bytes for report in lifted.reports for c in report.lifted]
    check("two constants of 4 bytes reported", sizes == [4, 4], sizes)


class Logits(torch.nn.Module):
    """A causal language model without its cache."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits


def small_llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    return Logits(LlamaForCausalLM(config)).eval()


def demo_llama(check: Checks) -> None:
    print("\n== A Llama of two layers with random weights, 16 tokens, XNNPACK\n")
    model = small_llama()
    tokens = torch.randint(0, 256, (1, 16))
    stock, lifted = lower_off_and_on(
        lambda: export(model, (tokens,)), [XnnpackPartitioner()]
    )
    with torch.no_grad():
        expected = model(tokens)
    (logits,) = lifted.run(tokens)
    (stock_logits,) = stock.run(tokens)
    error = (logits - expected).abs().max().item()
    stock_error = (stock_logits - expected).abs().max().item()
    check(
        "logits within 1e-6 of eager",
        error <= TOLERANCE,
        f"{error:.1e}, stock {stock_error:.1e}",
    )
    fewer = len(stock.cost.kernels) - len(lifted.cost.kernels)
    check("fewer kernel calls", fewer > 0, f"{-fewer:+}")
    saved = stock.cost.planned_bytes - lifted.cost.planned_bytes
    check("no more planned memory", saved >= 0, f"{-saved:+,} bytes")
    grown = len(lifted.pte) - len(stock.pte)
    check(".pte at most 512 bytes larger", grown <= FILE_SLACK, f"{grown:+,}")


def main() -> int:
    torch.manual_seed(0)
    check = Checks()
    demo_backward(check)
    demo_llama(check)
    failed = f"{check.failed} claims do not hold" if check.failed else "all claims hold"
    print(f"\n{failed}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
