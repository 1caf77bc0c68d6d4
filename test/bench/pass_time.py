# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""How long the pass takes: on graphs of growing size, and as a part of lowering.

    python test/bench/pass_time.py [NODES ...]

Prints for each number of nodes the seconds of the pass and the microseconds a node,
without limits and with a total that does not fit all; then, for the tiny models of the
tests, the pass's share of the time of ``to_edge_transform_and_lower``.
"""

import argparse
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import List

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.synthesized_constants import (
    lift,
    lift_synthesized_constants,
    SynthesizedConstantPolicy,
)
from tabulate import tabulate
from torch.export import export, ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tiny_models import make, MODELS  # noqa: E402

POLICIES = {
    "no limits": SynthesizedConstantPolicy(
        max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
    ),
    "total 2000 bytes": SynthesizedConstantPolicy(max_total_bytes=2000),
}


def program_of(nodes: int) -> ExportedProgram:
    """A program of about ``nodes`` calls, half of them known. It is put together from
    one exported block, since tracing takes much longer than the pass."""

    class Block(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            table = (torch.arange(8.0) * 2).cos().unsqueeze(0) + 1
            x = x * table + torch.full((8, 8), 0.5)
            return (x.relu() * 0.5).tanh()

    block = export(Block(), (torch.randn(8, 8),)).run_decompositions({})
    calls = [n for n in block.graph.nodes if n.op == "call_function"]
    graph = torch.fx.Graph()
    first = next(n for n in block.graph.nodes if n.op == "placeholder")
    x = graph.placeholder("x")
    x.meta = dict(first.meta)
    for i in range(max(nodes // len(calls), 1)):
        copies = {first: x}
        for n in calls:
            copies[n] = graph.node_copy(n, copies.__getitem__)
            if "mul" in n.name and n.args[1] == 2:
                copies[n].args = (copies[n].args[0], i)  # other contents in each block
        (result,) = block.graph.output_node().args[0]
        x = copies[result]
    graph.output((x,))
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, TensorArgument("x"), None)],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(x.name), None)],
    )
    return ExportedProgram(
        root=torch.fx.GraphModule({}, graph),
        graph=graph,
        graph_signature=signature,
        state_dict={},
        range_constraints={},
        module_call_graph=block.module_call_graph,
        constants={},
        verifiers=[block.verifier],
    )


def scaling(sizes: List[int]) -> None:
    lift_synthesized_constants(program_of(100))  # warm up
    rows = []
    for size in sizes:
        for label, policy in POLICIES.items():
            program = program_of(size)
            before = len(program.graph.nodes)
            start = time.perf_counter()
            lift_synthesized_constants(program, policy)
            seconds = time.perf_counter() - start
            after = len(program.graph.nodes)
            rows.append((label, before, after, seconds, seconds / before * 1e6))
    headers = ("policy", "nodes before", "after", "seconds", "us a node")
    print(tabulate(rows, headers, floatfmt=".2f"))


def share_of_lowering() -> None:
    rows = []
    for name in MODELS:
        model, inputs = make(name)
        program = export(model, inputs)
        spent: List[float] = []

        def timed(
            *arguments: object,
            real: object = lift._lift,
            spent: List[float] = spent,
        ) -> object:
            start = time.perf_counter()
            result = real(*arguments)  # type: ignore[operator]
            spent.append(time.perf_counter() - start)
            return result

        lift._lift, real = timed, lift._lift  # type: ignore[assignment]
        start = time.perf_counter()
        config = EdgeCompileConfig(lift_synthesized_constants=True)
        to_edge_transform_and_lower(program, compile_config=config)
        total = time.perf_counter() - start
        lift._lift = real
        rows.append((name, sum(spent), total, 100 * sum(spent) / total))
    print(tabulate(rows, ("model", "pass, s", "lowering, s", "%"), floatfmt=".3f"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="*", type=int, default=[1000, 10000, 50000])
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    scaling(arguments.nodes)
    share_of_lowering()


if __name__ == "__main__":
    main()
