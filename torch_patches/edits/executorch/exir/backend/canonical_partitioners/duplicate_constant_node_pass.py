# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch._export.utils import get_buffer, get_lifted_tensor_constant, get_param\n",
        text="""from executorch.exir.synthesized_constants.table import duplicate_placeholder
""",
        before=True,
        why="How a synthesized constant is duplicated.",
    ),
    Replace(
        owner="duplicate_constant_node",
        anchor="    new_input_specs = []\n",
        replacement="""    if exported_program.graph_signature.inputs_to_synthesized_constants.get(
        candidate_node
    ):
        return duplicate_placeholder(exported_program, to_be_copied[0])
    new_input_specs = []
""",
        why="One placeholder per user, one tensor for all; also where the user takes a list.",
    ),
]
