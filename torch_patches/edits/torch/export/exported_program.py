# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="def _decompose_exported_program(",
        text='''def _keep_synthesized_constants(
    old: "ExportedProgram",
    gm: torch.fx.GraphModule,
    new_signature: ExportGraphSignature,
) -> None:
    """Gives constants of a retraced program the kind and the description that their
    targets had before. Placeholders that shared a target have become one."""
    described = {}
    targets = old.graph_signature.inputs_to_synthesized_constants
    for node in old.graph.find_nodes(op="placeholder"):
        target = targets.get(node.name)
        if target is not None:
            described[target] = node.meta.get("synthesized_constant")
    specs = {s.arg.name: s for s in new_signature.input_specs if s.target in described}
    for node in gm.graph.find_nodes(op="placeholder"):
        if node.name in specs:
            specs[node.name].kind = InputKind.SYNTHESIZED_CONSTANT
            node.meta["synthesized_constant"] = described[specs[node.name].target]


''',
        before=True,
        why="run_decompositions traces anew and knows constant tensors only.",
    ),
    Replace(
        owner="_decompose_exported_program",
        anchor="    gm.meta.update(ep.graph_module.meta)\n",
        replacement="""    gm.meta.update(ep.graph_module.meta)
    _keep_synthesized_constants(ep, gm, new_graph_signature)
""",
        why="run_decompositions keeps the kind, by target.",
    ),
    Replace(
        owner="ExportedProgram._graph_module_flat_inputs",
        anchor="InputKind.CONSTANT_TENSOR,",
        replacement="InputKind.CONSTANT_TENSOR,\n                InputKind.SYNTHESIZED_CONSTANT,",
        why="A call passes the tensor from the constants table.",
    ),
]
