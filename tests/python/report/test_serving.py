"""Test the page as a file and as served: current, with metrics, to this machine alone."""

from __future__ import annotations

import http.client
from dataclasses import replace
from pathlib import Path

import pytest

from headwaters.platform.errors import UserError
from headwaters.report import run
from headwaters.report.run import Site, lines, serving
from report.examples import usual
from report.small import NOW, SmallLake, ago


def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    connection.close()
    return found


def test_page_state_and_metrics_are_of_the_lake_that_was_read_last() -> None:
    site = Site(usual())
    with serving(site, 0) as port:
        status, kind, html = ask(port, "/")
        assert (status, kind) == (200, "text/html; charset=utf-8")
        assert "connect-src &#39;self&#39;" in html
        _, _, state = ask(port, "/state")
        assert f'data-state="{state}"' in html
        status, kind, metrics = ask(port, "/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert 'headwaters_stream_rows{stream="orders"} 1015.0' in metrics
        # seconds later the page would be the same
        site.show(replace(usual(), at=NOW.replace(second=30)))
        assert ask(port, "/state")[2] == state
        site.show(replace(usual(), problems=()))
        assert ask(port, "/state")[2] != state
        assert "headwaters_report_problems 0.0" in ask(port, "/metrics")[2]
        assert ask(port, "/lake.json")[0] == 404


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", ""])
def test_a_name_that_leads_here_is_refused(host: str) -> None:
    with serving(Site(usual()), 0) as port:
        status, _, said = ask(port, "/", host)
    assert status == 403
    assert "orders" not in said


def test_a_port_that_is_taken_is_refused() -> None:
    with (
        serving(Site(usual()), 0) as port,
        pytest.raises(UserError, match=f"port {port} is taken: choose another --port"),
        serving(Site(usual()), port),
    ):
        pass
    with (
        pytest.raises(UserError, match="--port 70000 is not a port"),
        serving(Site(usual()), 70_000),
    ):
        pass


def test_a_file_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = SmallLake(tmp_path)
    lake.model("gold.c", maintenance={"compact_above": 1})
    lake.write("gold.c", {"id": [1]}, ago(hours=1))
    monkeypatch.setattr(run, "declared", lambda project: lake.declared)
    said: list[str] = []
    out = tmp_path / "report.html"
    run.report(lake.project, out, said.append)
    due = "gold.c is due for maintenance: `dbt run-operation maintain`"
    assert said == [due, f"written to {out}"]
    assert out.stat().st_mode & 0o777 == 0o600
    html = out.read_text()
    assert html.startswith("<!doctype html>") and "gold.c" in html
    assert "connect-src" not in html
    with pytest.raises(UserError, match="is a folder: name a file with --out"):
        run.report(lake.project, tmp_path, said.append)


def test_a_lake_of_which_nothing_is_to_be_said() -> None:
    assert lines(replace(usual(), streams=(), models=(), tables=(), problems=())) != []
