"""The benchmark of local models against the rate of the environment: what it measures, and the page that it writes."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from claim_checks import changed
from conftest import Haptics, wait_until

from benchmarks import rates
from benchmarks.rates import Cell

pytestmark = pytest.mark.long  # trials of analyses, and processes that measure them

MASS, PUSH = 2.0, 0.5  # [kg, N]


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, int], Cell]:
    wanted = [("full", 20), ("full, prediction", 20), ("full, no deformation", 20), ("held", 20), ("held", 1000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rates, "HALVINGS", 2)
        found = {}
        for one in wanted:  # those without deformation pass through the wall late
            patch.setattr(rates, "DURATION", 3.0 if one == ("full, no deformation", 20) else 1.5)
            found[one] = rates.measure(*one)
        return found


@pytest.mark.exhaustive
def test_a_wall_at_the_servo_rate_is_entered_by_less_than_a_tick(cells: dict[tuple[str, int], Cell]) -> None:
    """Its impact stops the tool within the tick, v T; the environment's own does so two ticks later."""
    speed = math.sqrt(2.0 * PUSH / MASS * 0.034)
    assert 0.0 < cells["full, prediction", 20].penetration < speed / rates.SERVO + PUSH / 8000.0
    assert cells["held", 1000].penetration < 3.0 * speed / rates.SERVO


@pytest.mark.exhaustive
def test_what_each_of_them_is_for_shows(cells: dict[tuple[str, int], Cell]) -> None:
    full, predicted, jumps, held = (cells[name, 20] for name in list(rates.CONTENDERS) if (name, 20) in cells)
    assert predicted.penetration < 0.1 * full.penetration < full.penetration < 2 * 0.131 * 2 / 20
    assert math.isinf(jumps.penetration) and math.isinf(held.penetration)
    assert jumps.force_step > 10.0 * full.force_step
    assert full.bound == predicted.bound == "at least" and full.stiffness == rates.STIFFEST
    assert jumps.bound == "" and jumps.stiffness < 1e4 and held.stiffness < 1e4


def test_energy_is_of_the_hand_beyond_what_the_push_has_given() -> None:
    """None more on its way to the wall; a hand that is as fast 17 mm up has gained half of that to the wall."""
    trial = rates.load("static_wall", "full", 60)
    samples, whole = rates.run(trial)
    assert whole and abs(rates.excess_energy(trial, samples)) < 5e-3  # of discrete time
    faster = changed(samples, hand_vy=-math.sqrt(0.5 * 2.0 * PUSH / MASS * 0.034) * (np.arange(len(samples)) == 0))
    assert rates.excess_energy(trial, faster) == pytest.approx(0.5, rel=1e-6)


def test_a_bisection_finds_the_bound_and_says_where_there_is_none() -> None:
    found, bound = rates.highest_stiffness(lambda stiffness: stiffness <= 1234.0)
    assert bound == "" and 1234.0 / 1.04 < found <= 1234.0
    assert rates.highest_stiffness(lambda stiffness: True) == (rates.STIFFEST, "at least")
    assert rates.highest_stiffness(lambda stiffness: False) == (rates.SOFTEST, "below")


def test_a_step_is_between_ticks_without_collisions() -> None:
    trial = rates.load("static_wall", "full", 60)
    samples, _ = rates.run(trial)
    assert samples["colliding"].any() and np.abs(samples["env_fy"]).max() > 100.0  # the impulse
    assert rates.largest_step(samples) < 2.0 * 8000.0 * 1.3e-4


@pytest.mark.exhaustive
@pytest.mark.drawn
def test_the_page_has_all_cells(cells: dict[tuple[str, int], Cell], tmp_path: Path) -> None:
    page = rates.write(list(cells.values()), tmp_path / "new")
    assert page == tmp_path / "new" / "report.html"
    text = page.read_text()
    assert text.count("<svg") == 4 and "passed" in text and "\N{GREATER-THAN OR EQUAL TO}10⁵" in text
    with (tmp_path / "new" / "rates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["contender"], int(row["rate"])) for row in rows] == [
        ("full", 20),
        ("full, prediction", 20),
        ("full, no deformation", 20),
        ("held", 20),
        ("held", 1000),
    ]
    assert float(rows[0]["penetration"]) == cells["full", 20].penetration
    assert json.loads(json.dumps(rates.rows(list(cells.values())), allow_nan=False))[3]["penetration"] is None


@pytest.mark.exhaustive
def test_cells_are_measured_in_other_processes() -> None:
    (cell,) = rates.measure_all(["resolve"], [1000])
    assert (cell.contender, cell.rate) == ("resolve", 1000)
    assert math.isnan(cell.stiffness) and cell.penetration < 1e-3


@pytest.mark.exhaustive
def test_an_interruption_ends_all_processes(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = haptics("benchmark", "rates", "--out", str(out))
    place = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children")

    def workers() -> list[Path]:
        found = [Path(f"/proc/{pid}/cmdline") for pid in place.read_text().split()]
        return [path for path in found if path.exists() and b"spawn_main" in path.read_bytes()]

    wait_until(workers, "the workers")
    started = workers()
    run.interrupt()
    assert run.wait() != 0
    wait_until(lambda: not any(path.exists() for path in started), "the end of the workers")
    assert not out.exists()
