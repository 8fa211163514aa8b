"""OpenLineage events from the facts of a lake: each commit of rows is a completed run.

The identity of a run derives from its table, version and time, so an event that is sent twice still
describes one run. OpenLineage's environment variables and configuration file name the receiver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, MutableMapping, Sequence
from datetime import datetime

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    ownership_job,
    schema_dataset,
    symlinks_dataset,
)

from headwaters.platform.errors import WorkError
from headwaters.report.facts import Lake, ReportedTable, TableChange

PRODUCER = "urn:headwaters"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)

Sent = MutableMapping[str, int]


class Sender:
    """A sender of the events of a lake, each sent once however often the lake is read."""

    def __init__(self) -> None:
        """Connect to the receiver in the environment. Raises WorkError if the set-up fails."""
        try:
            self._client = OpenLineageClient()
        except Exception as error:  # each transport has other errors
            raise _not_sent(error) from None
        self._sent: dict[str, int] = {}

    @property
    def is_configured(self) -> bool:
        """Return true if a receiver is configured; by default the client prints events."""
        return self._client.transport.kind not in ("console", "noop")

    def send(self, lake: Lake) -> int:
        """Send new events and return their number. Raises WorkError if the receiver refuses."""
        sent = dict(self._sent)
        events = new_events(lake, sent)
        try:
            for event in events:
                self._client.emit(event)
        except Exception as error:  # each transport has other errors
            raise _not_sent(error) from None
        self._sent = sent  # failed events are sent again
        return len(events)


def _not_sent(error: Exception) -> WorkError:
    said = " ".join(str(error).split())[:300] or type(error).__name__
    return WorkError(
        "HW_OPENLINEAGE",
        f"OpenLineage's client did not send: {said}; see to its OPENLINEAGE variables, or unset "
        "them",
    )


def new_events(lake: Lake, sent: Sent) -> list[RunEvent]:
    """Return the runs after those sent, oldest first; the first time, only each table's newest.

    Updates `sent`, the newest version of each table.
    """
    found: list[RunEvent] = []
    tables = {table.name: table for table in lake.tables}
    sources = {stream.table: stream.source for stream in lake.streams}
    reads = {model.table: model.reads for model in lake.models}
    for name in (*sources, *reads):
        if name not in tables:
            continue
        changes = tables[name].changes
        since = sent.get(name)
        new = [one for one in changes if since is None or one.version > since]
        for change in new[-1:] if since is None else new:
            inputs = [tables[one] for one in reads.get(name, ()) if one in tables]
            job = _job(lake, name, "STREAMING" if name in sources else "BATCH", tables[name].owner)
            found.append(_complete(job, tables[name], inputs, change))
        if changes:
            sent[name] = changes[-1].version
    found += _failures(lake, sent)
    return sorted(found, key=lambda event: event.eventTime)


def _failures(lake: Lake, sent: Sent) -> Iterator[RunEvent]:
    for model in lake.models:
        told = model.outcome
        if told and told.failed and told.status != "skipped":
            key, moment = f"failed {model.table}", round(told.at.timestamp())
            if sent.get(key) != moment:
                sent[key] = moment
                failure = error_message_run.ErrorMessageRunFacet(told.message, "SQL")
                run = Run(_identity(model.table, "failed", told.at), {"errorMessage": failure})
                job = _job(lake, model.table, "BATCH", model.owner)
                yield _event(RunState.FAIL, told.at, run, job, [], [])


def _complete(
    job: Job, table: ReportedTable, inputs: Sequence[ReportedTable], written: TableChange
) -> RunEvent:
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=written.rows, size=written.bytes
    )
    version = dataset_version_dataset.DatasetVersionDatasetFacet(str(written.version))
    output = OutputDataset(
        "file",
        table.place,
        outputFacets={"outputStatistics": statistics},
        facets={**_facets(table), "version": version},
    )
    read = [InputDataset("file", one.place, facets=_facets(one)) for one in inputs]
    run = Run(_identity(table.place, str(written.version), written.at))
    return _event(RunState.COMPLETE, written.at, run, job, read, [output])


def _event(
    state: RunState,
    at: datetime,
    run: Run,
    job: Job,
    inputs: list[InputDataset],
    outputs: list[OutputDataset],
) -> RunEvent:
    return RunEvent(
        eventType=state,
        eventTime=at.isoformat(),
        run=run,
        job=job,
        inputs=inputs,
        outputs=outputs,
        producer=PRODUCER,
    )


def _job(lake: Lake, name: str, processing: str, owner: str) -> Job:
    kind = job_type_job.JobTypeJobFacet(processing, "HEADWATERS", "JOB")
    facets: dict[str, JobFacet] = {"jobType": kind}
    if owner:
        facets["ownership"] = ownership_job.OwnershipJobFacet([ownership_job.Owner(owner)])
    return Job(f"headwaters.{lake.project}.{lake.target}", name, facets)


def _facets(table: ReportedTable) -> dict[str, DatasetFacet]:
    fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in table.columns]
    link = symlinks_dataset.Identifier("headwaters", table.name, "TABLE")
    return {
        "schema": schema_dataset.SchemaDatasetFacet(fields),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet([link]),
    }


def _identity(*parts: object) -> str:
    said = [one.isoformat() if isinstance(one, datetime) else str(one) for one in parts]
    return str(uuid.uuid5(_RUNS, "\n".join(said)))
