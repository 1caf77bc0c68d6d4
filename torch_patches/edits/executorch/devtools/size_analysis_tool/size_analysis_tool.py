# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="_get_nested_model_data",
        anchor="                fqn = sig.inputs_to_buffers[node.name]\n",
        replacement="""                fqn = sig.inputs_to_buffers[node.name]
            elif node.name in sig.inputs_to_synthesized_constants:
                target = sig.inputs_to_synthesized_constants[node.name]
                tensor_data.append(
                    _get_tensor_data(node, exported_program.constants[target])
                )
""",
        why="They count for the size of a program.",
    ),
]
