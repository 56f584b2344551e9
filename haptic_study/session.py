"""The session of one participant as a state machine: what is shown next, and what each event changes.

    session = Session(study, participant="01")
    while not isinstance(step := session.step, End):
        session.apply(event)                          # what a page, or a simulated observer, made of the step

It knows neither clock nor file nor device: a page and a simulation are two front ends of it. Its state depends on the
study, the participant, the number of the session and the events alone, so that replaying the events of a journal
restores it, the state of adaptive methods included (`journal`, `recorder`).

An event is a mapping of JSON with its kind under `event`:

| event      | when                     | further keys                                                              |
| ---------- | ------------------------ | ------------------------------------------------------------------------- |
| `continue` | on a page or a rest      |                                                                           |
| `form`     | on a questionnaire       | `answers` by the names of the questions                                   |
| `begin`    | before a trial is shown  | `trial`, `attempt`, `level`, `values`: what is presented                  |
| `answer`   | after a trial            | `trial`, `answer`; optional `response_time`, `directories`, `metrics`     |
| `repeat`   | in a trial               | `trial`, `reason`: it is presented again                                  |
| `drop`     | in a trial               | `trial`, `reason`: it does not count, and another takes its place         |
| `exclude`  | at any time              | `trial`, `reason`: an answered trial is left out of the analysis          |
| `pause`    | at any time              | `reason`                                                                  |
| `resume`   | in a pause               |                                                                           |
| `stop`     | at any time              | `reason`: the session ends                                                |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from haptic_sim import inputs
from haptic_sim.parameters import ParameterError
from haptic_study.design import stable
from haptic_study.file import Condition, QuestionnaireParameters, Study
from haptic_study.order import Block, blocks
from haptic_study.psychophysics.methods import AdaptiveMethod, Level, method_of
from haptic_study.tasks import AdjustmentParameters, Answer, TaskParameters

Event = Mapping[str, Any]


class SessionError(ParameterError):
    """An event that does not fit the step of the session."""


@dataclass(frozen=True)
class Page:
    """A text that the participant reads."""

    name: str
    text: str


@dataclass(frozen=True)
class Form:
    """A questionnaire that the participant fills in."""

    name: str
    questionnaire: QuestionnaireParameters
    block: int | None = None


@dataclass(frozen=True)
class Rest:
    """A rest of at least so long [s]."""

    duration: float


@dataclass(frozen=True)
class End:
    """The session has ended; `reason` is empty if it is complete."""

    reason: str = ""


@dataclass(frozen=True)
class Paused:
    """The experimenter has paused the session."""

    reason: str


@dataclass(frozen=True)
class Trial:
    """A trial: what the participant is shown, and what only program and data know.

    Attributes:
        number: from 1 on in the session, practice and dropped trials counted.
        attempt: from 1 on; a trial that is repeated has another one.
        begun: whether it is being presented.
        question, answers: for the participant; without answers to choose from a number is asked for, or nothing.
        intervals: how many are presented.
        task: its name.
        block: number, from 1 on; 0: practice.
        condition: its factors' levels and settings.
        level: as the method chose it.
        comparison: number of the interval with the comparison, from 0 on; -1: none, a catch trial.
        values: of the stimulus in each interval.
        presentation: from 1 on; more than 1 in a trial of adjustment that goes on.
        onset: time of the event by which it began [s]; None before, or where no event had a time.
    """

    number: int
    question: str
    answers: tuple[str, ...]
    intervals: int
    task: str
    block: int
    condition: Condition
    level: float
    comparison: int
    values: tuple[float, ...]
    attempt: int = 1
    begun: bool = False
    presentation: int = 1
    onset: float | None = None

    @property
    def practice(self) -> bool:
        """Whether the trial is for practice, after which the participant is told whether the answer was right."""
        return self.block == 0

    @property
    def beginning(self) -> dict[str, Any]:
        """The event by which its presentation begins."""
        return {
            "event": "begin",
            "trial": self.number,
            "attempt": self.attempt,
            "presentation": self.presentation,
            "level": self.level,
            "values": list(self.values),
        }


Step = Page | Form | Rest | Trial | Paused | End


@dataclass(frozen=True)
class Row:
    """A trial that has ended, as the tables have it.

    Attributes:
        trial: what was presented.
        answer: None of a dropped trial.
        outcome: what the answer counts as; None of a dropped trial.
        status: `answered`, `dropped` or `excluded`.
        reason: why it was dropped or excluded.
        event: the event that ended it.
    """

    trial: Trial
    answer: Answer | None
    outcome: float | None
    status: str
    reason: str
    event: Event


@dataclass
class _Course:
    """A condition's method in a block, and how many trials it had."""

    condition: Condition
    method: AdaptiveMethod


@dataclass
class Session:
    """The session of one participant.

    Args:
        study: a valid study.
        participant: code of the participant.
        number: of the session, from 1 on.

    Attributes:
        step: what is shown next.
        rows: trials that have ended.
        forms: answers to questionnaires, each with the number of its block or None.
        methods: the methods of the blocks that have begun, by task and label of the condition.
    """

    study: Study
    participant: str
    number: int = 1
    step: Step = field(init=False, repr=False)
    rows: list[Row] = field(init=False, default_factory=list)
    forms: list[tuple[Form, dict[str, Any]]] = field(init=False, default_factory=list)
    methods: dict[tuple[str, str], AdaptiveMethod] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.blocks = blocks(self.study, self.participant)
        self._paused_at: Step | None = None
        self._trials = 0
        self._steps = self._course()
        self._advance()

    # What comes

    def _course(self) -> Iterator[Step]:
        """The steps; after one of a trial the iterator continues when the trial has ended."""
        parameters = self.study.parameters
        if parameters.consent:
            yield Page("consent", parameters.consent)
        yield from self._forms("before")
        if parameters.instructions:
            yield Page("instructions", parameters.instructions)
        practised: set[str] = set()
        for i, block in enumerate(self.blocks):
            task = parameters.tasks[block.task]
            if i and parameters.rest.between_blocks and parameters.rest.duration:
                yield Rest(parameters.rest.duration)
            if block.task not in practised:
                practised.add(block.task)
                if task.instructions:
                    yield Page(f"instructions of {block.task}", task.instructions)
                for level in task.practice:
                    yield self._trial(block.task, 0, block.conditions[0], level)
            yield from self._block(block, task)
            yield from self._forms("after_block", block.number)
        yield from self._forms("after")
        yield End()

    def _forms(self, when: str, block: int | None = None) -> Iterator[Step]:
        for name, questionnaire in self.study.parameters.questionnaires.items():
            if questionnaire.when == when:
                yield Form(name, questionnaire, block)

    def _block(self, block: Block, task: TaskParameters) -> Iterator[Step]:
        rest, done = self.study.parameters.rest, 0
        courses = [
            _Course(one, method_of(dict(task.method), self._seed("method", block.number, i)))
            for i, one in enumerate(block.conditions)
        ]
        self.methods |= {(block.task, one.condition.label): one.method for one in courses}
        run: list[int] = []
        while not all(one.method.finished for one in courses):
            if done and rest.every and done % rest.every == 0 and rest.duration:
                yield Rest(rest.duration)
            run.append(self._next_course(courses, block.number, run))
            chosen = courses[run[-1]]
            level, before = chosen.method.level, len(self.rows)
            yield self._trial(block.task, block.number, chosen.condition, number_of_level(level))
            row = self.rows[before]
            if row.status != "answered":  # it was dropped, or excluded at once
                run.pop()
                continue
            done += 1
            if row.trial.comparison >= 0:  # no catch trial
                chosen.method.answer(level, int(row.outcome or 0) if task.BINARY else 1)

    def _next_course(self, courses: list[_Course], block: int, run: list[int]) -> int:
        """Index of the next condition of a mixed block.

        It is drawn with probabilities in proportion to the trials that are left where a method says how many, so that
        all orders are equally probable; as long as another condition has trials, none comes more often in a row than
        the design allows. `run`: the conditions of the trials before.
        """
        most = self.study.parameters.design.no_more_than
        open_ones = [i for i, one in enumerate(courses) if not one.method.finished]
        if most is not None and len(run) >= most and len(set(run[-most:])) == 1 and len(open_ones) > 1:
            open_ones = [i for i in open_ones if i != run[-1]]
        weights = [_left(courses[i].method) for i in open_ones]
        place = stable.uniform(*self._labels("condition", block, len(run))) * sum(weights)
        for i, weight in zip(open_ones, weights, strict=True):
            place -= weight
            if place < 0.0:
                return i
        return open_ones[-1]

    def _trial(self, task: str, block: int, condition: Condition, level: float) -> Trial:
        self._trials += 1
        parameters = self.study.parameters.tasks[task]
        comparison = stable.choice(parameters.intervals, *self._labels("interval", self._trials))
        catch = getattr(parameters, "catch", 0.0)
        if block and stable.uniform(*self._labels("catch", self._trials)) < catch:
            comparison = -1
        values = tuple(parameters.values(level, comparison))
        return Trial(
            self._trials,
            parameters.question,
            parameters.answers,
            parameters.intervals,
            task,
            block,
            condition,
            level,
            comparison,
            values,
        )

    def _labels(self, *labels: Any) -> tuple[Any, ...]:
        """Labels of random numbers: on them and nothing else an order depends."""
        return (self.study.parameters.seed, self.study.name, self.participant, self.number, *labels)

    def _seed(self, *labels: Any) -> int:
        return stable.seed(*self._labels(*labels))

    def settings(self, trial: Trial) -> list[dict[str, Any]]:
        """Settings of the experiment in each interval of a trial."""
        task = self.study.parameters.tasks[trial.task]
        return [{**trial.condition.settings, **task.settings(value)} for value in trial.values]

    # What happens

    def apply(self, event: Event) -> None:
        """Change the state by an event.

        Raises:
            SessionError: it does not fit the step; nothing has changed.
        """
        kind = event.get("event")
        handler = getattr(self, f"_on_{kind}", None) if isinstance(kind, str) else None
        if handler is None:
            known = sorted(name.removeprefix("_on_") for name in dir(self) if name.startswith("_on_"))
            raise SessionError([f"event {inputs.shown(kind)}: unknown (known: {', '.join(known)})"])
        if isinstance(self.step, End) and kind != "exclude":
            raise SessionError([f"event {kind}: the session has ended; begin another one"])
        if isinstance(self.step, Paused) and kind not in ("resume", "stop", "exclude"):
            raise SessionError([f"event {kind}: the session is paused; resume it first"])
        handler(event)

    def _advance(self) -> None:
        self.step = next(self._steps)

    def _on_continue(self, event: Event) -> None:
        if not isinstance(self.step, Page | Rest):
            raise SessionError([f"event continue: {_name(self.step)} is shown, not a page or a rest"])
        self._advance()

    def _on_form(self, event: Event) -> None:
        step = self.step
        if not isinstance(step, Form):
            raise SessionError([f"event form: {_name(step)} is shown, not a questionnaire"])
        given = event.get("answers")
        items = step.questionnaire.items
        if not isinstance(given, Mapping) or (other := [name for name in given if name not in items]):
            found = f"{inputs.shown(given)}" if not isinstance(given, Mapping) else ", ".join(map(str, other))
            raise SessionError([f"{step.name}: {found}: must be answers to {', '.join(items)}"])
        answers, problems = {}, []
        for name, item in items.items():
            try:
                answers[name] = item.checked(given.get(name))
            except ValueError as error:
                problems.append(f"{step.name}.{name} = {inputs.shown(given.get(name))}: {error}")
        if problems:
            raise SessionError(problems)
        self.forms.append((step, answers))
        self._advance()

    def _current(self, event: Event, *, begun: bool) -> Trial:
        """The trial that an event is about."""
        step, kind = self.step, event["event"]
        if not isinstance(step, Trial):
            raise SessionError([f"event {kind}: {_name(step)} is shown, not a trial"])
        if event.get("trial") != step.number:
            raise SessionError([f"event {kind}: trial {event.get('trial')} received, trial {step.number} expected"])
        if step.begun != begun:
            found = "has begun already" if step.begun else "has not begun"
            raise SessionError([f"event {kind}: trial {step.number} {found}"])
        return step

    def _on_begin(self, event: Event) -> None:
        trial = self._current(event, begun=False)
        if any(event.get(key) != value for key, value in trial.beginning.items()):
            differs = [key for key, value in trial.beginning.items() if event.get(key) != value]
            found = ", ".join(f"{key} = {event.get(key)} instead of {trial.beginning[key]}" for key in differs)
            raise SessionError([f"trial {trial.number}: {found}: the study or its order is not that of the recording"])
        onset = event.get("time") if trial.onset is None else trial.onset
        self.step = replace(trial, begun=True, onset=onset)

    def _on_answer(self, event: Event) -> None:
        trial = self._current(event, begun=True)
        task = self.study.parameters.tasks[trial.task]
        try:
            answer = task.checked(event.get("answer"))
        except ValueError as error:
            raise SessionError(
                [f"trial {trial.number}: answer = {inputs.shown(event.get('answer'))}: {error}"]
            ) from error
        if isinstance(task, AdjustmentParameters):
            if answer != "done" and trial.presentation < task.presentations:
                values = list(trial.values)
                values[trial.comparison] = task.changed(values[trial.comparison], answer)
                self.step = replace(trial, begun=False, values=tuple(values), presentation=trial.presentation + 1)
                return
            outcome = trial.values[trial.comparison]
        else:
            outcome = task.outcome(answer, trial.comparison)
        self._end(Row(trial, answer, outcome, "answered", "", event))

    def _end(self, row: Row) -> None:
        self.rows.append(row)
        self._advance()

    def _on_repeat(self, event: Event) -> None:
        trial = self._current(event, begun=True)
        self.step = replace(trial, begun=False, attempt=trial.attempt + 1, onset=None)

    def _on_drop(self, event: Event) -> None:
        trial = self._current(event, begun=True)
        self._end(Row(trial, None, None, "dropped", str(event.get("reason", "")), event))

    def _on_exclude(self, event: Event) -> None:
        number = event.get("trial")
        for i, row in enumerate(self.rows):
            if row.trial.number == number and row.status == "answered":
                self.rows[i] = replace(row, status="excluded", reason=str(event.get("reason", "")))
                return
        raise SessionError([f"event exclude: trial {number} has no answer that counts"])

    def _on_pause(self, event: Event) -> None:
        self._paused_at, self.step = self.step, Paused(str(event.get("reason", "")))

    def _on_resume(self, event: Event) -> None:
        if self._paused_at is None:
            raise SessionError(["event resume: the session is not paused"])
        self.step, self._paused_at = self._paused_at, None

    def _on_stop(self, event: Event) -> None:
        self.step = End(str(event.get("reason", "")) or "stopped")


def number_of_level(level: Level) -> float:
    """The level of a method with one stimulus.

    Raises:
        ParameterError: it has several.
    """
    if isinstance(level, Mapping):
        if len(level) != 1:
            raise ParameterError([f"method: has the stimuli {', '.join(level)}: a task has one"])
        (level,) = level.values()
    return float(level)


def _left(method: AdaptiveMethod) -> int:
    """Number of trials that a method has left; 1 where its answers decide."""
    order = getattr(method, "order", None)
    return len(order) - len(getattr(method, "answers", ())) if isinstance(order, list) else 1


def _name(step: Step) -> str:
    match step:
        case Page(name=name) | Form(name=name):
            return name
        case Trial(number=number):
            return f"trial {number}"
    return {Rest: "a rest", Paused: "a pause", End: "the end"}[type(step)]
