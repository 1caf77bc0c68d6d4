# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""``python -m executorch.exir.synthesized_constants``: see ``cli.py``."""

import sys

from executorch.exir.synthesized_constants.cli import main

sys.exit(main())
