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
        text="""from executorch.exir.synthesized_constants.table import mark_contiguous
""",
        before=True,
        why="What a change of layout does to a synthesized constant.",
    ),
    Replace(
        owner="convert_constant_dim_order_pass",
        anchor="            _update_placeholder_meta(exported_program, key, InputKind.CONSTANT_TENSOR)\n",
        replacement="""            if mark_contiguous(exported_program, key):
                continue
            _update_placeholder_meta(exported_program, key, InputKind.CONSTANT_TENSOR)
""",
        why="The same tensor in another layout keeps its kind; it may have several placeholders.",
    ),
]
