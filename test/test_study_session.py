"""The session of a participant: a pure state machine of the study and the events, the same wherever it is replayed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from study_sessions import event_of, random_answer, run, small

from haptic_sim.parameters import ParameterError
from haptic_study.file import Study
from haptic_study.session import End, Form, Page, Paused, Rest, Session, SessionError, Trial

TWO = {
    "damping": {"key": "contact.damping", "levels": [0.5, 1.0]},
    "mass": {"key": "device.mass", "levels": [0.1, 0.2]},
}
STAIRCASE = {"type": "staircase", "start": 400.0, "steps": [40.0, 20.0], "down": 2, "reversals": 8, "low": 301.0}


def to_first_trial(session: Session) -> Trial:
    while not isinstance(session.step, Trial):
        session.apply(event_of(session))
    return session.step


def presented(study: Study, participant: str) -> list[tuple[Any, ...]]:
    session = Session(study, participant)
    run(session)
    return [(row.trial.condition.label, row.trial.level, row.trial.comparison) for row in session.rows]


def test_a_session_goes_from_questionnaire_to_end() -> None:
    session = Session(small(consent="Do you agree?", rest__every=5, tasks__discrimination__practice=[450.0]), "01")
    kinds = []
    while not isinstance(session.step, End):
        kinds.append(type(session.step))
        session.apply(event_of(session))
    assert kinds[:3] == [Page, Form, Page] and kinds.count(Rest) == 2
    assert [row.trial.block for row in session.rows] == [0] + [1] * 12
    assert sorted(row.trial.level for row in session.rows[1:]) == sorted([200.0, 280.0, 320.0, 400.0] * 3)
    assert session.rows[0].trial.practice and not session.rows[1].trial.practice


@pytest.mark.parametrize("method", [STAIRCASE, {"type": "interleaved", "tracks": [STAIRCASE, STAIRCASE]}])
def test_replaying_the_events_restores_every_state(method: dict[str, Any]) -> None:
    study = small(tasks__discrimination__method=method, factors=TWO, design={"order": "williams"})
    session = Session(study, "03")
    events = run(session, lambda trial: str(trial.comparison + 1) if trial.level > 340 else random_answer(trial))
    for cut in (0, 1, len(events) // 3, len(events) - 1):
        again = Session(study, "03")
        for event in events[:cut]:
            again.apply(event)
        for event in events[cut:]:
            if event["event"] == "begin":
                assert isinstance(again.step, Trial) and again.step.beginning == event
            again.apply(event)
        assert again.rows == session.rows and again.step == session.step


def test_the_order_depends_on_seed_study_and_participant() -> None:
    study = small(factors=TWO, design={"order": "random"})
    orders = {code: presented(study, code) for code in ("01", "02", "03")}
    assert orders == {code: presented(study, code) for code in ("03", "01", "02")}
    assert len({str(one) for one in orders.values()}) == 3
    other = small(factors=TWO, design={"order": "random"}, seed=1)
    assert presented(other, "01") != orders["01"]


RECORDED = [(280.0, 1), (400.0, 0), (200.0, 1), (320.0, 1), (400.0, 1), (280.0, 1)]
"""Levels and intervals of the comparison of the first trials of participant 01."""


def test_the_order_is_that_of_any_machine() -> None:
    """Numbers that were recorded once: another version of Python or NumPy must not change the order of a study."""
    rows = presented(small(), "01")[:6]
    assert [(level, comparison) for _, level, comparison in rows] == RECORDED


def test_blocks_of_a_williams_design_are_balanced() -> None:
    study = small(factors=TWO, design={"order": "williams"})
    pairs: dict[tuple[str, str], int] = {}
    for number in range(1, 5):
        labels = [block.conditions[0].label for block in Session(study, f"{number:02d}").blocks]
        assert len(set(labels)) == 4
        for pair in itertools.pairwise(labels):
            pairs[pair] = pairs.get(pair, 0) + 1
    assert len(pairs) == 12 and set(pairs.values()) == {1}  # each condition follows each other one once


def test_a_factor_between_participants_has_one_level_for_each() -> None:
    factors = {**TWO, "group": {"levels": {"a": {"rate": 500.0}, "b": {"rate": 600.0}}, "between": True}}
    study = small(factors=factors)
    groups = []
    for number in range(1, 9):
        levels = {one.levels["group"] for block in Session(study, f"P{number}").blocks for one in block.conditions}
        groups += levels
        assert len(levels) == 1
    assert sorted(groups) == ["a"] * 4 + ["b"] * 4


@pytest.mark.parametrize("most", [1, 2, None])
def test_mixed_conditions_come_equally_often_and_not_too_often_in_a_row(most: int | None) -> None:
    study = small(factors={"damping": TWO["damping"]}, design={"blocked": False, "no_more_than": most})
    for code in ("01", "02", "03", "04"):
        labels = [label for label, *_ in presented(study, code)]
        assert sorted(map(labels.count, set(labels))) == [12, 12]
        if most is not None:
            # the last ones may be of the condition that is left alone
            runs = [len(list(some)) for _, some in itertools.groupby(labels)]
            assert all(run_ <= most for run_ in runs[:-1])


def test_a_dropped_trial_is_presented_again_as_another_one() -> None:
    session = Session(small(), "01")
    first = to_first_trial(session)
    session.apply(first.beginning)
    session.apply({"event": "drop", "trial": 1, "reason": "the device was held by the cable"})
    following = session.step
    assert isinstance(following, Trial) and (following.number, following.level) == (2, first.level)
    run(session)
    assert len(session.rows) == 13 and session.rows[0].status == "dropped" and session.rows[0].outcome is None


def test_a_repeated_trial_is_the_same_one() -> None:
    session = Session(small(), "01")
    first = to_first_trial(session)
    session.apply(first.beginning)
    session.apply({"event": "repeat", "trial": 1, "reason": "noise"})
    again = session.step
    assert isinstance(again, Trial)
    assert (again.number, again.attempt, again.values, again.begun) == (1, 2, first.values, False)


def test_an_excluded_trial_stays_in_the_table() -> None:
    session = Session(small(), "01")
    run(session)
    session.apply({"event": "exclude", "trial": 4, "reason": "spoke"})
    assert (session.rows[3].status, session.rows[3].reason) == ("excluded", "spoke")
    with pytest.raises(SessionError, match=r"^event exclude: trial 4 has no answer that counts$"):
        session.apply({"event": "exclude", "trial": 4})


def test_a_pause_returns_to_where_it_began() -> None:
    session = Session(small(), "01")
    trial = to_first_trial(session)
    session.apply({"event": "pause", "reason": "water"})
    assert session.step == Paused("water")
    with pytest.raises(SessionError, match="the session is paused; resume it first"):
        session.apply(trial.beginning)
    session.apply({"event": "resume"})
    assert session.step == trial


def test_an_adjustment_goes_on_until_it_is_done() -> None:
    task = {
        "type": "adjustment", "question": "Make both alike.", "stimulus": "contact.stiffness", "reference": 300.0,
        "step": 20.0, "limits": [100.0, 350.0], "method": {**SMALL_STARTS},
    }  # fmt: skip
    session = Session(small(tasks={"match": task}), "01")
    first = to_first_trial(session)
    for answer, value in (("up", 20.0), ("up", 40.0), ("down", 20.0)):
        trial = session.step
        assert isinstance(trial, Trial)
        session.apply(trial.beginning)
        session.apply({"event": "answer", "trial": 1, "answer": answer})
        step = session.step
        assert isinstance(step, Trial)
        assert step.values[step.comparison] == min(first.level + value, 350.0)
    session.apply(step.beginning)
    session.apply({"event": "answer", "trial": 1, "answer": "done"})
    assert session.rows[0].outcome == first.level + 20.0 and session.rows[0].trial.presentation == 4


SMALL_STARTS = {"type": "constant_stimuli", "levels": [200.0, 240.0], "repetitions": 2}


def test_catch_trials_are_not_given_to_the_method() -> None:
    task = {
        "type": "yes_no", "question": "Was it hard?", "stimulus": "contact.stiffness", "reference": 300.0, "catch": 0.5,
        "method": {"type": "constant_stimuli", "levels": [320.0, 400.0], "repetitions": 20},
    }  # fmt: skip
    session = Session(small(tasks={"hard": task}), "01")
    run(session)
    caught = [row for row in session.rows if row.trial.comparison < 0]
    signals = [row.trial.level for row in session.rows if row.trial.comparison >= 0]
    assert sorted(signals) == [320.0] * 20 + [400.0] * 20
    assert {row.trial.values for row in caught} == {(300.0,)} and 20 < len(caught) < 70


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"event": "nothing"}, "event nothing: unknown (known: answer, begin, continue, drop, exclude, form, pause, "),
        ({"event": "continue"}, "event continue: trial 1 is shown, not a page or a rest"),
        ({"event": "answer", "trial": 1, "answer": "1"}, "event answer: trial 1 has not begun"),
        ({"event": "begin", "trial": 2}, "event begin: trial 2 received, trial 1 expected"),
        (
            {"event": "begin", "trial": 1, "attempt": 1, "presentation": 1, "level": 1.0, "values": [1.0, 2.0]},
            "trial 1: level = 1.0 instead of",
        ),
    ],
)
def test_an_event_that_does_not_fit_changes_nothing(event: dict[str, Any], said: str) -> None:
    session = Session(small(), "01")
    before = to_first_trial(session)
    with pytest.raises(SessionError) as raised:
        session.apply(event)
    assert str(raised.value).startswith(said) and session.step == before


def test_an_answer_that_is_none_is_refused() -> None:
    session = Session(small(), "01")
    session.apply(to_first_trial(session).beginning)
    with pytest.raises(SessionError, match=r"^trial 1: answer = 3: must be one of 1, 2$"):
        session.apply({"event": "answer", "trial": 1, "answer": "3"})


def test_a_form_names_each_answer_that_is_wrong() -> None:
    session = Session(small(), "01")
    with pytest.raises(SessionError) as raised:
        session.apply({"event": "form", "answers": {"age": "old", "hand": "both"}})
    assert raised.value.problems == [
        "person.age = old: must be a number",
        "person.hand = both: must be one of left, right",
    ]
    with pytest.raises(SessionError, match=r"^person: shoe: must be answers to age, hand$"):
        session.apply({"event": "form", "answers": {"shoe": 40}})


def test_a_participant_has_a_number() -> None:
    with pytest.raises(ParameterError, match=r"^participant Ann: must end with a number from 1 on, as 01"):
        Session(small(), "Ann")
