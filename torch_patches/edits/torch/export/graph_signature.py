# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="InputKind",
        anchor="    TOKEN = auto()",
        text="\n    SYNTHESIZED_CONSTANT = auto()",
        why="The kind. It comes last, so that the values of the others stay.",
    ),
    Replace(
        owner="ExportGraphSignature.lifted_tensor_constants",
        anchor="s.kind == InputKind.CONSTANT_TENSOR",
        replacement="s.kind in (InputKind.CONSTANT_TENSOR, InputKind.SYNTHESIZED_CONSTANT)",
        why="A synthesized constant is a constant tensor to all who ask.",
    ),
    Replace(
        owner="ExportGraphSignature.inputs_to_lifted_tensor_constants",
        anchor="s.kind == InputKind.CONSTANT_TENSOR",
        replacement="s.kind in (InputKind.CONSTANT_TENSOR, InputKind.SYNTHESIZED_CONSTANT)",
        why="A synthesized constant is a constant tensor to all who ask.",
    ),
    Insert(
        owner="ExportGraphSignature",
        anchor="    @property\n    def lifted_custom_objs(",
        text="""    # Targets of the tensors that a compiler pass computed at compile time; they are
    # among lifted_tensor_constants too.
    @property
    def synthesized_constants(self) -> Collection[str]:
        return tuple(
            s.target
            for s in self.input_specs
            if s.kind == InputKind.SYNTHESIZED_CONSTANT
            if isinstance(s.target, str)
        )

""",
        before=True,
        why="Lists the new kind alone.",
    ),
    Insert(
        owner="ExportGraphSignature",
        anchor="    @property\n    def inputs_to_lifted_custom_objs(",
        text="""    # Placeholder name -> target, for the inputs in synthesized_constants. Several
    # placeholders may have one target.
    @property
    def inputs_to_synthesized_constants(self) -> Mapping[str, str]:
        return _immutable_dict(
            (s.arg.name, s.target)
            for s in self.input_specs
            if s.kind == InputKind.SYNTHESIZED_CONSTANT
            and isinstance(s.arg, TensorArgument)
            and isinstance(s.target, str)
        )

""",
        before=True,
        why="Lists the new kind alone.",
    ),
]
