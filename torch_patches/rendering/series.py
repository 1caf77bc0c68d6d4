# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The series of patches for upstream: which there are, and what each brings."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Dict, Iterator, List, Tuple

from executorch.torch_patches import edits
from executorch.torch_patches.edit import Edit, is_for
from executorch.torch_patches.errors import PatchError

PYTORCH = "pytorch"
EXECUTORCH = "executorch"


@dataclass(frozen=True)
class Patch:
    """One commit.

    Attributes:
        name: as in ``patch`` of an edit.
        repository: PYTORCH or EXECUTORCH.
        message: of the commit: subject, empty line, body.
    """

    name: str
    repository: str
    message: str

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


SERIES = (
    Patch(
        "kind",
        PYTORCH,
        """[export] Add InputKind.SYNTHESIZED_CONSTANT

Summary:
Compilers that lower an ExportedProgram find tensors in its graph that are known at
compile time: full, arange, masks, rotary tables, the seed of a backward graph. They can
make a CONSTANT_TENSOR of each, but then nobody can tell them from the constants of the
model: neither a later pass that may make them anew or choose where they are stored, nor
an application that looks for them.

This adds a kind for them. To all who ask for lifted tensor constants it is one, so that
existing consumers need no change; who wants to know asks synthesized_constants and
inputs_to_synthesized_constants of the signature. Several placeholders may share one
target, so that each user of a small constant can have its own. The placeholder's
meta["synthesized_constant"] is for whoever made the constant to describe it; retracing
keeps it.

Nothing in torch makes such inputs, so programs that have none are not affected.

Test Plan:
python test/export/test_synthesized_constant.py
""",
    ),
    Patch(
        "serialization",
        PYTORCH,
        """[export] Serialize synthesized constants

Summary:
A synthesized constant is written as what it is to existing readers, a constant tensor,
with one optional field more: InputToTensorConstantSpec.synthesized, the description of
the constant as text, or "" if it has none. The kind is the presence of the field. A
reader that does not know it gets a CONSTANT_TENSOR.

The field is left out where it is None: files of programs without the kind differ from
today's in the minor schema version alone.

schema.yaml, export_schema.thrift and generated_serialization_types.h are what
scripts/export/update_schema.py makes of schema.py.

Test Plan:
python test/export/test_synthesized_constant_serialization.py
""",
    ),
    Patch(
        "lifting",
        EXECUTORCH,
        """[exir] Lift tensors that the compiler knows to synthesized constants

Summary:
full, arange, full_like, masks, rotary tables or the gradient seed of a backward graph
are neither constants nor inputs of an edge program. They are computed at every run, take
planned memory, and stand between delegates.

With EdgeCompileConfig(lift_synthesized_constants=True), or a policy instead of True,
what depends on no input and no mutable state becomes an input of the kind
SYNTHESIZED_CONSTANT before partitioning: evaluated in its smallest form that broadcasts,
stored only as far as its users need it, within limits of bytes, and with a description
for authors of backends. The flag is off by default; the output is then the same in every
byte.

exir/synthesized_constants is new. The changes to existing files call into it, and make
those that ask for the kind of an input know the new one.

Needs InputKind.SYNTHESIZED_CONSTANT of torch.export.

Fixes #15505

### Test plan
The last patch of the series has the tests:
pytest exir/synthesized_constants/test
""",
    ),
    Patch(
        "emission",
        EXECUTORCH,
        """[exir] Emit synthesized constants under their names

Summary:
The constant segment of a .pte has no names. A synthesized constant gets an entry in the
named data that lies over its bytes in the constant segment: a name costs an entry, about
100 bytes, and no copy. Runtime and file format stay as they are;
Program::get_named_data_map()->get_data(name) finds it. A placement puts constants into a
.ptd file or makes them inputs of the method instead.

read_synthesized_constants gives them back from Python, and
python -m executorch.exir.synthesized_constants lowers, inspects and compares files.

### Test plan
The last patch of the series has the tests:
pytest exir/synthesized_constants/test
""",
    ),
    Patch(
        "tests",
        EXECUTORCH,
        """[exir] Test synthesized constants

Summary:
Every test that lowers a program runs it on the runtime too and compares with eager.

### Test plan
pytest exir/synthesized_constants/test
""",
    ),
)

# Module and what is inside of it -> patch. The longest name counts.
_EDITED = {
    "torch": "kind",
    "torch._export.serde": "serialization",
    "executorch": "lifting",
    "executorch.exir._serialize": "emission",
    "executorch.exir.emit": "emission",
    "executorch.exir.passes.external_constants_pass": "emission",
}

PACKAGE = PurePosixPath("exir/synthesized_constants")

# Modules of the package that the patch of the emission brings.
_EMISSION = {
    "__main__",
    "cli",
    "emit",
    "flat_tensor",
    "listing",
    "manifest",
    "measure",
    "named_data",
    "names",
    "reader",
    "run_time_data",
}

# These directories become one, since upstream has the tests of a package inside of it.
# Not among them is what tests or measures the edits.
_TESTS = PACKAGE / "test"
TEST_PACKAGE = "executorch." + ".".join(_TESTS.parts)
TEST_DIRECTORIES = (
    "test",
    "test/backends",
    "test/cases",
    "test/cpp",
    "test/exir",
    "test/exir/backend",
    "test/exir/passes",
    "test/exir/serde",
    "test/exir/synthesized_constants",
    "test/models",
    "test/torch_export",
)

# Tests of the torch side alone: file in test/torch_export -> patch.
_TORCH_TESTS = {
    "test_synthesized_constant.py": "kind",
    "test_synthesized_constant_serialization.py": "serialization",
}

# A tree that does not say what it is.
_NEWEST = (sys.maxsize,)

# What is in files of the project for the sake of the live patch.
_LIVE_ONLY = (
    "from executorch.torch_patches.activation import activate\n\nactivate()\n\n",
    "Importing this package also applies the changes to torch and executorch that it "
    "needs.\n\n",
)


def patches(repository: str) -> List[Patch]:
    return [patch for patch in SERIES if patch.repository == repository]


def edits_by_path(
    repository: str, release: Tuple[int, ...]
) -> Dict[str, Tuple[Tuple[str, Edit], ...]]:
    """Returns the edits of each file of a repository, each with the name of its patch.

    Args:
        repository: PYTORCH or EXECUTORCH.
        release: what the repository is at; () is the newest.
    """
    root = "torch" if repository == PYTORCH else "executorch"
    found = {}
    for module, module_edits in edits.by_module().items():
        module_edits = tuple(e for e in module_edits if is_for(e, release or _NEWEST))
        if not module_edits:
            continue
        if module.partition(".")[0] == root:
            prefix = max(
                (p for p in _EDITED if f"{module}.".startswith(f"{p}.")), key=len
            )
            found[_path(module)] = tuple(
                (edit.patch or _EDITED[prefix], edit) for edit in module_edits
            )
    return found


def _path(module: str) -> str:
    """The root of the repository of executorch is the package."""
    return module.removeprefix("executorch.").replace(".", "/") + ".py"


def new_files(project: Path) -> Dict[str, Dict[str, str]]:
    """Returns the files that each patch adds.

    Args:
        project: the root of a checkout of this project, or the package ``executorch``
            where it is installed; there are no tests in the latter.

    Returns:
        Name of the patch -> path in the repository -> text.
    """
    found: Dict[str, Dict[str, str]] = {patch.name: {} for patch in SERIES}
    package = project / PACKAGE
    for file in sorted(package.glob("*.py")):
        patch = "emission" if file.stem in _EMISSION else "lifting"
        found[patch][str(PACKAGE / file.name)] = file.read_text(encoding="utf-8")
    init = str(PACKAGE / "__init__.py")
    if init not in found["lifting"]:
        raise PatchError(f"{project} has no {PACKAGE}")
    whole = _without_activation(found["lifting"][init])
    found["lifting"][init] = _without_modules(whole, _EMISSION)
    found["emission"][init] = whole
    for file in _tests(project):
        text = file.read_text(encoding="utf-8")
        if file.name in _TORCH_TESTS:
            found[_TORCH_TESTS[file.name]][f"test/export/{file.name}"] = text
        else:
            found["tests"][str(_TESTS / file.name)] = text
    return found


def _tests(project: Path) -> Iterator[Path]:
    for directory in TEST_DIRECTORIES:
        for file in sorted((project / directory).glob("*")):
            if file.suffix in (".py", ".json", ".cpp") and file.name != "conftest.py":
                yield file


def _without_activation(text: str) -> str:
    for part in _LIVE_ONLY:
        if text.count(part) != 1:
            raise PatchError(f"{PACKAGE}/__init__.py has not one {part!r}")
        text = text.replace(part, "")
    return text


def _without_modules(text: str, modules: "set[str]") -> str:
    """Returns ``__init__.py`` without what it imports from ``modules``."""
    statement = re.compile(
        r"^from executorch\.exir\.synthesized_constants\.(\w+) import "
        r"(?:\(\n([^)]*)\)|(.*))\n",
        re.MULTILINE,
    )
    for match in list(statement.finditer(text)):
        if match[1] in modules:
            text = text.replace(match[0], "")
            for name in re.findall(r"\w+", match[2] or match[3]):
                text = text.replace(f'    "{name}",\n', "")
    return text
