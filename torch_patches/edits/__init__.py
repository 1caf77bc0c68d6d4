# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""All edits. The file ``edits/torch/export/unflatten.py`` holds, in ``EDITS``, what
changes in ``torch.export.unflatten``, and so on for each edited file."""

import importlib
import pkgutil
from typing import Dict, Tuple

from executorch.torch_patches.edit import Edit


def by_module() -> Dict[str, Tuple[Edit, ...]]:
    """Returns the edits of each upstream module, those of torch first, since the
    edits of executorch use the kind that they add."""
    found = {}
    for info in pkgutil.walk_packages(__path__, __name__ + "."):
        if not info.ispkg:
            module = importlib.import_module(info.name)
            found[info.name[len(__name__) + 1 :]] = tuple(module.EDITS)
    return dict(sorted(found.items(), key=lambda item: not item[0].startswith("torch")))
