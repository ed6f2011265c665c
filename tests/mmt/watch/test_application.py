"""The routes: data as the run gives them, events, refusals, headers."""

import http.client
import json
import shutil
import time

import pytest

pytest.importorskip("starlette", reason="extra [serve]")


@pytest.fixture(scope="module")
def ask(made_up, watched):
    """A function that asks the server of the made-up run: status, headers, content."""
    with watched(made_up) as port:

        def ask(path, method="GET", **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            body = response.read()
            connection.close()
            kind = response.headers.get("content-type", "")
            return response.status, response.headers, json.loads(body) if "json" in kind else body

        deadline = time.monotonic() + 20
        while ask("/api/runs")[2][0]["step"] < 4000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield ask


def test_data_of_the_run(ask, made_up):
    from mmt.watch import open_runs

    (run,) = open_runs([made_up])
    run.read_all()
    (overview,) = ask("/api/runs")[2]
    ours = run.overview()
    for each in (overview, ours):
        del each["age"], each["version"]
    assert overview == json.loads(json.dumps(ours))
    query = "run=0&metric=validation_loss&columns=20&first=500&last=3000"
    assert ask(f"/api/series?{query}")[2] == run.series(
        "validation_loss", columns=20, first=500, last=3000
    )
    codes = [row["code"] for row in overview["languages"]][2:4]
    assert ask(f"/api/series?metric=loss&bands=1&languages={','.join(codes)}")[2] == run.series(
        "loss", columns=400, codes=codes, bands=True
    )
    assert ask("/api/totals?columns=30")[2] == run.totals(columns=30)
    assert ask("/api/samples")[2] == run.samples()
    some = ask(f"/api/samples?languages={codes[0]},xxx")[2]
    assert [list(each["samples"]) for each in some] == [[codes[0]]] * 20


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/api/series?metric=los", "no metric 'los'; nearest: loss; "),
        ("/api/series?metric=source_use", "Use of the source is not logged: "),
        ("/api/series?metric=loss&languages=../../etc", "made_up has no language '../../etc'"),
        ("/api/series?metric=loss&columns=0", "columns is '0'; allowed: 1 to 4000"),
        ("/api/series?metric=loss&columns=9999999999999999999", "columns is '9999999"),
        ("/api/series?metric=loss&first=-1", "first is '-1'; allowed: 0 to "),
        ("/api/totals?run=1", "run is '1'; allowed: 0 to 0"),
        ("/api/samples?run=../..", "run is '../..'; allowed: 0 to 0"),
        ("/api/totals?run=%C2%B2", "run is '²'; allowed: 0 to 0"),
    ],
)
def test_wrong_questions(path, message, ask):
    status, _, content = ask(path)
    assert status == 400 and content["error"].startswith(message)


def test_only_the_page_and_its_data(ask):
    for path in ("/../config.gin", "/metrics.jsonl", "/api/../x", "/api/", "/page/watch.js"):
        assert ask(path)[0] == 404
    assert ask("/", "POST")[0] == ask("/api/runs", "DELETE")[0] == 405
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert ask("/api/runs", Host=host)[0] == 400  # a name that leads to this machine
    assert ask("/", Host="localhost:1234")[0] == 200


def test_headers(ask):
    for path in ("/", "/api/runs", "/api/totals?run=9"):
        headers = ask(path)[1]
        assert headers["x-content-type-options"] == "nosniff" and "server" not in headers
        assert headers["x-frame-options"] == "DENY" and "access-control-allow-origin" not in headers
    policy = ask("/")[1]["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_events_tell_of_new_rows(made_up, tmp_path, watched):
    directory = shutil.copytree(made_up, tmp_path / "run")
    lines = (directory / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (directory / "metrics.jsonl").write_bytes(b"".join(lines[:60]))
    with watched(directory) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/api/events")
        events = connection.getresponse()
        assert events.headers["content-type"].startswith("text/event-stream")

        def news():
            line = events.readline()
            while not line.startswith(b"data: "):
                line = events.readline()
            return json.loads(line[6:])[0]  # version, part that has been read

        first = news()
        while first[1] < 1 or not first[0]:
            first = news()
        with (directory / "metrics.jsonl").open("ab") as file:
            file.writelines(lines[60:])
        assert news()[0] > first[0]
        connection.close()
