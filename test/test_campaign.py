"""The campaign finds faults that are there, and none where there are none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import yaml
from conftest import ROOT, Haptics, answer

from campaign import (
    cases,
    disks,
    fuzz,
    hands,
    inputs,
    kills,
    machines,
    robots,
    shapes,
    soak,
    strangers,
    suite,
    variants,
)
from campaign.cases import Ended, Outcome, faults_of, summary_of
from haptic_bench.commands import command_line


def test_the_end_of_a_program_is_judged() -> None:
    assert not list(faults_of(Ended(1, "", "haptics: no space left\n"), {0, 1}))
    assert len(list(faults_of(Ended(3, "", ""), {0, 1}))) == 1
    assert len(list(faults_of(Ended(1, "", "Traceback (most recent call last):\n"), {0, 1}))) == 1
    assert list(faults_of(None, {0})) == [f"hangs: has not ended after {cases.DEADLINE:g} s"]


@pytest.mark.parametrize("text", ["{", '{"status": "perhaps"}', '{"status": "failed"}'])
def test_a_summary_that_is_not_true_is_found(tmp_path: Path, text: str) -> None:
    assert summary_of(tmp_path) == ({}, [])
    (tmp_path / "summary.json").write_text(text)
    assert len(summary_of(tmp_path)[1]) == 1


LEAVES = """
import subprocess, sys
from campaign import cases
cases.GRACE = 0.2
cases.adopt()
inner = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=2).pid)"
number = subprocess.run([sys.executable, "-c", inner], stdout=-1, text=True, check=True).stdout.strip()
assert list(cases.left_over()) == [f"process {number} is left: sleep 1000"]
assert not list(cases.left_over())
"""


def test_a_process_that_is_left_is_found_and_ended() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVES], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_a_case_of_files_refuses_them_all_and_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BATCH", 4)
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = inputs.case(number, folder)
        assert not outcome.faults and outcome.things == 4
    rng, again = (np.random.default_rng(1) for _ in range(2))
    data = bytes(range(256)) * 4
    assert inputs.damaged(rng, data) == inputs.damaged(again, data)


def test_a_command_that_fails_with_a_traceback_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> int:
        raise KeyError("x")

    monkeypatch.setattr(inputs.command_line, "main", fails)
    assert inputs.call("validate", "x.yaml") == "KeyError: 'x'"
    monkeypatch.setattr(inputs.command_line, "main", lambda _: 2)
    assert inputs.call("validate", "x.yaml").startswith("exit status 2 without a line")


def test_variants_that_fail_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends = iter(["passive", AssertionError("x: done, though"), ValueError("y"), "failed", "passive"])

    def outcome(_: int) -> str:
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(variants, "outcome", outcome)
    found = variants.case(1, tmp_path)
    assert found.tried == "variants 5 to 9: 1 failed, 2 passive"
    assert found.faults[0] == "x: done, though" and found.faults[1].endswith("ValueError: y")


def test_shapes_are_variants_from_their_first_number_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[int] = []
    monkeypatch.setattr(variants, "outcome", lambda number: seen.append(number) or "passive")
    assert shapes.case(2, tmp_path).tried == "variants 100010 to 100014: 5 passive"
    assert seen == list(range(100010, 100015))


@pytest.mark.exhaustive
def test_models_are_valid_where_nothing_is_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inputs, "damaged", lambda rng, data: data)
    rng, seen = np.random.default_rng(20265), set()
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        command, path = inputs._model(rng, folder)
        scene = yaml.safe_load(Path(path).read_text())["scene"]
        keys = scene.get("files", {}).get("robot", {"path": scene.get("file")})
        if not keys.keys() & {"args", "error"}:  # which may be wrong
            assert command_line.main([command, path]) == 0
            seen.add(keys["path"])
    assert seen == {Path(name).name for name in inputs.MODELS}


@pytest.mark.graph
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("probe", "number"),
    [("kills", 1), ("disks", 3), ("strangers", 4), ("machines", 2), ("machines", 3), ("soak", 1), ("hands", 0)]
    + [("robots", number) for number in (*range(len(robots.TARGETS)), len(robots.TARGETS) * robots.STOPS - 4)],
)
def test_a_case_of_processes_has_no_fault(tmp_path: Path, probe: str, number: int) -> None:
    command = [sys.executable, "-m", "campaign.one", probe, str(number), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["faults"] == []


def test_the_trials_and_probes_exist() -> None:
    assert set(suite.TURNS) | {"soak"} == set(suite.PROBES)
    from haptic_bench.catalogue import catalogue

    for name, *_ in (*kills.TRIALS, *disks.TRIALS):
        assert name in catalogue()
    assert set(variants.KEYS) | set(variants.KEYS_OF_SHAPES) <= set(catalogue())
    assert {*machines.TRIALS, *strangers.TRIALS, *soak.TRIALS, *soak.WORLDS, *hands.WORLDS} <= set(catalogue())


@pytest.mark.parametrize("kind", hands.KINDS)
def test_an_adversary_does_the_worst_of_its_kind(kind: str) -> None:
    hand = hands.AdversaryParameters(kind=kind, force=2.0, torque=0.1).build(cast(Any, None))
    out, twist = np.zeros(6), np.array([0.3, -0.1, 0.0, 0.0, 0.0, 1.0])
    hand.wrench(0.0, np.zeros(7), twist, out)
    assert np.all(np.abs(out) <= [2.0] * 3 + [0.1] * 3)
    power = float(out @ twist)
    assert {"pump": power == pytest.approx(0.9), "brake": power == pytest.approx(-0.9)}.get(kind, True)
    assert kind != "elastic" or power < 0.0


def test_a_guard_that_lets_energy_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a guard, some of the first trials give energy."""
    guarded = hands.keys
    monkeypatch.setattr(hands, "keys", lambda *given: guarded(*given) | {"guard.type": "none"})
    assert any(hands.outcome(number)[0] == "active" for number in range(12))


def test_a_page_names_each_fault(tmp_path: Path) -> None:
    tally = suite.Tally()
    tally.add(4, Outcome("a kill", ["process 7 is <left>"]), 1.0)
    tally.add(5, Outcome("a kill", []), 1.0)
    suite._write({"kills": tally}, 4, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "process 7 is &lt;left&gt;" in page and "./haptics campaign kills --first 4 --cases 1" in page
    assert list(json.loads((tmp_path / "campaign.json").read_text())["probes"]["kills"]["faults"]) == ["4"]


def test_wrong_arguments(haptics: Haptics) -> None:
    found = answer("campaign", "nothing", "--out", "x")
    assert (found.status, "campaign nothing: must be of inputs, kills" in found.err) == (2, True)


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_what_is_kept_is_taken_or_refused_in_words(name: str) -> None:
    inputs = list(fuzz.kept(name))
    assert inputs
    assert {path.name: fault for path in inputs if (fault := fuzz.fault_of(name, path.read_bytes()))} == {}


def test_a_reader_with_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(data: bytes, folder: Path) -> None:
        raise KeyError(data.decode())

    monkeypatch.setitem(fuzz.TARGETS, "yaml", fuzz.Target(fails, ()))
    assert fuzz.fault_of("yaml", b"x") == "KeyError: 'x'"
