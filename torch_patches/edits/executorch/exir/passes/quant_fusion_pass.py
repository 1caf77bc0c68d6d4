# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch.export import ExportedProgram\n",
        text="""from executorch.exir.synthesized_constants.table import synthesized_tensors
""",
        before=True,
        why="The values of synthesized constants.",
    ),
    Replace(
        owner="_get_node_value_dict",
        anchor="    node_value_dict = {}\n",
        replacement="    node_value_dict = synthesized_tensors(program)\n",
        why="A scale or zero point that was a buffer may be a synthesized constant now.",
    ),
]
