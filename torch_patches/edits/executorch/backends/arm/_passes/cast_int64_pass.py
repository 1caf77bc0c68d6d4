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
from executorch.exir.synthesized_constants.table import (
    set_synthesized_tensor,
    synthesized_tensors,
)
""",
        before=True,
        why="What this pass does to a synthesized constant.",
    ),
    Replace(
        owner="CastInt64BuffersToInt32Pass.should_run_pass",
        anchor="            if fake_tensor.dtype == torch.int64 and is_buffer(\n"
        "                self.exported_program, node\n"
        "            ):",
        replacement="""            if fake_tensor.dtype == torch.int64 and (
                is_buffer(self.exported_program, node)
                or is_synthesized_constant(self.exported_program, node)
            ):""",
        why="TOSA has no int64, whatever the kind of the constant is.",
    ),
    Replace(
        owner="CastInt64BuffersToInt32Pass._to_int32",
        anchor="            if is_buffer(self.exported_program, node):",
        replacement="""            if is_synthesized_constant(self.exported_program, node):
                modified |= self._cast_synthesized_to_int32(node)
            elif is_buffer(self.exported_program, node):""",
        why="TOSA has no int64, whatever the kind of the constant is.",
    ),
    Insert(
        owner="CastInt64BuffersToInt32Pass",
        anchor="    def _to_int32(",
        text="""    def _cast_synthesized_to_int32(self, node: torch.fx.Node) -> bool:
        constant = synthesized_tensors(self.exported_program)[node.name]
        self._assert_within_int32(constant, node)
        cast = constant.to(torch.int32)
        set_synthesized_tensor(self.exported_program, node.name, cast)
        node.meta["val"] = node.meta["val"].to(torch.int32)
        return True

""",
        before=True,
        why="A placeholder of its own is cast; others of the constant have other users.",
    ),
]
