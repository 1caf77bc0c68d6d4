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
        text="""from executorch.exir.synthesized_constants.table import is_shared
""",
        before=True,
        why="Several placeholders may have one target.",
    ),
    Replace(
        owner="erase_constant_node",
        anchor="    elif name := signature.inputs_to_lifted_tensor_constants.get(node.name, None):\n",
        replacement="""    elif is_shared(exported_program, node):
        exported_program.graph.erase_node(node)
        return
    elif name := signature.inputs_to_lifted_tensor_constants.get(node.name, None):
""",
        why="The tensor stays as long as another placeholder has it.",
    ),
]
