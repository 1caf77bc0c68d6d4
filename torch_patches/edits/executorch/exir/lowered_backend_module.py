# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="LoweredBackendModule.program",
        anchor="buffers_map = sig.inputs_to_buffers",
        replacement="""buffers_map = {
            **sig.inputs_to_buffers,
            **sig.inputs_to_synthesized_constants,
        }""",
        why="The delegate took these along: they are no inputs of the program around it.",
    ),
    Replace(
        owner="arrange_graph_placeholders",
        anchor="buffers_map = graph_sign.inputs_to_buffers",
        replacement="""buffers_map = {
        **graph_sign.inputs_to_buffers,
        **graph_sign.inputs_to_synthesized_constants,
    }""",
        why="Constants come before user inputs, as newer releases see to.",
        until=(1, 5),
    ),
    Replace(
        owner="_get_new_signature",
        anchor="InputKind.CONSTANT_TENSOR,",
        replacement="InputKind.CONSTANT_TENSOR,\n                        InputKind.SYNTHESIZED_CONSTANT,",
        why="A delegate takes the constant with it and keeps its kind.",
    ),
    Replace(
        owner="_unsafe_adjust_original_program",
        anchor="elif input_spec.kind == InputKind.CONSTANT_TENSOR:",
        replacement="""elif input_spec.kind in (
            InputKind.CONSTANT_TENSOR,
            InputKind.SYNTHESIZED_CONSTANT,
        ):""",
        why="What the delegate took leaves the constants table.",
    ),
]
