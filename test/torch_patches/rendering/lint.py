# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Checks that rendered files have no finding of a linter that the files of upstream do
not have. ``make lint`` runs it. The linters are those of executorch, at its pins."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Dict, Set

from executorch.torch_patches.rendering.render import merge, render
from executorch.torch_patches.rendering.series import EXECUTORCH, new_files, PYTORCH
from executorch.torch_patches.rendering.tree import Directory

PROJECT = Path(__file__).parents[3]


def rendered() -> Dict[str, Dict[str, bytes]]:
    """Returns "before" and "after" -> path -> content of the Python files that rendering
    changes in the installed packages, and of the new ones that are not files of this
    project as they are: those are checked where they are."""
    trees: Dict[str, Dict[str, bytes]] = {"before": {}, "after": {}}
    new = new_files(PROJECT)
    as_they_are = {file.read_bytes() for file in PROJECT.glob("[et]*/**/*.py")}
    for repository, package, up in (
        (PYTORCH, "torch", 1),
        (EXECUTORCH, "executorch.exir", 1),
    ):
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        tree = Directory(Path(spec.origin).parents[up])
        for path, content in merge(render(tree, repository, new)).items():
            if path.endswith(".py") and content not in as_they_are:
                trees["after"][f"{repository}/{path}"] = content
                before = tree.read(path)
                if before is not None:
                    trees["before"][f"{repository}/{path}"] = before
    return trees


def unformatted(root: Path) -> Set[str]:
    """Returns the files that ufmt would change, and those that it cannot read."""
    done = _run("ufmt", "check", "before", "after", cwd=root)
    found = re.findall(
        r"^(?:Would format|Error formatting) (.+?)(?:: .*)?$", done, re.M
    )
    return {os.path.relpath(os.path.join(root, path), root) for path in found}


def findings(root: Path) -> "Counter[str]":
    """Returns path, code and text of what flake8 finds, without lines."""
    done = _run(
        "flake8", "--format=%(path)s: %(code)s %(text)s", "before", "after", cwd=root
    )
    return Counter(line.removeprefix("./") for line in done.splitlines())


def _run(tool: str, *args: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", tool, *args], cwd=cwd, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        sys.exit(f"{tool} fails:\n{done.stderr}")
    return done.stdout + done.stderr


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for name in ("pyproject.toml", ".flake8"):
            shutil.copy(PROJECT / name, root / name)
        for when, files in rendered().items():
            for path, content in files.items():
                (root / when / path).parent.mkdir(parents=True, exist_ok=True)
                (root / when / path).write_bytes(content)
        format_before, format_after = _split(Counter(unformatted(root)))
        before, after = _split(findings(root))
    new = [f"{path}: would be formatted" for path in format_after - format_before]
    new += sorted((after - before).elements())
    print(
        "\n".join(new) or f"rendered files: no new finding ({sum(before.values())} old)"
    )
    return bool(new)


def _split(found: "Counter[str]") -> "tuple[Counter[str], Counter[str]]":
    """Counts of before and after, without that part of the path."""
    parts = []
    for when in ("before/", "after/"):
        parts.append(
            Counter(
                {
                    text[len(when) :]: count
                    for text, count in found.items()
                    if text.startswith(when)
                }
            )
        )
    return parts[0], parts[1]


if __name__ == "__main__":
    sys.exit(main())
