# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass\n",
        text="""from executorch.exir.synthesized_constants.policy import (
    default_flag,
    SynthesizedConstantPolicy,
    validate_flag,
)
""",
        why="The type of the flag.",
    ),
    Insert(
        owner="EdgeCompileConfig",
        anchor="    preserve_ops: List[torch.torch._ops.OpOverload] = field(default_factory=list)\n",
        text="""    # Turn tensors that the graph makes at run time although the compiler knows them
    # (full, arange, masks, rotary tables, ...) into constants of the kind
    # SYNTHESIZED_CONSTANT. A policy says which of them and where they are stored. False
    # unless default_policy() or the environment says otherwise.
    lift_synthesized_constants: Union[bool, SynthesizedConstantPolicy] = field(
        default_factory=default_flag
    )

    def __post_init__(self) -> None:
        validate_flag(self.lift_synthesized_constants)
""",
        why="The flag that switches the feature on.",
    ),
]
