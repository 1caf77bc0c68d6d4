# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="@final\nclass GraphModuleSerializer(",
        text='''def _merge_shared_constants(
    gm: torch.fx.GraphModule, signature: ep.ExportGraphSignature
) -> tuple[torch.fx.GraphModule, ep.ExportGraphSignature]:
    """Returns copies in which each synthesized constant has one placeholder: readers
    that do not know the kind cannot make a module of a program where several
    placeholders have one target. Returns the arguments if there are none such."""
    kept: dict[str, str] = {}
    merged = {}
    for name, target in signature.inputs_to_synthesized_constants.items():
        if kept.setdefault(target, name) != name:
            merged[name] = kept[target]
    if not merged:
        return gm, signature
    copied = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    copied.meta.update(gm.meta)
    for old, new in zip(gm.graph.nodes, copied.graph.nodes):
        new.name = old.name  # FX renames what it holds to be illegal
    nodes = {node.name: node for node in copied.graph.find_nodes(op="placeholder")}
    for name, other in merged.items():
        nodes[name].replace_all_uses_with(nodes[other])
        copied.graph.erase_node(nodes[name])
    inputs = [s for s in signature.input_specs if s.arg.name not in merged]
    outputs = copy.deepcopy(signature.output_specs)
    for spec in outputs:
        spec.arg.name = merged.get(spec.arg.name, spec.arg.name)
    return copied, ep.ExportGraphSignature(inputs, outputs)


''',
        before=True,
        why="Files stay readable for torch without the kind.",
    ),
    Replace(
        owner="GraphModuleSerializer.serialize_input_spec",
        anchor="elif spec.kind == ep.InputKind.CONSTANT_TENSOR:",
        replacement="""elif spec.kind in (
            ep.InputKind.CONSTANT_TENSOR,
            ep.InputKind.SYNTHESIZED_CONSTANT,
        ):""",
        why="It is stored as a constant tensor.",
    ),
    Replace(
        owner="GraphModuleSerializer.serialize_input_spec",
        anchor="                    tensor_constant_name=spec.target,\n",
        replacement="""                    tensor_constant_name=spec.target,
                    synthesized=self.describe_synthesized_constant(spec),
""",
        why="The kind is the presence of a description.",
    ),
    Insert(
        owner="GraphModuleSerializer",
        anchor="    def serialize_output_spec(",
        text="""    def describe_synthesized_constant(self, spec: ep.InputSpec) -> str | None:
        if spec.kind != ep.InputKind.SYNTHESIZED_CONSTANT:
            return None
        return self.synthesized_constants.get(spec.arg.name, "")

""",
        before=True,
        why="The description is the text of whoever made the constant.",
    ),
    Replace(
        owner="GraphModuleSerializer.serialize",
        anchor="        graph = self.serialize_graph(graph_module)\n",
        replacement="""        graph_module, self.graph_signature = _merge_shared_constants(
            graph_module, self.graph_signature
        )
        graph = self.serialize_graph(graph_module)
        self.synthesized_constants = {
            node.name: str(node.meta["synthesized_constant"])
            for node in graph_module.graph.find_nodes(op="placeholder")
            if node.meta.get("synthesized_constant") is not None
        }
""",
        why="Descriptions are on the placeholders, the record is made from the signature.",
    ),
    Replace(
        owner="GraphModuleDeserializer.deserialize_input_spec",
        anchor="kind=ep.InputKind.CONSTANT_TENSOR,",
        replacement="""kind=(
                    ep.InputKind.CONSTANT_TENSOR
                    if i.tensor_constant.synthesized is None
                    else ep.InputKind.SYNTHESIZED_CONSTANT
                ),""",
        why="The kind is the presence of a description.",
    ),
    Replace(
        owner="GraphModuleDeserializer.deserialize",
        anchor="            self.deserialize_graph(serialized_graph_module.graph)\n",
        replacement="""            self.deserialize_graph(serialized_graph_module.graph)
            self.restore_descriptions(serialized_graph_module.signature)
""",
        why="The placeholders get their descriptions back.",
    ),
    Insert(
        owner="GraphModuleDeserializer",
        anchor="    def deserialize_input_spec(",
        text="""    def restore_descriptions(self, signature: GraphSignature) -> None:
        for spec in signature.input_specs:
            if spec.type == "tensor_constant" and spec.tensor_constant.synthesized:
                node = self.serialized_name_to_node[spec.tensor_constant.arg.name]
                node.meta["synthesized_constant"] = spec.tensor_constant.synthesized

""",
        before=True,
        why="The placeholders get their descriptions back.",
    ),
    Replace(
        owner="_dataclass_to_dict",
        anchor="            for f in dataclasses.fields(obj)\n",
        replacement="""            for f in dataclasses.fields(obj)
            if f.name != "synthesized" or getattr(obj, f.name) is not None
""",
        why="A file without the kind keeps its bytes.",
    ),
]
