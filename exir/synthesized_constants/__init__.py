# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Synthesized constants: tensors that the compiler knows, named, shrunk and stored.

Importing this package also applies the changes to torch and executorch that it needs.

What becomes of the kind of a lifted constant:

- It stays through ``run_decompositions``, lowering, delegation, ``transform``, copies and
  files, as does the description. Retracing and files leave one placeholder per constant;
  lifting again gives each user of a small one its own.
- A file read by a torch or executorch that does not know the kind has a CONSTANT_TENSOR.
- ``torch.export.export(program.module(), ...)`` makes a new program of a module like any
  other: what it holds is the module's, so a constant comes back as CONSTANT_TENSOR, of
  the same name.
- A pass that copies a constant, or stores its values in another layout, keeps the kind;
  what a pass computes, even from synthesized constants alone, is a CONSTANT_TENSOR
  (``table.py`` says why).
"""

from executorch.torch_patches.activation import activate

activate()

from executorch.exir.synthesized_constants.inputs import synthesized_inputs
from executorch.exir.synthesized_constants.lift import lift_synthesized_constants
from executorch.exir.synthesized_constants.placement import Placement
from executorch.exir.synthesized_constants.policy import (
    default_policy,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.reader import (
    InvalidProgramError,
    read_synthesized_constants,
)
from executorch.exir.synthesized_constants.recipe import (
    get_synthesized_constant,
    is_synthesized_constant,
    SynthesizedConstant,
)
from executorch.exir.synthesized_constants.report import collect_reports, Report

__all__ = [
    "collect_reports",
    "default_policy",
    "get_synthesized_constant",
    "InvalidProgramError",
    "is_synthesized_constant",
    "lift_synthesized_constants",
    "Placement",
    "read_synthesized_constants",
    "Report",
    "SynthesizedConstant",
    "SynthesizedConstantPolicy",
    "synthesized_inputs",
]
