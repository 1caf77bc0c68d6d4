# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Keeps the files of pytorch that are generated from the schema of torch.export in step
with an edited ``schema.py``.

The generator is pytorch's own: ``schema_check.py`` of the tree, run in a process that
sees the few files it needs and no installed torch. It gives the text of each file; where
a file has the text for the schema before the edit, it gets the one for the schema after
it. The version that the generator asks for (a compatible field needs a new minor one)
goes into ``schema.py``.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping

from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering.tree import read_text, Tree

_SERDE = "torch/_export/serde/"
SCHEMA = _SERDE + "schema.py"

# Files that the generator reads.
_INPUTS = (
    SCHEMA,
    _SERDE + "union.py",
    _SERDE + "schema_check.py",
    _SERDE + "schema.yaml",
    _SERDE + "export_schema.thrift",
)

# Generated file -> name of its text in what _GENERATE prints. The header lies elsewhere
# in an installed torch than in a checkout.
_OUTPUTS = {
    _SERDE + "schema.yaml": "yaml",
    _SERDE + "export_schema.thrift": "thrift",
    "torch/csrc/utils/generated_serialization_types.h": "cpp",
    "torch/include/torch/csrc/utils/generated_serialization_types.h": "cpp",
}

_GENERATE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import yaml
from torch._export.serde import schema_check
commit = schema_check.update_schema()
text = json.dumps(
    {
        "version": schema_check.check(commit)[0],
        "yaml": yaml.dump(commit.result, sort_keys=False),
        "yaml checksum": commit.checksum_next,
        "thrift": commit.thrift_schema,
        "thrift checksum": commit.thrift_checksum_next,
        "cpp": commit.cpp_header,
        "cpp checksum": commit.checksum_next,
    }
)
print("\\n" + text)  # whatever was printed before
"""

_VERSION = re.compile(r"^(SCHEMA_VERSION = )\((\d+), (\d+)\)", re.MULTILINE)


def regenerate(tree: Tree, edited: str) -> Dict[str, str]:
    """Returns ``schema.py`` and the files that are generated from it, after an edit.

    Args:
        tree: the sources of pytorch before the edit.
        edited: ``schema.py`` after it.

    Returns:
        Path -> text, ``schema.py`` last. Files that the tree does not have are left out.

    Raises:
        PatchError: the tree has no generator or it fails, or a file was not generated
            from the tree's schema. The message says which.
    """
    inputs = {path: _text(tree, path) for path in _INPUTS}
    before = _generate(inputs)
    version = _generate({**inputs, SCHEMA: edited})["version"]
    found = _VERSION.findall(edited)
    if len(found) != 1:
        raise PatchError(f"{SCHEMA}: SCHEMA_VERSION was found {len(found)} times")
    if version is None:  # schema.yaml is that of a run that did not come to its end
        version = (int(found[0][1]), int(found[0][2]) + 1)
    edited = _VERSION.sub(r"\g<1>({}, {})".format(*version), edited)
    after = _generate({**inputs, SCHEMA: edited})
    texts = {}
    for path, kind in _OUTPUTS.items():
        text = read_text(tree, path)
        if text is not None:
            texts[path] = _replace(path, text, kind, before, after)
    # Last: as long as it is not edited, the others can be made again.
    return {**texts, SCHEMA: edited}


def check(tree: Tree) -> None:
    """Checks that the generated files are those of a ``schema.py`` that has its edit.

    Raises:
        PatchError: one is not. The message says which.
    """
    inputs = {path: read_text(tree, path) for path in _INPUTS}
    texts = {path: text for path, text in inputs.items() if text is not None}
    if len(texts) < len(inputs):
        return  # what generates them is not there
    now = _generate(texts)
    for path, kind in _OUTPUTS.items():
        text = read_text(tree, path)
        if text is not None:
            _replace(path, text, kind, now, now)


def _text(tree: Tree, path: str) -> str:
    text = read_text(tree, path)
    if text is None:
        raise PatchError(f"{path}: there is no such file")
    return text


def _replace(
    path: str,
    text: str,
    kind: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> str:
    for part in (kind, kind + " checksum"):
        if after[part].strip() in text:
            continue  # a run that was interrupted had written it already
        if text.count(before[part].strip()) != 1:
            raise PatchError(
                f"{path} is not what schema_check.py generates from schema.py "
                f"({part}); generate it anew first"
            )
        text = text.replace(before[part].strip(), after[part].strip())
    return text


def _generate(inputs: Mapping[str, str]) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        for path, text in inputs.items():
            file = Path(directory, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for package in ("torch", "torch/_export", "torch/_export/serde"):
            Path(directory, package, "__init__.py").touch()
        done = subprocess.run(
            [sys.executable, "-I", "-c", _GENERATE, directory],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise PatchError(f"{_SERDE}schema_check.py fails: {reason[0]}")
    return json.loads(done.stdout.splitlines()[-1])
