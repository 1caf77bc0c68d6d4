# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch import fx\n",
        text="""from executorch.exir.synthesized_constants.table import become_plain
""",
        before=True,
        why="What this pass does to a synthesized constant.",
    ),
    Replace(
        owner="_set_param_ep",
        anchor="        node = node_or_name\n",
        replacement="""        node = node_or_name
        become_plain(exported_program, node)
""",
        why="Other users of the tensor want it as it was.",
    ),
]
