# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.pass_base import ExportPass, PassResult\n",
        text="""from executorch.exir.synthesized_constants.table import become_plain
""",
        why="What this pass does to a synthesized constant.",
    ),
    Replace(
        owner="Conv1dToConv2d.update_kernel",
        anchor="        weight_3d = get_param_tensor(",
        replacement="""        become_plain(self.edge_program, weight_node)
        weight_3d = get_param_tensor(""",
        why="Other convolutions may have the same tensor.",
    ),
]
