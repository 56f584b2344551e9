"""The page of health of a realtime trial: numbers, words and figures from arrays of known answers."""

import json
import re

import numpy as np
import pytest
from test_report import Page, run

from haptic_bench.analysis import health
from haptic_bench.analysis.health import Health
from haptic_bench.report import pages
from haptic_sim.parameters import ParameterError
from haptic_view import figures

pytestmark = pytest.mark.drawn

RATE = 1000.0  # [Hz]: a period of 1e6 ns
COUNTS = {
    "scheduler": "SCHED_FIFO 50",
    "skipped_periods": 1,
    "lost_messages": 6,
    "lost_by_topic": {"tool_state": 2, "device_state": 4},
    "unsent_messages": 4,
    "saturations": 0,
    "expired": 2,
    "refused": 1,
}


def measured(ticks=100, counts=None):
    """A trial on time, each tick answered after 0.2 ms."""
    return Health(
        RATE,
        np.arange(ticks, dtype=np.int64) * 1_000_000,
        np.full(ticks, 200_000, np.int64),
        np.zeros(ticks, np.int64),
        dict(COUNTS, skipped_periods=0, lost_messages=0, unsent_messages=0, expired=0, refused=0)
        if counts is None
        else counts,
    )


def troubled():
    """A period skipped before tick 50; no answers to ticks 10, 20, 21, 22 and 60, where the driver was 0.4 ms late."""
    one = measured(counts=COUNTS)
    one.begun[50:] += 1_000_000
    one.begun[60] += 400_000
    one.round_trip[[10, 20, 21, 22, 60]] = -1
    one.command_age[[10, 20, 21, 22, 60]] = 1, 1, 2, 3, 1
    return one


def rows(one):
    return {row.name: (row.value, row.unit) for row in health.table(one)}


def save(directory, one):
    np.savez_compressed(
        directory / "timing.npz", begun=one.begun, round_trip=one.round_trip, command_age=one.command_age
    )


def text_of(path):
    return " ".join(" ".join(Page(path.read_text(encoding="utf-8")).text).split())


def section_of(path):
    text = path.read_text(encoding="utf-8")
    return text[text.index("<h2>Health</h2>") : text.index("<h2>Provenance</h2>")]


def test_the_numbers():
    found = rows(troubled())
    assert found["Scheduler"] == ("SCHED_FIFO 50", "")
    assert found["Rate"] == ("990.00 of 1000", "Hz")  # 99 periods in 0.1 s
    # 99 periods of 1 ms, but one of 2 ms, one of 1.4 ms and one of 0.6 ms
    assert found["Period, median / 99th percentile"] == ("1 / 1.412", "ms")
    assert found["Round trip, median / 99th percentile"] == ("0.2 / 0.2", "ms")
    assert found["Missed ticks"] == ("5 of 100", "")
    assert found["Skipped periods"] == ("1", "")
    assert found["Oldest command"] == ("3", "ticks")
    assert found["Ticks without force"] == ("2", "")
    assert found["Saturations"] == ("0", "")
    assert found["Refused messages"] == ("1", "")
    assert found["Lost messages"] == ("6", "")
    assert found["Messages not sent"] == ("4", "")
    assert all(row.meaning for row in health.table(troubled()))


def test_what_was_missed_and_why():
    assert health.sentences(troubled()) == [
        "5 of 100 ticks had no answer within their period (longest run of them: 3 ticks, at 0.020 s).",
        "In 1 of these the driver itself began more than a quarter of a period late, which left the answer less time.",
        "The other 4 were begun in time: the answer came late or was lost, as when a node of the graph waits for the "
        "processor.",
        "1 period was skipped because the driver itself was late (longest time between two ticks: 2 ms, at 0.049 s).",
        "In 2 ticks the force was zero: the last command was older than the watchdog allows.",
        "1 message was refused; the log of the driver says why.",
        "6 messages did not reach the recorder (4 of device_state, 2 of tool_state).",
        "4 messages were never sent: a node saw only the message after the one to be answered.",
    ]


def test_a_trial_on_time():
    assert health.sentences(measured()) == [
        "All 100 ticks were answered within their period.",
        "No period was skipped: the driver was never a whole period late.",
        "Every message that was sent reached the recorder.",
    ]


def test_a_single_missed_tick():
    one = measured()
    one.round_trip[30] = -1
    assert health.sentences(one)[:2] == [
        "1 of 100 ticks had no answer within its period (at 0.030 s).",
        "It was begun in time: the answer came late or was lost, as when a node of the graph waits for the processor.",
    ]


def test_an_answer_taken_after_its_period_is_not_within_it():
    one = measured()
    one.round_trip[30] = 1_300_000
    assert health.sentences(one)[:2] == [
        "Every tick was answered.",
        "1 answer was taken after a whole period or more: the driver itself was woken late.",
    ]


def test_a_rate_that_was_not_held():
    one = measured()
    one.begun[:] *= 2
    assert health.sentences(one)[0].startswith("The machine did not hold the rate: 500 ticks a second instead of 1000.")


def test_skipped_periods_are_found_without_the_count():
    one = troubled()
    one.begun[70:] += 3_000_000
    one.begun[55] += 900_000  # late, but less than a period
    bare = Health(RATE, one.begun, one.round_trip, one.command_age, {})
    assert bare.skipped == 4
    np.testing.assert_array_equal(np.flatnonzero(np.diff(bare.skipped_before())), [49, 69])
    np.testing.assert_allclose(bare.lateness()[[55, 60, 80]], [0.9e-3, 0.4e-3, 0.0], atol=1e-12)
    assert "What the driver counted beside the ticks was not kept: timing.json is missing." in health.sentences(bare)
    assert rows(bare)["Lost messages"] == rows(bare)["Scheduler"] == ("\N{EN DASH}", "")


@pytest.mark.parametrize(
    ("ticks", "longest"), [([4], (4, 1)), ([1, 2, 5, 6, 7, 9], (5, 3)), ([1, 2, 8, 9], (1, 2)), ([0, 1, 2], (0, 3))]
)
def test_the_longest_run(ticks, longest):
    assert health.longest_run(np.array(ticks)) == longest


def test_thinning_keeps_ends_and_extremes():
    values = np.random.default_rng(20260).standard_normal(100_000)
    values[33_333], values[77_777] = 50.0, -50.0
    x, y = figures.thin(np.arange(values.size), values, 700)
    assert x.size <= 1402
    assert (x[0], x[-1]) == (0, values.size - 1)
    assert (np.diff(x) > 0).all()
    np.testing.assert_array_equal(y, values[x])
    assert (y.max(), y.min()) == (50.0, -50.0)
    for part in np.array_split(np.arange(values.size), 700):
        inside = (x >= part[0]) & (x <= part[-1])
        assert y[inside].max() == values[part].max()
        assert y[inside].min() == values[part].min()


def test_a_curve_of_shares_keeps_both_ends():
    values = np.arange(1.0, 50_001.0)
    line = health._longer(values, 60_000, "round trips", health.Style())
    assert (line.x[0], line.y[0]) == (1.0, 100.0)
    assert (line.x[-1], line.y[-1]) == (50_000.0, 100.0 * 10_001 / 60_000)
    assert line.x.size <= 1100
    np.testing.assert_allclose(line.y, 100.0 * (60_001 - line.x) / 60_000)


def test_figures_of_a_long_and_restless_trial_stay_small():
    ticks = 120_000
    rng = np.random.default_rng(20260)
    one = Health(
        RATE,
        np.cumsum(rng.integers(200_000, 5_000_000, ticks)),
        np.where(rng.random(ticks) < 0.5, -1, rng.integers(100_000, 3_000_000, ticks)),
        rng.integers(0, 30, ticks),
        COUNTS,
    )
    figure = health.drawn(one)
    assert [panel.name for panel in figure.panels] == [
        "health_period",
        "health_round_trip",
        "health_distribution",
        "health_command_age",
    ]
    assert max(len(panel.svg) for panel in figure.panels) < 200_000
    assert [panel.svg for panel in health.drawn(one).panels] == [panel.svg for panel in figure.panels]


@pytest.mark.parametrize("ticks", [0, 1, 2])
def test_a_trial_of_hardly_a_tick_has_a_page(tmp_path, ticks):
    run(tmp_path, rows=ticks, mode="realtime", status="interrupted", timing={"start_up": 1.0})
    save(tmp_path, measured(ticks))
    text = text_of(pages.write(tmp_path))
    assert f"0 of {ticks}" in text
    said = ["No tick was executed.", "The only tick was answered within its period.", "All 2 ticks were answered"]
    assert said[ticks] in text
    assert len(list((tmp_path / "figures").glob("health_*.svg"))) == (4 if ticks == 2 else 0)


def test_ticks_without_any_answer_are_drawn():
    one = measured()
    one.round_trip[:] = one.command_age[:] = -1
    assert rows(one)["Round trip, median / 99th percentile"] == ("\N{EN DASH}", "ms")
    assert rows(one)["Oldest command"] == ("\N{EN DASH}", "ticks")
    figure = health.drawn(one)
    assert len(figure.panels) == 4
    assert "missed ticks" in figure.panels[0].svg


@pytest.mark.exhaustive
def test_the_page_shows_each_number_once(tmp_path):
    run(
        tmp_path, "analysis=trial", mode="realtime", timing={"start_up": 1.0, "period_p50": 1e-3, "missed": 5, **COUNTS}
    )
    save(tmp_path, troubled())
    path = pages.write(tmp_path)
    section = section_of(path)
    for name in health.KEYS:
        assert f"<code>{name}</code>" not in section
    assert "<code>start_up</code>" in section
    assert section.count("SCHED_FIFO 50") == 1
    assert section.count("<svg") == 4
    assert len({*re.findall(r'\bid="([^"]*)"', section)}) == len(re.findall(r'\bid="([^"]*)"', section))
    before = path.read_bytes()
    assert pages.write(tmp_path).read_bytes() == before


def test_other_modes_have_no_page_of_health(tmp_path):
    run(tmp_path, "analysis=trial", timing={"start_up": 1.0})
    text = pages.write(tmp_path).read_text(encoding="utf-8")
    assert "<h2>Health</h2>" not in text
    assert "<code>start_up</code>" in text
    assert not list((tmp_path / "figures").glob("health_*"))


def test_what_is_not_a_measurement_is_refused(tmp_path):
    run(tmp_path, "analysis=trial")
    path = tmp_path / "timing.npz"
    for content in (b"", b"PK\x03\x04 nothing", json.dumps({}).encode()):
        path.write_bytes(content)
        with pytest.raises(ParameterError, match=r"timing\.npz: not what a driver measures"):
            pages.write(tmp_path)
    np.savez(path, begun=np.zeros(3), round_trip=np.zeros(3))
    with pytest.raises(ParameterError, match="command_age"):
        pages.write(tmp_path)
    np.savez(path, begun=np.zeros(3), round_trip=np.zeros(2), command_age=np.zeros(3))
    with pytest.raises(ParameterError, match="must have one value a tick each"):
        pages.write(tmp_path)
