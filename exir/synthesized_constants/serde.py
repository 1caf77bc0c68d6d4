# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""How a saved edge program (``exir.save``, ETRecord) says which of its constants are
synthesized.

The signature says constant tensor, as the reader of this format refuses fields that it
does not know. It does not refuse unknown metadata of a node: the first user of a
synthesized constant carries the description of it. An older reader thus loads a constant
tensor.
"""

import json
from typing import Dict, Tuple, TYPE_CHECKING

import torch
from executorch.exir.synthesized_constants.recipe import META_KEY
from torch.export import ExportGraphSignature
from torch.export.graph_signature import InputKind

if TYPE_CHECKING:
    from executorch.exir.serde.schema import Graph


def merge_shared_constants(
    graph_module: torch.fx.GraphModule, signature: ExportGraphSignature
) -> Tuple[torch.fx.GraphModule, ExportGraphSignature]:
    """Returns what is to be saved of a program: each synthesized constant has one
    placeholder, as older readers require."""
    # Not at the top: an edit adds it to torch, and torch is edited after this module is
    # imported.
    from torch._export.serde.serialize import (  # type: ignore[attr-defined]
        _merge_shared_constants,
    )

    return _merge_shared_constants(graph_module, signature)


def describe_operands(
    signature: ExportGraphSignature, node: torch.fx.Node, metadata: Dict[str, str]
) -> None:
    """Adds the descriptions of the synthesized constants that ``node`` is the first
    user of.

    Args:
        signature: of the program.
        node: a node that is being saved.
        metadata: what is saved of its meta. Modified in-place.
    """
    first_used = [
        operand
        for operand in node.all_input_nodes
        if operand.op == "placeholder" and next(iter(operand.users)) is node
    ]
    if not first_used:
        return  # so of most nodes; the names take a look at the whole signature
    names = signature.inputs_to_synthesized_constants  # type: ignore[attr-defined]
    described = {
        operand.name: str(operand.meta.get(META_KEY, ""))
        for operand in first_used
        if operand.name in names
    }
    if described:
        metadata[META_KEY] = json.dumps(described)


def restore_synthesized_constants(
    saved: "Graph", graph: torch.fx.Graph, signature: ExportGraphSignature
) -> None:
    """Gives the constants of a loaded program their kind and description back.

    Args:
        saved: the graph as it stands in the file.
        graph: the loaded graph. Modified in-place.
        signature: of the loaded program. Modified in-place.
    """
    described: Dict[str, str] = {}
    for node in saved.nodes:
        described.update(json.loads(node.metadata.get(META_KEY, "{}")))
    if not described:
        return
    for spec in signature.input_specs:
        if spec.kind == InputKind.CONSTANT_TENSOR and spec.arg.name in described:
            spec.kind = InputKind.SYNTHESIZED_CONSTANT  # type: ignore[attr-defined]
    for placeholder in graph.find_nodes(op="placeholder"):
        if described.get(placeholder.name):
            placeholder.meta[META_KEY] = described[placeholder.name]
