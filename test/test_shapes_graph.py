"""The experiments of concave shapes in every mode: the same bits without a clock, and simulated again with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, answer

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import check_lockstep_is_offline
from test_graph import settings

EXPERIMENTS = ("nut_and_bolt", "gears", "mug_on_hook", "bone_saddle")


@pytest.mark.exhaustive
@pytest.mark.parametrize("flags", [(), ("--composed",)], ids=["graph", "composed"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_lockstep_and_offline_give_the_same_bits(
    haptics: Callable[..., Haptics], tmp_path: Path, name: str, flags: tuple[str, ...]
) -> None:
    check_lockstep_is_offline(haptics, tmp_path, name, "--duration", "0.7", flags=flags)


@pytest.mark.exhaustive
@pytest.mark.parametrize("flags", [(), ("--composed",)], ids=["graph", "composed"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_realtime_trial_simulates_again(
    haptics: Callable[..., Haptics], tmp_path: Path, name: str, flags: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    slow = settings("health.missed_share=1", "analysis=trial")  # on a machine that may stall
    run = haptics("run", name, "--mode", "realtime", "--duration", "0.7", *flags, *slow, "--out", str(out))
    assert run.wait() == 0, run.err
    assert json.loads((out / "summary.json").read_text())["ticks"] > 0
    verify = answer("replay", str(out), "--verify")
    assert verify.status == 0, verify.out
