"""A twin pantograph in the graph, behind a local model, with a controller that knows its linkage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics
from graph_checks import check_lockstep_is_offline

SETTINGS = ("device.type=pantograph", "device.shaped=false", "controller.operator_wrench=observed")


@pytest.mark.exhaustive
def test_a_trial_in_lockstep_is_the_one_offline(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    settings = [text for one in SETTINGS for text in ("--set", one)]
    check_lockstep_is_offline(haptics, tmp_path, "local_impacts", "--duration", "0.4", *settings)
