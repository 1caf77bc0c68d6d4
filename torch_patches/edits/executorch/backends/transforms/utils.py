# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch._export.utils import (",
        text="""from executorch.exir.synthesized_constants.table import become_plain, is_shared
""",
        before=True,
        why="Several placeholders may have one target.",
    ),
    Replace(
        owner="set_param_tensor",
        anchor="    elif is_lifted_tensor_constant(exp_prog, node):\n",
        replacement="""    elif is_lifted_tensor_constant(exp_prog, node):
        become_plain(exp_prog, node)
""",
        why="What a pass puts in its place is its own; other placeholders keep the old value.",
        since=(1, 5),
    ),
    Replace(
        owner="create_constant_placeholder",
        anchor="case InputKind.CONSTANT_TENSOR:",
        replacement="case InputKind.CONSTANT_TENSOR | InputKind.SYNTHESIZED_CONSTANT:",
        why="A pass may make one.",
    ),
    Replace(
        owner="delete_constant_placeholder",
        anchor="    elif node.name in exp_program.graph_signature.inputs_to_lifted_tensor_constants:\n",
        replacement="""    elif is_shared(exp_program, node):
        pass  # the tensor stays as long as another placeholder has it

    elif node.name in exp_program.graph_signature.inputs_to_lifted_tensor_constants:
""",
        why="Several placeholders may have one target.",
    ),
    Replace(
        owner="create_mutable_buffer",
        anchor="spec.kind not in [InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT]",
        replacement="""spec.kind
        not in [
            InputKind.CONSTANT_TENSOR,
            InputKind.SYNTHESIZED_CONSTANT,
            InputKind.USER_INPUT,
        ]""",
        why="A constant input like the others.",
    ),
    Replace(
        owner="create_mutable_buffer",
        anchor="spec.kind in [InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT]",
        replacement="""spec.kind in [
                InputKind.CONSTANT_TENSOR,
                InputKind.SYNTHESIZED_CONSTANT,
                InputKind.USER_INPUT,
            ]""",
        why="A constant input like the others.",
    ),
]
