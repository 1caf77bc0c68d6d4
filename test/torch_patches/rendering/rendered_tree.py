# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Makes a directory that, put in front on the module search path, has torch and
executorch as installed here, with the edits and the new files in their sources.

    python test/torch_patches/rendering/rendered_tree.py DIR
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONPATH=DIR python ...
"""

import errno
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from executorch.torch_patches.rendering import cli

# What Python needs nothing of: headers, test binaries and CMake files of torch; and what
# is installed of this project beside the stock files.
_LEFT_OUT = {"include", "share", "test", "torch_patches"}


def make(directory: Path) -> None:
    """Fills ``directory``, which must not exist. The files are links to the installed
    ones where the file system allows it; rendering replaces what it changes.

    Raises:
        RuntimeError: rendering fails; the message was printed.
    """
    for package, root in (("torch", "torch"), ("executorch", "executorch.exir")):
        spec = importlib.util.find_spec(root)
        assert spec is not None and spec.origin is not None
        installed = Path(spec.origin).parents[root.count(".")]
        (directory / package).mkdir(parents=True)
        for entry in installed.iterdir():
            copy = directory / package / entry.name
            if entry.is_file():
                _link(str(entry), str(copy))
            elif entry.name not in _LEFT_OUT:
                shutil.copytree(entry, copy, copy_function=_link, symlinks=True)
    ours = directory / "executorch/exir/synthesized_constants"
    shutil.rmtree(ours, ignore_errors=True)  # where it is installed, not linked
    args = ["--pytorch", str(directory), "--executorch", str(directory / "executorch")]
    if cli.main(["render", *args]):
        raise RuntimeError("rendering fails")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copy2(source, target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    make(Path(sys.argv[1]))
