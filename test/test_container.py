"""The container file and the devcontainer name what is there. No container is built here."""

import json
import re

from conftest import ROOT

from haptic_bench.commands import command_line
from haptic_bench.set_up import prepare

TEXT = (ROOT / "container" / "Containerfile").read_text().replace("\\\n", " ")
STEPS = [line for line in TEXT.splitlines() if line and not line.startswith("#")]


def test_every_tool_that_the_launcher_asks_for_is_installed() -> None:
    (apt,) = [step for step in STEPS if "apt-get install" in step]
    installed = set(re.sub(r"\$\(.*?\)", "", apt).split("--no-install-recommends")[1].split("&&")[0].split())
    assert {package for _, package, *_ in prepare.TOOLS} | {"python3-dev", "python3-venv"} <= installed
    # root installs, and nobody runs as root after it
    assert STEPS.index(apt) < STEPS.index("USER hand") < next(i for i, s in enumerate(STEPS) if s.startswith("COPY"))


def test_its_commands_are_ours_and_its_context_has_nothing_that_was_made() -> None:
    for command in re.findall(r"\./haptics (\w+)", TEXT) + json.loads(STEPS[-1].removeprefix("CMD "))[1:]:
        assert command in ("shell", "doctor")
    assert command_line.parse(["doctor"])
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".haptics", "trials"} <= set(ignored)


def test_the_devcontainer_builds_from_that_file() -> None:
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    folder = ROOT / ".devcontainer"
    assert (folder / found["build"]["dockerfile"]).resolve() == ROOT / "container" / "Containerfile"
    assert (folder / found["build"]["context"]).resolve() == ROOT
    assert f" {found['remoteUser']}\n" in TEXT
