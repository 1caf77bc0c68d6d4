# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The changes to files of torch and executorch, as source edits.

``edits/`` says what changes, file by file in upstream's own tree; ``edit.py`` makes the
changes to text, ``live.py`` to imported modules, ``installed.py`` meets the packages
that are installed, and ``activation.py`` says when.

Importing this package makes ``executorch.exir.synthesized_constants`` importable where
the installed executorch lives in another site directory. ``import torch`` does that;
with ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` write ``import executorch.torch_patches`` first.
"""

import importlib.machinery
import sys
from pathlib import Path
from typing import Any, Optional


class _OtherSiteDirectory:
    """Finds ``executorch.exir.synthesized_constants`` beside this package.

    ``executorch`` is a namespace package and spans all site directories;
    ``executorch.exir`` is a regular one and is looked up in the first directory only.
    """

    NAME = "executorch.exir.synthesized_constants"

    @classmethod
    def find_spec(
        cls, name: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name != cls.NAME:
            return None
        exir = Path(__file__).resolve().parent.parent / "exir"
        return importlib.machinery.PathFinder.find_spec(name, [str(exir)])


# Last: it is asked only for what nobody else finds.
sys.meta_path.append(_OtherSiteDirectory)  # type: ignore[arg-type]
