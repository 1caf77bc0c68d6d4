# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="import get_aten_target_normalized\n",
        text="""from executorch.exir.synthesized_constants.recipe import is_constant_node
""",
        why="The kind, as far as a node without signature tells.",
    ),
    Replace(
        owner="extract_lifted_tensor_constant",
        anchor='if "lifted_tensor_constant" not in node.name:',
        replacement="""if "lifted_tensor_constant" not in node.name and not is_constant_node(node):""",
        why="The epsilon of a norm has another name as a synthesized constant.",
    ),
]
