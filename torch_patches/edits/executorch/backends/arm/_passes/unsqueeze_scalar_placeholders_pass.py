# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch._export.utils import ",
        text="""from executorch.exir.synthesized_constants.recipe import is_synthesized_constant
from executorch.exir.synthesized_constants.table import unsqueeze_scalar
""",
        before=True,
        why="What this pass does to a synthesized constant.",
    ),
    Replace(
        owner="UnsqueezeScalarPlaceholdersPass.should_run_pass",
        anchor="            if is_buffer(self.exported_program, node) or is_param(",
        replacement="""            if is_synthesized_constant(self.exported_program, node):
                return True
            if is_buffer(self.exported_program, node) or is_param(""",
        why="A lifted scalar that was a buffer is a synthesized constant now.",
    ),
    Replace(
        owner="UnsqueezeScalarPlaceholdersPass.call",
        anchor="                else:\n                    continue\n",
        replacement="""                else:
                    modified |= unsqueeze_scalar(self.exported_program, node)
                    continue
""",
        why="A lifted scalar that was a buffer is a synthesized constant now.",
    ),
]
