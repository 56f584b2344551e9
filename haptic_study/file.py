"""The file of a study: an experiment, conditions, tasks and questionnaires, validated before anything starts.

`config/studies/NAME.yaml`, or a file anywhere. docs/studies.md describes its keys.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from haptic_bench import experiment as experiments
from haptic_bench.catalogue import config_folder
from haptic_bench.experiment.settings import plain
from haptic_sim import inputs
from haptic_sim.parameters import ParameterError, Parameters, did_you_mean, explain, listed, quantity
from haptic_study import codes
from haptic_study.observers import ObserverParameters
from haptic_study.psychophysics.methods import method_of
from haptic_study.tasks import AnyTask

SESSION = "session"
"""Name in place of a task's in the name of the table of all events of a session."""
NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"


class FactorParameters(Parameters):
    """A factor of the study, whose levels are values of a key, or named settings of several keys."""

    key: str | None = quantity(None, description="Key of the experiment that the levels are values of")
    levels: list[Any] | dict[str, dict[str, Any]] = quantity(
        description="Values of `key`; or by the name of each level the settings of the experiment"
    )
    between: bool = quantity(False, description="Whether each participant has one level only, else each has all")

    @model_validator(mode="after")
    def _has_levels(self) -> FactorParameters:
        if len(self.levels) < 2:
            raise ValueError(f"levels: has {len(self.levels)}: must be at least 2")
        if isinstance(self.levels, list) != (self.key is not None):
            raise ValueError("levels: must be a list of values with `key`, or without it settings by the levels' names")
        if len(set(self.settings)) < len(self.levels):
            raise ValueError("levels: has the same level twice; must be different values")
        return self

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Settings of the experiment by the name of the level."""
        if isinstance(self.levels, dict):
            return dict(self.levels)
        return {_level_name(value): {str(self.key): value} for value in self.levels}


def _level_name(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


class OrderParameters(Parameters):
    """The order of the conditions, of which that of a participant depends on the number in its code."""

    blocked: bool = quantity(
        True, description="Whether the trials of a condition are a block; else trials of all conditions are mixed"
    )
    order: Literal["given", "random", "latin_square", "williams"] = quantity(
        "random", description="Order of the blocks; of a square, each participant has a row"
    )
    no_more_than: int | None = quantity(
        None, description="Longest run of trials of the same condition, where they are mixed; null: any", ge=1
    )


class RestParameters(Parameters):
    """Rests between trials."""

    every: int | None = quantity(None, description="Trials of a block after which there is a rest; null: none", ge=1)
    between_blocks: bool = quantity(True, description="Whether there is a rest between two blocks")
    duration: float = quantity(60.0, unit="s", description="Duration of a rest", ge=0.0, le=7200.0)


class ItemParameters(Parameters):
    """A question of a questionnaire."""

    question: str = quantity(description="Text of the question")
    type: Literal["number", "scale", "choice", "text"] = quantity("text", description="Kind of the answer")
    unit: str = quantity("", description="Unit of a number")
    choices: tuple[str, ...] = quantity((), description="Answers of a choice; labels of both ends of a scale")
    points: int = quantity(7, description="Number of points of a scale, from 1 on", ge=2, le=101)
    optional: bool = quantity(False, description="Whether the question may be left without an answer")

    @model_validator(mode="after")
    def _has_choices(self) -> ItemParameters:
        if self.type == "choice" and len(self.choices) < 2:
            raise ValueError(f"choices: has {len(self.choices)}: must be at least 2")
        return self

    def checked(self, answer: Any) -> Any:
        """An answer.

        Raises:
            ValueError: it is none; the text says what is allowed.
        """
        if answer in (None, ""):
            if self.optional:
                return None
            raise ValueError("is missing")
        match self.type:
            case "number":
                if isinstance(answer, bool) or not isinstance(answer, int | float):
                    return inputs.number(str(answer))
                return inputs.check_number(float(answer))
            case "scale":
                point = inputs.whole_number(str(answer))
                if not 1 <= point <= self.points:
                    raise ValueError(f"must be from 1 to {self.points}")
                return point
            case "choice":
                if answer not in self.choices:
                    raise ValueError(f"must be one of {', '.join(self.choices)}")
        return inputs.check_text(str(answer))


class QuestionnaireParameters(Parameters):
    """A questionnaire."""

    when: Literal["before", "after_block", "after"] = quantity(
        "after", description="Time at which the questionnaire is answered"
    )
    text: str = quantity("", description="Text above the questions, in Markdown")
    items: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], ItemParameters] = quantity(
        description="Questions by the names of their columns", min_length=1
    )


class ComparisonParameters(Parameters):
    """A comparison of two conditions that the study is made for."""

    task: str = quantity("", description="Name of the task; empty: the first one")
    measure: str = quantity(description="Name of the measure: jnd, pse, d_prime, success, or a metric of the trial")
    conditions: tuple[str, str] = quantity(
        description="Two conditions, each as FACTOR=LEVEL,FACTOR=LEVEL of all factors; second less first"
    )


class TimeParameters(Parameters):
    """Times from which the duration of a session is expected; they limit nothing."""

    answer: float = quantity(2.0, unit="s", description="Expected time of an answer", ge=0.0, le=3600.0)
    between: float = quantity(1.0, unit="s", description="Time between two intervals", ge=0.0, le=3600.0)
    page: float = quantity(60.0, unit="s", description="Expected time of a page or a questionnaire", ge=0.0, le=7200.0)


class PersonParameters(Parameters):
    """Presentation of the study to a person; a simulated observer needs none of it."""

    settings: dict[str, Any] = quantity(
        {},
        description="Keys of the experiment that differ for a person, as its duration: the time limit of an interval",
    )
    view: bool = quantity(True, description="Whether the participant sees the scene; a pointer needs it")
    start: Literal["press", "automatic"] = quantity(
        "press", description="Whether the participant starts each trial, or it begins as soon as it is ready"
    )
    early: bool = quantity(True, description="Whether the participant may end an interval before its time limit")
    between: float = quantity(1.0, unit="s", description="Time between two intervals", ge=0.0, le=60.0)
    feedback: bool = quantity(True, description="Whether the participant is told after practice what was right")
    double_blind: bool = quantity(
        False, description="Whether the experimenter's page, too, says nothing of condition, level and outcome"
    )
    buttons: tuple[str, ...] = quantity(
        (), description="Answers by the buttons of the device, in their order; `continue` for pages and starts"
    )


class StudyParameters(Parameters):
    """A study."""

    name: str = quantity(description="Name of the study, which is that of its file", pattern=NAME)
    title: str = quantity("", description="Title of the study, one line")
    source: str = quantity("", description="Publication that the study follows")
    description: str = quantity("", description="Summary of the study")
    experiment: str | dict[str, Any] = quantity(
        description="Experiment of every interval: its name, a .yaml file beside the study's, or its content"
    )
    settings: dict[str, Any] = quantity({}, description="Keys of the experiment that differ in this study")
    factors: dict[Annotated[str, Field(pattern=NAME)], FactorParameters] = quantity(
        {}, description="Factors of the conditions by their names"
    )
    design: OrderParameters = quantity(OrderParameters(), description="Order of the conditions")
    tasks: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*$")], AnyTask] = quantity(
        description="Tasks in each condition, by their names, in this order", min_length=1
    )
    consent: str = quantity("", description="Text of the consent, in Markdown; empty: there is no page for it")
    instructions: str = quantity("", description="Instructions before the first task, in Markdown")
    questionnaires: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*$")], QuestionnaireParameters] = quantity(
        {}, description="Questionnaires by their names"
    )
    comparisons: dict[Annotated[str, Field(pattern=NAME)], ComparisonParameters] = quantity(
        {},
        description="Comparisons that the study is made for, by names; without any, all pairs of conditions",
    )
    rest: RestParameters = quantity(RestParameters(), description="Rests")
    times: TimeParameters = quantity(TimeParameters(), description="Expected times")
    person: PersonParameters = quantity(PersonParameters(), description="Presentation of the study to a person")
    seed: int = quantity(0, description="Seed of orders and of the methods", ge=0)
    codes: dict[str, int] = quantity(
        {}, description="Codes of events for other recorders, by EVENT or EVENT LABEL, from 1 to 255; 0: not sent"
    )
    observer: ObserverParameters = quantity(ObserverParameters(), description="The simulated observer")

    @field_validator("tasks")
    @classmethod
    def _unlike_each_other(cls, tasks: dict[str, Any]) -> dict[str, Any]:
        if len({name.lower() for name in tasks}) < len(tasks):
            raise ValueError("has names that differ in upper and lower case only")
        if SESSION in {name.lower() for name in tasks}:
            raise ValueError(f"{SESSION} is the name of the table of all events; choose another one")
        return tasks

    @model_validator(mode="after")
    def _compares_what_is_measured(self) -> StudyParameters:
        known = condition_labels(self)
        for name, one in self.comparisons.items():
            task = self.tasks.get(one.task or next(iter(self.tasks)))
            if task is None:
                raise ValueError(
                    f".comparisons.{name}.task = {one.task}: is not a task{did_you_mean(one.task, self.tasks)}"
                )
            if one.measure not in task.measures:
                known_ones = f"{', '.join(task.measures)}{did_you_mean(one.measure, task.measures)}"
                raise ValueError(f".comparisons.{name}.measure = {one.measure}: must be one of {known_ones}")
            for label in one.conditions:
                if label not in known:
                    hint = did_you_mean(label, known) or f"; they are {listed(known, 4)}"
                    raise ValueError(f".comparisons.{name}.conditions: {inputs.shown(label)}: is not a condition{hint}")
        return self

    @property
    def declared(self) -> dict[str, ComparisonParameters]:
        """The comparisons, each with the name of its task."""
        first = next(iter(self.tasks))
        return {key: one.model_copy(update={"task": one.task or first}) for key, one in self.comparisons.items()}

    @model_validator(mode="after")
    def _asks_each_once(self) -> StudyParameters:
        columns = [name for one in self.questionnaires.values() for name in one.items]
        if twice := next((name for i, name in enumerate(columns) if name in columns[:i]), ""):
            raise ValueError(f".questionnaires: {twice} is asked for twice; give each question a name of its own")
        if not self.design.blocked and len(self.tasks) > 1:
            raise ValueError(".design.blocked = false: mixes the trials of one task; leave one task in tasks")
        return self


def condition_labels(parameters: StudyParameters) -> list[str]:
    """Labels of all conditions; none without factors."""
    factors = parameters.factors
    levels = itertools.product(*(one.settings for one in factors.values()))
    return [label_of(dict(zip(factors, some, strict=True))) for some in levels] if factors else []


def event_labels(parameters: StudyParameters) -> dict[str, list[str]]:
    """Labels that events may have in `codes`, by event."""
    of_trial = [*condition_labels(parameters), *parameters.tasks]
    intervals = max(task.intervals for task in parameters.tasks.values())
    answers = {"success", "failure", "measured"} | {
        answer for task in parameters.tasks.values() for answer in task.answers
    }
    pages = ["consent", "instructions", *(f"instructions of {name}" for name in parameters.tasks)]
    return {
        "continue": pages,
        "form": list(parameters.questionnaires),
        "begin": of_trial,
        "interval": [*(str(i + 1) for i in range(intervals)), *of_trial],
        "answer": sorted(answers),
        "repeat": of_trial,
        "drop": of_trial,
    }


def label_of(levels: Mapping[str, str]) -> str:
    """FACTOR=LEVEL,FACTOR=LEVEL; empty without factors."""
    return ",".join(f"{name}={level}" for name, level in levels.items())


@dataclass(frozen=True)
class Condition:
    """A combination of levels of factors.

    Attributes:
        levels: names of the levels by factor.
        settings: of the experiment.
    """

    levels: Mapping[str, str]
    settings: Mapping[str, Any]

    @property
    def label(self) -> str:
        """FACTOR=LEVEL,FACTOR=LEVEL; empty without factors."""
        return label_of(self.levels)


@dataclass(frozen=True)
class Study:
    """A study whose file is valid.

    Attributes:
        parameters: its keys.
        experiment: content of the experiment's file.
        folder: in which other files of the experiment are looked for.
        begun: digest that a recorded study had when it began; empty: that of what it says now.
    """

    parameters: StudyParameters
    experiment: Mapping[str, Any]
    folder: Path
    begun: str = ""

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.parameters.name

    @property
    def document(self) -> dict[str, Any]:
        """Everything that the study's file says, with the experiment in place of its name."""
        found = self.parameters.model_dump(mode="json")
        return found | {"experiment": dict(self.experiment)}

    @property
    def digest(self) -> str:
        """Digest of `document`, which changes with any key of study or experiment."""
        if self.begun:
            return self.begun
        text = json.dumps(self.document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def condition(self, levels: Mapping[str, str]) -> Condition:
        """The condition of a level of each factor."""
        settings: dict[str, Any] = {}
        for name, level in levels.items():
            settings |= self.parameters.factors[name].settings[level]
        return Condition(dict(levels), settings)

    def trial(self, settings: Mapping[str, Any]) -> experiments.Trial:
        """The trial of an interval.

        Args:
            settings: keys of the experiment, beside those of the study.

        Raises:
            ParameterError: the experiment refuses one; a line for each problem.
        """
        both = {**self.parameters.settings, **settings}
        loaded = experiments.load_document(dict(self.experiment), self.folder / "experiment.yaml", both)
        if len(loaded) > 1:
            raise ParameterError([f"{loaded[0].varied[0][0]}: has a list of values, where a trial takes one"])
        return loaded[0]


def known_studies() -> dict[str, Path]:
    """Files of the studies that come with haptics, by name."""
    return {path.stem: path for path in sorted((config_folder() / "studies").glob("*.yaml"))}


def find_study(name: str) -> Path:
    """The file of a study, by name or as a path.

    Raises:
        ParameterError: there is none.
    """
    known = known_studies()
    if name in known:
        return known[name]
    if os.sep in name or name.endswith((".yaml", ".yml")):
        return Path(name)
    raise ParameterError([f"study {inputs.shown(name)}: unknown{did_you_mean(name, known)}"])


def load(name: str) -> Study:
    """A study by name or path of its file.

    Raises:
        ParameterError: one line for each problem.
    """
    path = find_study(name)
    return study_of(
        {"name": experiments.loading.name_of(path).replace(".", "_")} | inputs.read_mapping(path), path.parent
    )


def study_of(document: Mapping[str, Any], folder: Path) -> Study:
    """The study of a document; files are looked for in a folder.

    Raises:
        ParameterError: one line for each problem.
    """
    try:
        parameters = StudyParameters.model_validate(plain(dict(document)))
    except ValidationError as error:
        raise ParameterError(explain(error, StudyParameters)) from error
    problems = []
    for name, task in parameters.tasks.items():
        try:
            method_of(dict(task.method), parameters.seed)
        except ParameterError as error:
            problems += [f"tasks.{name}.method.{line}" for line in error.problems]
    problems += codes.problems(parameters.codes, event_labels(parameters))
    if problems:
        raise ParameterError(problems)
    folder = folder.resolve()
    found = parameters.experiment
    if isinstance(found, str):
        beside = folder / found
        path = beside if found.endswith((".yaml", ".yml")) and beside.is_file() else _experiment(found)
        content, folder = experiments.read_document(path), path.parent.resolve()
    else:
        content = {"name": parameters.name, **found}
    return Study(parameters, content, folder)


def _experiment(name: str) -> Path:
    try:
        return experiments.find(name)
    except ParameterError as error:
        raise ParameterError(f"experiment: {line}" for line in error.problems) from error
