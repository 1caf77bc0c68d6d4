# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir import ExportedProgram\n",
        text="""from executorch.exir.synthesized_constants.recipe import is_synthesized_constant
from executorch.exir.synthesized_constants.table import synthesized_tensors
""",
        optional=True,
        why="What is asked of a placeholder, and where its tensor is.",
    ),
    Replace(
        owner="get_param_tensor",
        anchor="    elif is_get_attr(node):\n",
        replacement="""    elif is_synthesized_constant(exp_prog, node):
        return synthesized_tensors(exp_prog)[node.name]
    elif is_get_attr(node):
""",
        optional=True,
        why="A lifted scalar that was a buffer is a synthesized constant now.",
    ),
    Replace(
        owner="is_parameter",
        anchor="    return is_get_attr(node) or",
        replacement="""    if is_synthesized_constant(exp_prog, node):
        return True
    return is_get_attr(node) or""",
        optional=True,
        why="A lifted scalar that was a buffer is a synthesized constant now.",
    ),
]
