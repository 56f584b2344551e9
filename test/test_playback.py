"""Playing back without a graph: what is refused before anything is published."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from haptic_bench.commands import command_line
from haptic_bench.recording.bag import BagWriter, Definition, Topic

pytest.importorskip("rclpy", reason="needs ROS 2")


def trial_of(directory: Path, topic: Topic) -> Path:
    """A directory with the bag of one message of a topic."""
    directory.mkdir(exist_ok=True)
    with BagWriter(directory / "bag", [topic]) as bag:
        bag.write(0, 0, b"\0\1\0\0")
    summary = {"experiment": "a", "mode": "offline", "status": "done", "ticks": 1}
    (directory / "summary.json").write_text(json.dumps(summary))
    return directory


@pytest.mark.parametrize(
    "kind", ["evil_module/msg/Thing", "evil_module.x/msg/Thing", "std_msgs/msg/__class__", "nothing", "a/b/c/d", ""]
)
def test_a_bag_does_not_choose_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    package = tmp_path / "evil_module"
    (package / "msg").mkdir(parents=True)
    for folder in (package, package / "msg"):
        (folder / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nThing = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    directory = trial_of(tmp_path / "trial", Topic("/a/b", kind, definition=Definition("int8 x", "")))
    assert command_line.main(["replay", str(directory)]) == 2
    assert "is neither of ROS 2 nor of this package" in capsys.readouterr().err
    assert not (tmp_path / "imported").exists() and "evil_module" not in sys.modules


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rate", "0"], "--rate 0: must be > 0"),
        (["--from", "2", "--to", "1"], "--to 1: must be at least --from 2"),
        (["--from", "2"], "has no message; the trial is 0 s long"),
        (["--namespace", "a b"], "--namespace a b: must be names of letters"),
        (["--verify", "--loop", "--rate", "2"], "--rate, --loop: for playing"),
    ],
)
def test_what_cannot_be_played_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    directory = trial_of(tmp_path, Topic("/a/tool_state", "haptics/msg/ToolState"))
    assert command_line.main(["replay", str(directory), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_names_that_are_none_of_topics_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = trial_of(tmp_path, Topic("/a/no topic", "haptics/msg/ToolState"))
    assert command_line.main(["replay", str(directory), "--wait", "0"]) == 2
    assert "is not the name of a topic" in capsys.readouterr().err


def test_of_a_sweep_a_run_has_to_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [{"label": f"x={i}", "directory": f"x={i}"} for i in range(9)]
    (tmp_path / "summary.json").write_text(
        json.dumps({"experiment": "a", "mode": "", "status": "", "sweep": {"keys": ["x"], "runs": runs}})
    )
    assert command_line.main(["replay", str(tmp_path)]) == 2
    assert "is a sweep; choose one of its runs: x=0, x=1, x=2, x=3, x=4 and 4 more" in capsys.readouterr().err
