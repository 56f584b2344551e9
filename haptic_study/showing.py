"""Content of the two pages of a session, as data: the participant's without the condition, and the experimenter's.

Nothing here knows a browser: a page draws a `Screen`, a test reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from haptic_study.file import ItemParameters, Study
from haptic_study.session import End, Form, Page, Paused, Rest, Row, Session, Step, Trial
from haptic_study.tasks import (
    ForcedChoiceParameters,
    FreeParameters,
    SameDifferentParameters,
    StimulusTask,
    YesNoParameters,
)

CONTINUE, AGREE, DECLINE, START, ENOUGH, NUMBER = "continue", "agree", "decline", "start", "enough", "number"
"""Choices on a page beside answers."""
SHOWN = 12  # answers on the experimenter's page


@dataclass(frozen=True)
class Choice:
    """A button of a page, with the key that presses it."""

    value: str
    label: str
    key: str = ""


@dataclass(frozen=True)
class Screen:
    """Screen of the participant: its text and its choices.

    Attributes:
        text: in Markdown.
        choices: buttons; in a form the one that ends it.
        items: questions of a form, by their names.
        asks_number: whether a number is asked for.
        problems: what was wrong with what was entered.
        progress: from 0 to 1.
        presents: whether an interval is presented.
    """

    text: str
    choices: tuple[Choice, ...] = ()
    items: tuple[tuple[str, ItemParameters], ...] = ()
    asks_number: bool = False
    problems: tuple[str, ...] = ()
    progress: float = 0.0
    presents: bool = False


GO_ON = (Choice(CONTINUE, "Continue", "space"),)


def of_page(page: Page) -> Screen:
    """A text; the consent has a choice."""
    if page.name == "consent":
        return Screen(page.text, (Choice(AGREE, "I agree"), Choice(DECLINE, "I do not agree")))
    return Screen(page.text, GO_ON)


def of_form(form: Form) -> Screen:
    """A questionnaire."""
    heading = form.questionnaire.text or "## Some questions"
    return Screen(heading, (Choice(CONTINUE, "Continue"),), tuple(form.questionnaire.items.items()))


def of_rest(left: float) -> Screen:
    """A rest, of which so much is left [s]."""
    if left > 0.0:
        return Screen(f"## A break\n\nIt goes on in **{_clock(left)}**.")
    return Screen("## A break\n\nPlease continue when you are ready.", GO_ON)


def of_pause(*, here: bool) -> Screen:
    """A pause; `here`: the participant may end it."""
    if here:
        return Screen("## A pause\n\nThis page was closed meanwhile. Please continue when you are ready.", GO_ON)
    return Screen("## A pause\n\nPlease wait. The experimenter will continue.")


def of_end(reason: str) -> Screen:
    """The end."""
    if reason:
        return Screen("## The end\n\nThe session has been ended. Thank you.")
    return Screen("## The end\n\nThat was all. Thank you for taking part.", progress=1.0)


def before(trial: Trial, *, is_ready: bool, feedback: str) -> Screen:
    """Before a trial begins."""
    kind = "practice" if trial.practice else "trial"
    shown = f"{feedback}\n\n" if feedback else ""
    if not is_ready:
        return Screen(f"{shown}## Next {kind}\n\nOne moment …")
    return Screen(f"{shown}## Next {kind}\n\nPress start when you are ready.", (Choice(START, "Start", "space"),))


def during(trial: Trial, interval: int, *, may_end: bool) -> Screen:
    """While an interval is presented, of number `interval` from 0 on."""
    title = f"## {interval + 1}\n\n" if trial.intervals > 1 else ""
    text = f"{title}{trial.question}" if trial.intervals == 1 else f"{title}Feel it until it ends."
    choices = (Choice(ENOUGH, "Done" if trial.intervals == 1 else "Enough", "enter"),) if may_end else ()
    return Screen(text, choices, presents=True)


def between(trial: Trial, interval: int) -> Screen:
    """Between two intervals; `interval` is the next one, from 0 on."""
    return Screen(f"## …\n\nNext: **{interval + 1}**")


def question(trial: Trial) -> Screen:
    """After the intervals."""
    text = f"## {trial.question}"
    if trial.answers:
        return Screen(text, tuple(Choice(one, one, str(i)) for i, one in enumerate(trial.answers, 1)))
    return Screen(text, (Choice(NUMBER, "Answer"),), asks_number=True)


def storing(trial: Trial) -> Screen:
    """After the answer, until all is on the disk."""
    return Screen("One moment …")


def feedback_of(study: Study, row: Row) -> str:
    """Whether the answer of a practice trial was right, where it can be; empty where it cannot."""
    trial, task = row.trial, study.parameters.tasks[row.trial.task]
    right: bool | None = None
    match task:
        case ForcedChoiceParameters(ask="odd"):
            right = row.answer == str(trial.comparison + 1)
        case ForcedChoiceParameters(ask=ask):
            asked = max(trial.values) if ask == "larger" else min(trial.values)
            right = trial.values[int(row.answer or 1) - 1] == asked
        case YesNoParameters() | SameDifferentParameters():
            right = (row.answer in ("yes", "different")) == (trial.comparison >= 0)
        case FreeParameters():
            return "**Success.**" if row.answer == "success" else "**No success this time.**"
    return "" if right is None else "**That was right.**" if right else "**That was not right.**"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d} min" if whole >= 60 else f"{whole} s"


# The experimenter's page


@dataclass(frozen=True)
class State:
    """State on the experimenter's page beside the session itself.

    Attributes:
        doing: what goes on, in words.
        notes: what has happened, the last one last.
        repeats: how often a trial was repeated.
        gap: time from the last answer until the next trial was ready [s]; None: not known.
        missed, ticks: of the last interval.
        expected: number of trials that is expected.
        present: browsers that show the participant's page.
    """

    doing: str
    notes: tuple[str, ...] = ()
    repeats: int = 0
    gap: float | None = None
    missed: int = 0
    ticks: int = 0
    expected: int = 0
    present: int = 0


def experimenter_text(session: Session, step: Step, state: State, *, blind: bool) -> str:
    """State, what is next, counts and answers so far, in Markdown; `blind`: without condition, level and outcome."""
    rows = session.rows
    count = {name: sum(row.status == name for row in rows) for name in ("answered", "dropped", "excluded")}
    seen = "" if state.present else " — **the participant's page is not open**"
    gap = "-" if state.gap is None else f"{state.gap:.2f} s"
    lines = [
        f"participant **{session.participant}**, session {session.number}",
        "",
        f"**{state.doing}**{seen}",
        "",
        f"next: {_next(session, step, blind=blind)}",
        "",
        "| | |",
        "| --- | --- |",
        f"| answered | {count['answered']} of about {state.expected} |",
        f"| repeated, dropped, excluded | {state.repeats}, {count['dropped']}, {count['excluded']} |",
        f"| answer to next trial | {gap} |",
        f"| missed ticks | {state.missed} of {state.ticks} |",
        "",
        *_answers(rows, blind=blind),
    ]
    return "\n".join(lines) + ("\n\n" + "\n".join(f"- {note}" for note in state.notes) if state.notes else "")


def _next(session: Session, step: Step, *, blind: bool) -> str:
    match step:
        case Trial() as trial:
            what = f"trial {trial.number}" + (f", attempt {trial.attempt}" if trial.attempt > 1 else "")
            what += ", practice" if trial.practice else f", block {trial.block} of {len(session.blocks)}"
            if blind:
                return what
            task = session.study.parameters.tasks[trial.task]
            unit = f" {task.unit}" if isinstance(task, StimulusTask) and task.unit else ""
            values = ", ".join(f"{value:g}{unit}" for value in trial.values)
            condition = f", {trial.condition.label}" if trial.condition.label else ""
            return f"{what}, {trial.task}{condition}, level {trial.level:g} ({values})"
        case Page(name=name) | Form(name=name):
            return name
        case Rest(duration=duration):
            return f"a rest of {duration:g} s"
        case Paused(reason=reason):
            return f"a pause ({reason})" if reason else "a pause"
        case End(reason=reason):
            return f"the end ({reason})" if reason else "the end"
    raise TypeError(step)


def _answers(rows: Sequence[Row], *, blind: bool) -> list[str]:
    """A table of the last answers."""
    if not rows:
        return []
    head = ("trial", "answer", "time [s]") if blind else ("trial", "level", "answer", "outcome", "time [s]")
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for row in rows[-SHOWN:][::-1]:
        time = row.event.get("response_time")
        answer = row.status if row.answer is None else str(row.answer)
        outcome = "" if row.outcome is None else f"{row.outcome:g}"
        took = "" if time is None else f"{time:.2f}"
        cells = (answer, took) if blind else (f"{row.trial.level:g}", answer, outcome, took)
        lines.append("| " + " | ".join((str(row.trial.number), *cells)) + " |")
    return lines
