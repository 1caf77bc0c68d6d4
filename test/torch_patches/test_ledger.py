# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Every place in the installed torch and executorch that asks for the kind of an input
is edited, or listed in ``ledger.txt`` with a reason why it need not be.

To make the lines for new sites, run this file as a program: it prints the ledger as it
should be, with ``?`` where a reason is missing. Say at the end of a line of which
releases it holds, where not of all.
"""

import ast
import importlib.metadata
import importlib.util
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Tuple

import pytest
from executorch.torch_patches.installed import installed_edits
from packaging.requirements import Requirement

LEDGER = Path(__file__).with_name("ledger.txt")

#: The files that upstream ships to test itself cannot break a user's program.
TESTS = {"test", "tests", "third-party"}

NAME = "CONSTANT_TENSOR"
EDITED = "edited"


class Site(NamedTuple):
    """A function or class that asks, or a module that does so at its top level (then
    ``owner`` is ``-``)."""

    path: str
    owner: str


class _Scanner(ast.NodeVisitor):
    """Collects what each function says about kinds.

    Counted are members of ``InputKind``, the name CONSTANT_TENSOR in whatever form, and
    as ``.kind`` each read of an attribute of that name that is not compared with members
    of an enum there and then: it may be compared elsewhere, or look up a table.
    """

    def __init__(self) -> None:
        self.found: Dict[str, Counter] = {}
        self._owners: List[str] = []

    def _add(self, what: str) -> None:
        owner = ".".join(self._owners) or "-"
        self.found.setdefault(owner, Counter())[what] += 1

    def _visit_owner(self, node: ast.AST) -> None:
        self._owners.append(node.name)  # type: ignore[attr-defined]
        self.generic_visit(node)
        self._owners.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_owner

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if _last_name(node.value) == "InputKind" or node.attr == NAME:
            self._add(node.attr)
        elif node.attr == "kind":
            self._add(".kind")
        self.visit(node.value)

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
            self.visit(node.func)
        for child in [*node.args, *node.keywords]:
            self.visit(child)

    def visit_Compare(self, node: ast.Compare) -> None:
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
    if "InputKind" not in source and NAME not in source:
        return {}
    scanner = _Scanner()
    scanner.visit(ast.parse(source))
    return {
        owner: " ".join(
            what if count == 1 else f"{what}*{count}"
            for what, count in sorted(found.items())
        )
        for owner, found in scanner.found.items()
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
