"""A study with a person in a real browser, from consent to end: answered by mouse and keys, killed, and resumed."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
import yaml
from conftest import answer, wait_until
from starting import die_with_parent
from study_sessions import document
from test_view_page import status

from haptic_bench.replay.verification import verify
from haptic_study import load_study
from haptic_study.dataset import Dataset
from haptic_study.session import End

pytest.importorskip("viser", reason="viser is not installed (pip install 'haptics[view]')")

SMALL: dict[str, Any] = {
    "consent": "# Consent\n\nYou may stop at any time.",
    "person": {"settings": {"duration": 4.0}, "between": 0.1},
    "rest": {"every": 1, "duration": 0.5},
    "tasks__discrimination__method": {"type": "constant_stimuli", "levels": [200.0, 400.0], "repetitions": 1},
    "tasks__discrimination__practice": [450.0],
}
SPACE, ONE = (" ", "Space", 32), ("1", "Digit1", 49)


class Shown(browser.Browser):
    """A page of a session."""

    def sees(self, text: str) -> None:
        """Wait until the page says something."""
        self.wait(f"(document.body?.innerText ?? '').includes({json.dumps(text)})")

    def press(self, label: str) -> None:
        """Press a button whose text begins so."""
        buttons = "[...document.querySelectorAll('button')]"
        find = f"{buttons}.find(one => one.innerText.trim().startsWith({json.dumps(label)}))"
        self.wait(f"(one => {{ one?.click(); return !!one }})({find})")

    def choose(self, option: str) -> None:
        """Choose an option of the last list on the page."""
        self.evaluate("(one => { one.focus(); one.click() })([...document.querySelectorAll('[role=combobox]')].pop())")
        options = "[...document.querySelectorAll('[role=option]')]"
        find = f"{options}.find(one => one.innerText.trim() === {json.dumps(option)})"
        self.wait(f"(one => {{ one?.click(); return !!one }})({find})")

    def key(self, key: tuple[str, str, int]) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key[0], code=key[1], windowsVirtualKeyCode=key[2])


@contextlib.contextmanager
def session(out: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The program of a session while it runs, and the addresses of the pages of participant and experimenter."""
    said = out.parent / f"said-{time.monotonic_ns()}"
    with said.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "haptic_bench", "study", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            preexec_fn=die_with_parent,
        )

    def addresses() -> list[str]:
        assert process.poll() is None, said.read_text()
        return [line.split()[-1] for line in said.read_text().splitlines() if "http://" in line]

    try:
        wait_until(lambda: len(addresses()) == 2, "the addresses")
        participant, experimenter = addresses()
        yield process, participant, experimenter
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


@pytest.mark.graph
@pytest.mark.exhaustive
def test_a_person_from_consent_to_end(tmp_path: Path) -> None:
    browser.require()
    file, out = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(document(**SMALL)), encoding="utf-8")
    run = ["run", str(file), "--participant", "01", "--out", str(out)]
    with session(out, *run) as (process, address, other), Shown(address, tmp_path / "a") as page:
        assert address != other and status(address) == status(other) == 101
        assert status(address, other[other.rindex("/") :]) == 403  # each page has its own token
        page.sees("You may stop at any time")
        page.wait("[...document.querySelectorAll('.mantine-ActionIcon-root')].every(one => one.offsetParent === null)")
        page.press("I agree")
        page.sees("How old are you?")
        page.press("Continue")
        page.sees("age = null: is missing")
        page.enter("age [year]", "31")
        page.choose("left")
        page.press("Continue")
        page.sees("Two surfaces")
        page.key(SPACE)
        page.press("Start")
        page.sees("Which surface was stiffer")
        page.press("2")
        page.sees("right")  # or not, in practice
        page.press("Start")
        page.sees("Feel it until it ends")
        process.kill()
        process.wait()
    refused = answer("study", *run)
    assert refused.status == 2 and "participant 01: session 1 exists" in refused.err
    resume = ["resume", str(out)]
    with session(out, *resume) as (process, address, other), Shown(other, tmp_path / "b") as experimenter:
        again = answer("study", *resume)
        assert again.status == 1 and f"another experimenter (process {process.pid})" in again.err
        with Shown(address, tmp_path / "a") as page:
            experimenter.sees("trial 2 was cut and is presented again")
            page.press("Start")
            page.sees("Feel it until it ends")
        # the browser is closed
        experimenter.sees("paused: the participant's page was closed")
        with Shown(address, tmp_path / "c") as page:
            page.sees("This page was closed meanwhile")
            page.press("Continue")
            page.press("Start")
            page.sees("Which surface was stiffer")
            page.key(ONE)
            page.sees("A break")
            page.press("Continue")
            page.press("Start")
            page.sees("Feel it until it ends")
            experimenter.press("Repeat trial")
            experimenter.sees("repeat: needs a reason")
            experimenter.enter("reason", "slipped")
            experimenter.press("Repeat trial")
            experimenter.sees("slipped")
            page.press("Start")
            page.sees("Which surface was stiffer")
            page.press("1")
            page.sees("Thank you for taking part")
            experimenter.press("Close the pages")
            assert process.wait(browser.DEADLINE) == 0
    dataset = Dataset.open(out)
    replayed, first = dataset.replayed("01", 1)
    assert isinstance(replayed.step, End) and not replayed.step.reason
    assert {key for key in first["by"]} == {"kind", "device", "began"}
    table = load_study(out)
    assert list(table["trial"]) == [1, 2, 3] and list(table["status"]) == ["practice", "answered", "answered"]
    assert list(table["attempt"]) == [1, 3, 2] and list(table["age"]) == [31.0] * 3
    assert all(0.0 < one < 60.0 for one in table["response_time"])
    for places in table["directories"]:
        for place in places.split():
            assert verify(out / place).problem == ""


@pytest.mark.graph
@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_session_that_is_interrupted_says_how_it_goes_on(tmp_path: Path, number: int) -> None:
    file, out = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(document(**SMALL)), encoding="utf-8")
    with session(out, "run", str(file), "--participant", "7", "--out", str(out)) as (process, _, _):
        process.send_signal(number)
        assert process.wait(browser.DEADLINE) == 128 + number
    (said,) = tmp_path.glob("said-*")
    assert f"haptics study resume {out}" in said.read_text()
