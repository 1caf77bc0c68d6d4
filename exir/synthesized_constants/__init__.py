# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Synthesized constants: tensors that the compiler knows, named, shrunk and stored.

Importing this package also applies the changes to torch and executorch that it needs.
"""

from executorch.torch_patches.activation import activate

activate()

from executorch.exir.synthesized_constants.lift import (  # noqa: E402
    lift_synthesized_constants,
)
from executorch.exir.synthesized_constants.policy import (  # noqa: E402
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.reader import (  # noqa: E402
    InvalidProgramError,
    read_synthesized_constants,
)
from executorch.exir.synthesized_constants.recipe import (  # noqa: E402
    get_synthesized_constant,
    is_synthesized_constant,
    SynthesizedConstant,
)
from executorch.exir.synthesized_constants.report import (  # noqa: E402
    collect_reports,
    Report,
)

__all__ = [
    "collect_reports",
    "get_synthesized_constant",
    "InvalidProgramError",
    "is_synthesized_constant",
    "lift_synthesized_constants",
    "read_synthesized_constants",
    "Report",
    "SynthesizedConstant",
    "SynthesizedConstantPolicy",
]
