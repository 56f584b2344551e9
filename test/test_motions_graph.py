"""Bodies that follow trajectories under a hand, as a graph of nodes: lockstep is offline, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, sampled
from graph_checks import check_lockstep_is_offline

TRIALS = {
    "push_arm": ["duration=0.6"],  # the tip touches the arm at 0.5 s
    "pull_arm": ["duration=0.6"],  # the hand grabs it at 0.4 s
}


@pytest.mark.parametrize("name", sampled(["pull_arm", "push_arm"]))
def test_lockstep_and_offline_give_the_same_bits(haptics: Callable[..., Haptics], tmp_path: Path, name: str) -> None:
    settings = [word for setting in ("analysis=trial", *TRIALS[name]) for word in ("--set", setting)]
    check_lockstep_is_offline(haptics, tmp_path, name, *settings)
