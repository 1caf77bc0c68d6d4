# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Every place in the installed torch and executorch that asks for the kind of an input
is edited, or listed in ``ledger.txt`` with a reason why it need not be. A place may ask
by the kind itself, by what is a parameter or a buffer with no word of constants, or by
how placeholders are named.

To make the lines for new sites, run this file as a program: it prints the ledger as it
should be, with ``?`` where a reason is missing. Say at the end of a line of which
releases it holds, where not of all.
"""

import ast
import importlib.metadata
import importlib.util
import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, NamedTuple, Set, Tuple

import pytest
from executorch.torch_patches.installed import installed_edits
from packaging.requirements import Requirement

LEDGER = Path(__file__).with_name("ledger.txt")

#: The files that upstream ships to test itself cannot break a user's program.
TESTS = {"test", "tests", "third-party"}

NAME = "CONSTANT_TENSOR"
EDITED = "edited"

#: How a function asks for parameters and buffers, and for other constants. One that
#: does the first alone may take a constant for an input of the user.
STATE = {"inputs_to_parameters", "inputs_to_buffers", "is_param", "is_buffer"}
CONSTANTS = {
    "inputs_to_lifted_tensor_constants",
    "lifted_tensor_constants",
    "is_lifted_tensor_constant",
    "get_lifted_tensor_constant",
    "is_constant",
    "constants",
}

#: Where a program's tensors are. One that a pass replaces may be that of others too.
TABLES = {"constants", "_constants"}

#: How exir and torch.export name placeholders of constants, and how a name is asked
#: for it.
NAMED = re.compile("[bcp]_|.*(lifted|tensor_constant).*")
ASKS_NAME = {"startswith", "endswith", "removeprefix"}

#: What a file has in it that is worth parsing.
ASKS = re.compile(
    rf"InputKind|{NAME}|inputs_to_(parameters|buffers)|is_(param|buffer)\("
    r"|\"[bcp]_\"|lifted|tensor_constant|constants\["
)


class Site(NamedTuple):
    """A function or class that asks, or a module that does so at its top level (then
    ``owner`` is ``-``)."""

    path: str
    owner: str


class _Scanner(ast.NodeVisitor):
    """Collects what each function says about kinds.

    Counted are members of ``InputKind``, the name CONSTANT_TENSOR in whatever form, and
    as ``.kind`` each read of an attribute of that name that is not compared with members
    of an enum there and then: it may be compared elsewhere, or look up a table. Further
    what asks for ``STATE``, in ``state`` until it is known whether the function asks
    for ``CONSTANTS`` too, strings that names of placeholders may be compared with, and
    as ``constants[]`` what replaces a tensor.
    """

    def __init__(self, has_kinds: bool) -> None:
        self._has_kinds = has_kinds
        self.found: Dict[str, Counter] = {}
        self.state: Dict[str, Counter] = {}
        self.asks_for_constants: Set[str] = set()
        self._owners: List[str] = []

    def says(self) -> Dict[str, Counter]:
        """Returns owner -> what it says, with counts."""
        said = {owner: Counter(found) for owner, found in self.found.items()}
        for owner, asked in self.state.items():
            if owner not in self.asks_for_constants:
                said.setdefault(owner, Counter()).update(asked)
        return said

    @property
    def _owner(self) -> str:
        return ".".join(self._owners) or "-"

    def _add(self, what: str) -> None:
        self.found.setdefault(self._owner, Counter())[what] += 1

    def _add_names(self, sides: Iterable[ast.AST]) -> None:
        for part in chain.from_iterable(map(ast.walk, sides)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                if NAMED.fullmatch(part.value):
                    self._add(repr(part.value))

    def _add_question(self, name: str) -> None:
        if name in STATE:
            self.state.setdefault(self._owner, Counter())[name] += 1
        elif name in CONSTANTS:
            self.asks_for_constants.add(self._owner)

    def _visit_owner(self, node: ast.AST) -> None:
        self._owners.append(node.name)  # type: ignore[attr-defined]
        self.generic_visit(node)
        self._owners.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_owner

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if _last_name(node.value) == "InputKind" or node.attr == NAME:
            self._add(node.attr)
        elif node.attr == "kind":
            if self._has_kinds:
                self._add(".kind")
        elif not node.attr.startswith("is_"):  # a method is something else
            self._add_question(node.attr)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        is_table = isinstance(node.value, ast.Attribute) and node.value.attr in TABLES
        if is_table and isinstance(node.ctx, ast.Store):
            self._add("constants[]")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == NAME:
            self._add(NAME)

    def visit_Constant(self, node: ast.Constant) -> None:
        if node.value == NAME:
            self._add(NAME)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "kind":
            self.visit(node.func.value)  # a method: of a schema, of a TorchScript node
        else:
            if isinstance(node.func, ast.Name):
                self._add_question(node.func.id)
            elif _last_name(node.func) in ASKS_NAME:
                self._add_names(node.args)
            self.visit(node.func)
        for child in [*node.args, *node.keywords]:
            self.visit(child)

    def visit_Compare(self, node: ast.Compare) -> None:
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            self._add_names([node.left])
        for side in [node.left, *node.comparators]:
            if isinstance(side, ast.Attribute) and side.attr == "kind":
                if _names_a_member(node):
                    self.visit(side.value)
                    continue
            self.visit(side)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _names_a_member(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Attribute)
        and _last_name(part.value) in ("InputKind", "OutputKind")
        for part in ast.walk(node)
    )


def scan_text(source: str) -> Dict[str, str]:
    """Returns owner -> what it says about kinds."""
    if not ASKS.search(source):
        return {}
    scanner = _Scanner("InputKind" in source or NAME in source)
    scanner.visit(ast.parse(source))
    return {
        owner: " ".join(
            what if count == 1 else f"{what}*{count}"
            for what, count in sorted(found.items())
        )
        for owner, found in scanner.says().items()
    }


def scan(root: Path, package: str) -> Dict[Site, str]:
    """Returns what all sites below ``root`` say."""
    sites = {}
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if not TESTS & set(inside.parts[:-1]) and not inside.name.startswith("test_"):
            source = path.read_text(encoding="utf-8", errors="replace")
            for owner, says in scan_text(source).items():
                sites[Site(f"{package}/{inside.as_posix()}", owner)] = says
    return sites


def installed() -> Dict[Site, str]:
    sites = {}
    for package, module in (("torch", "torch"), ("executorch", "executorch.exir")):
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parents[module.count(".")]
        sites.update(scan(root, package))
    return sites


class Known(NamedTuple):
    """What the ledger says of a site, with the releases that it holds of, as in
    ``torch>=2.14``; none stands for all."""

    says: str
    reason: str
    releases: str = ""


def ledger() -> Dict[Site, Known]:
    """Returns what the ledger says of the installed releases."""
    lines: Dict[Site, Known] = {}
    for site, known in _lines():
        if _is_installed(known.releases):
            assert site not in lines, f"listed twice: {site}"
            lines[site] = known
    return lines


def _lines() -> Iterator[Tuple[Site, Known]]:
    for line in LEDGER.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            path, owner, *known = (part.strip() for part in line.split("|"))
            yield Site(path, owner), Known(*known)


def _is_installed(releases: str) -> bool:
    if not releases:
        return True
    requirement = Requirement(releases)
    version = importlib.metadata.version(requirement.name)
    return requirement.specifier.contains(version, prereleases=True)


def differences(found: Dict[Site, str], listed: Dict[Site, Known]) -> Iterator[str]:
    for site in sorted({*found, *listed}):
        says = found.get(site, "nothing")
        known = listed.get(site, Known("nothing", "")).says
        if says != known:
            yield f"{site.path} {site.owner}: says {says}, the ledger knows {known}"


def module_of(site: Site) -> str:
    return site.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def owners_edited() -> Dict[str, set]:
    """Module -> the owners, ``-`` for the top level, that an edit of ours changes."""
    return {
        module: {edit.owner or "-" for edit in module_edits}
        for module, module_edits in installed_edits().items()
    }


def test_every_site_is_in_the_ledger():
    found = list(differences(installed(), ledger()))
    assert not found, "edit these or list them with a reason:\n" + "\n".join(found)


def test_every_line_has_a_reason():
    for site, known in _lines():
        assert known.reason == EDITED or len(known.reason.split()) >= 3, site


def test_sites_that_are_listed_as_edited_are_edited():
    edited = owners_edited()
    for site, known in ledger().items():
        is_edited = site.owner in edited.get(module_of(site), ())
        assert not (known.reason == EDITED and not is_edited), f"no edit at {site}"


def test_edits_that_name_the_kind_are_at_listed_sites():
    listed = {
        (module_of(site), site.owner)
        for site, known in ledger().items()
        if known.reason == EDITED
    }
    for module, module_edits in installed_edits().items():
        for edit in module_edits:
            if NAME in edit.anchor and NAME in edit.replacement:
                assert (module, edit.owner or "-") in listed


SOURCE = """
from torch.export.graph_signature import InputKind, OutputKind
TABLE = {InputKind.PARAMETER: 1}
class A:
    def ask(self, spec):
        if spec.kind == InputKind.CONSTANT_TENSOR:
            return 1
        return TABLE[spec.kind]
    def output(self, spec, schema):
        return spec.kind == OutputKind.USER_OUTPUT or schema.kind() == 1
    def other(self, a, b):
        return a.kind == b.kind, "CONSTANT_TENSOR"
"""


def test_the_scanner_finds_members_names_and_kinds():
    assert scan_text(SOURCE) == {
        "-": "PARAMETER",
        "A.ask": ".kind CONSTANT_TENSOR",
        "A.other": ".kind*2 CONSTANT_TENSOR",
    }


STATE_SOURCE = """
def asks(signature, node):
    return is_param(node) or node.name in signature.inputs_to_buffers
def asks_all(signature, node):
    return is_param(node) or is_lifted_tensor_constant(node)
def another(node, block):
    return block.is_buffer(node) or self.is_param
def by_name(node):
    "A placeholder b_ is a buffer, a lifted_tensor is not."
    return node.name.startswith(("b_", "x_")) or "lifted_tensor" not in node.name
def makes(node):
    return "b_" + node.name
def replaces(program, name):
    program.constants[name] = program.constants[name] + constants[name]
"""


def test_the_scanner_finds_names_writes_and_who_asks_for_no_constants():
    found = scan_text(STATE_SOURCE)
    assert found.pop("by_name") == "'b_' 'lifted_tensor'"
    assert found.pop("replaces") == "constants[]"
    assert found == {"asks": "inputs_to_buffers is_param"}


def test_the_scanner_leaves_comments_and_other_files_alone():
    assert scan_text("x.kind == 1  # CONSTANT_TENSOR of InputKind") == {"-": ".kind"}
    assert scan_text("x.kind == 1") == {}
    assert scan_text("ALIGN_CONSTANT_TENSOR = 1  # CONSTANT_TENSOR") == {}


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("return 1", "return InputKind.BUFFER", ".kind BUFFER CONSTANT_TENSOR"),
        ("InputKind.CONSTANT_TENSOR", "InputKind.BUFFER", ".kind BUFFER"),
        ("TABLE[spec.kind]", "2", "CONSTANT_TENSOR"),
    ],
)
def test_a_site_that_changes_turns_it_red(old, new, says):
    listed = {
        Site("f.py", o): Known(s, "why not") for o, s in scan_text(SOURCE).items()
    }
    found = {Site("f.py", o): s for o, s in scan_text(SOURCE.replace(old, new)).items()}
    assert list(differences(found, listed)) == [
        f"f.py A.ask: says {says}, the ledger knows .kind CONSTANT_TENSOR"
    ]


def test_a_site_that_is_new_or_gone_turns_it_red(tmp_path):
    (tmp_path / "tests").mkdir()
    for name in ("new.py", "tests/helper.py", "test_new.py"):
        (tmp_path / name).write_text(
            "def f(s):\n    return s.kind in [CONSTANT_TENSOR]\n"
        )
    listed = {Site("p/old.py", "g"): Known("BUFFER", "why not")}
    assert list(differences(scan(tmp_path, "p"), listed)) == [
        "p/new.py f: says .kind CONSTANT_TENSOR, the ledger knows nothing",
        "p/old.py g: says nothing, the ledger knows BUFFER",
    ]


def renewed() -> List[str]:
    """Returns the lines as they should be. Those of other releases stay."""
    edited, known = owners_edited(), ledger()
    lines = [(s, k) for s, k in _lines() if not _is_installed(k.releases)]
    for site, says in installed().items():
        guess = EDITED if site.owner in edited.get(module_of(site), ()) else "?"
        old = known.get(site, Known("", guess))
        if says != old.says:
            old = Known(says, old.reason)
        lines.append((site, old))
    return [" | ".join(filter(None, [*s, *k])) for s, k in sorted(lines)]


if __name__ == "__main__":
    print("\n".join(renewed()))
