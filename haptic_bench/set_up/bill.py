"""The bill of materials: the distributions that are installed beside haptics, with their versions and licences.

It comes from the metadata of the installed distributions alone. A licence is an SPDX expression
(https://spdx.org/licenses), from the field License-Expression, a classifier, the field License, or the package.xml of a
package of ROS 2, in this order.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from importlib import metadata
from typing import Any
from xml.etree import ElementTree

CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Classifiers of PyPI that name one licence; BSD License is that of three or two clauses."""
TEXTS = {
    **{text: "Apache-2.0" for text in ("Apache 2.0", "Apache License 2.0", "Apache License, Version 2.0")},
    **{text: "BSD-3-Clause" for text in ("BSD", "BSD license", "BSD 3-Clause License", "3-Clause BSD")},
    "Apache License": "Apache-2.0",
    "zlib License": "Zlib",
}
"""Texts that packages have in place of an SPDX expression."""
DECLARED_ELSEWHERE = {
    "cmeel-qhull": "Qhull",
    "docutils": "BSD-2-Clause",
    "ros-fastcdr": "Apache-2.0",
    "ros-fastrtps": "Apache-2.0",
    "setuptools": "MIT",
}
"""Licences that are only in files of the distribution; of docutils, which has modules of several, the strictest that
applies to what is imported of it."""
_EXPRESSION = re.compile(r"[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*")


def distributions() -> dict[str, metadata.Distribution]:
    """The installed distributions by their normalised name; what a wheel of ROS 2 brings is counted once."""
    found = {normalised(str(one.metadata["Name"])): one for one in metadata.distributions() if one.metadata["Name"]}
    return {name: found[name] for name in sorted(found) if f"ros-{name}" not in found}


def normalised(name: str) -> str:
    """A distribution's name as the package index has it."""
    return re.sub("[-_.]+", "-", name).lower()


def licence(name: str, installed: Mapping[str, metadata.Distribution]) -> str:
    """SPDX expression of the licence of an installed distribution; empty if it is not declared."""
    one = installed[name]
    if expression := DECLARED_ELSEWHERE.get(name) or _field(one, "License-Expression"):
        return expression
    classifiers = [text.rpartition(" :: ")[2] for text in one.metadata.get_all("Classifier") or ()]
    known = {CLASSIFIERS[text] for text in classifiers if text in CLASSIFIERS}
    declared = _in_words(_field(one, "License"))  # which may be the whole text of a licence
    if declared or len(known) == 1:
        return known.pop() if known and " " not in declared else declared
    for path in one.files or ():
        if path.name == "package.xml":
            named = ElementTree.fromstring(path.read_text()).iterfind("license")
            return " AND ".join(sorted({_in_words((element.text or "").strip()) for element in named}))
    short = re.sub("^ros-[a-z]+-", "ros-", name)  # ros-jazzy-rclpy only names ros-rclpy
    return licence(short, installed) if short != name and short in installed else ""


def _field(one: metadata.Distribution, name: str) -> str:
    """A field of a distribution's metadata; empty if it is not there."""
    return str((one.metadata.get_all(name) or [""])[0]).strip()


def _in_words(text: str) -> str:
    """The SPDX expression that a text means; empty if it does not."""
    return TEXTS.get(text) or (text if _EXPRESSION.fullmatch(text) else "")


def cyclonedx(version: str) -> dict[str, Any]:
    """The bill as a document of CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json).

    Args:
        version: of haptics.
    """
    installed = distributions()
    components = []
    for name, one in installed.items():
        if name == "haptics":
            continue
        purl = f"pkg:pypi/{name}@{one.version}"
        component = {"type": "library", "bom-ref": purl, "name": name, "version": one.version, "purl": purl}
        if declared := licence(name, installed):
            component["licenses"] = [{"expression": declared}]  # type: ignore[assignment]
        components.append(component)
    seed = " ".join(str(one["purl"]) for one in components)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, seed)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "haptics",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": components,
    }
