"""Licences of everything that is installed beside ours, and the bill of materials."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from conftest import ROOT, answer

from haptic_bench.set_up import bill

ALLOWED = {  # may be used by, and installed beside, a program under Apache-2.0
    *("Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MIT", "MIT-CMU", "0BSD", "BSD-2-Clause", "BSD-3-Clause"),
    *("BSL-1.0", "CC0-1.0", "PSF-2.0", "Qhull", "Zlib", "any-OSI"),
    "MPL-2.0",  # of its own files: ours stay as they are
}
EXCEPTIONS = {
    "jrl-cmakemodules": "LGPL-3.0-or-later"
}  # CMake files for builds against Pinocchio, which none of ours use


def allowed(expression: str) -> bool:
    """Whether all parts of an expression are, of alternatives one."""
    parts = expression.split(" AND ")
    return all(any(one in ALLOWED for one in part.split(" OR ")) for part in parts)


def test_which_expressions_are_allowed() -> None:
    assert allowed("MIT OR GPL-3.0-only") and allowed("MIT AND Apache-2.0 WITH LLVM-exception")
    assert not allowed("MIT AND GPL-3.0-only") and not allowed("") and not allowed("MIT AND ")


def test_every_installed_distribution_has_an_allowed_licence() -> None:
    installed = bill.distributions()
    pins = [line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()]
    locked = {bill.normalised(name) for name in pins} & installed.keys()  # a system has others, which are not ours
    said = {name: bill.licence(name, installed) for name in sorted(locked)}
    wrong = {name: one for name, one in said.items() if not allowed(one) and EXCEPTIONS.get(name) != one}
    assert not wrong, f"{wrong}: not in ALLOWED; empty: not declared, see bill.DECLARED_ELSEWHERE"
    assert said["numpy"].startswith("BSD-3-Clause") and said["coal"] == "BSD-3-Clause" and len(said) > 20


@pytest.mark.parametrize(
    ("lines", "expression"),
    [
        (["License-Expression: MIT OR Apache-2.0"], "MIT OR Apache-2.0"),
        (["Classifier: License :: OSI Approved :: MIT License", "License: see the file"], "MIT"),
        (["Classifier: License :: OSI Approved :: MIT License", "License: MPL-2.0 AND MIT"], "MPL-2.0 AND MIT"),
        (["License: Apache License, Version 2.0"], "Apache-2.0"),
        (["License: Copyright (c) the authors. Permission is hereby granted"], ""),
        (["Classifier: License :: Other/Proprietary License"], ""),
        ([], ""),
    ],
)
def test_a_licence_is_found_in_the_metadata(tmp_path: Path, lines: list[str], expression: str) -> None:
    folder = tmp_path / "some_thing-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", "Name: some.thing", "Version: 1.0", *lines]))
    (one,) = metadata.distributions(path=[str(tmp_path)])
    assert bill.licence("some-thing", {"some-thing": one}) == expression


def test_the_bill_names_what_is_installed(tmp_path: Path) -> None:
    found = answer("sbom", str(tmp_path / "sbom.json"))
    assert found.status == 0, found.err
    document = json.loads((tmp_path / "sbom.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])
    versions = {one["name"]: one["version"] for one in document["components"]}
    for name in ("numpy", "numba", "coal", "pydantic"):
        assert versions[name] == metadata.version(name)
    references = [one["bom-ref"] for one in document["components"]]
    assert len(set(references)) == len(references)
