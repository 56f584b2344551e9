"""Sessions of simulated participants on Dask workers (`haptic_bench.trials.workers`), with the files of one machine.

A worker that sees the study's directory records there. Another one records into a directory of its own, which is sent
back; a session that has begun already is continued by the program that asks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from haptic_bench.running.runner import Interruption
from haptic_bench.trials import workers
from haptic_sim.parameters import ParameterError
from haptic_study.dataset import Dataset
from haptic_study.file import study_of
from haptic_study.simulation import run_session


def run_on_worker(
    token: str,
    expected: dict[str, str],
    directory: str,
    document: dict[str, Any],
    folder: str,
    participant: str,
    by: dict[str, Any],
    record: bool,
) -> bytes | str:
    """A session on a worker: an archive of its folder; empty where it is in the shared directory.

    Raises:
        ParameterError: the worker has other versions.
    """
    workers.check_versions(expected)
    stop = workers.Asked(token).__bool__
    if workers.shares(Path(directory), token):
        run_session(Dataset.open(Path(directory)), participant, by, record, stop)
        return ""
    with tempfile.TemporaryDirectory(prefix="haptics-") as own:
        dataset = Dataset.create(Path(own), study_of(document, Path(folder)))
        run_session(dataset, participant, by, record, stop)
        return workers.archived(dataset.folder(participant, 1))


def run_sessions(
    dataset: Dataset,
    participants: Sequence[str],
    by: Mapping[str, Any],
    record: bool,
    interruption: Interruption,
    *,
    jobs: int,
    scheduler: str,
    notify: Callable[[str], object],
) -> None:
    """Run the sessions of simulated participants on workers; those that have begun are continued here.

    `notify` takes each participant whose session has ended.

    Raises:
        ParameterError: a worker cannot do it.
    """
    begun = set(dataset.sessions())
    study = dataset.study
    shared = (str(dataset.directory.resolve()), study.document, str(study.folder))
    new = {one: (*shared, one, dict(by), record) for one in participants if (one, 1) not in begun}
    for participant in participants:
        if participant not in new and not interruption:
            run_session(dataset, participant, by, record, interruption.__bool__)
            if not interruption:
                notify(participant)
    results = workers.share_out(run_on_worker, new, dataset.directory, interruption, jobs=jobs, scheduler=scheduler)
    for participant, result in results:
        if result is None:
            problem = f"participant {participant}: its worker was killed again and again: out of memory, perhaps"
            raise ParameterError([f"{problem}; `haptics study resume {dataset.directory}` goes on"])
        if result:
            target = dataset.folder(participant, 1)
            target.mkdir(parents=True)
            workers.unpack(result, target)
        notify(participant)
