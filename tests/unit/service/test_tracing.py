"""What is traced and what is not; headers that go from message to message; spans in a file."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import MillraceError
from millrace_service import OFF, ServiceSettings, load_settings, start_tracing, timed
from millrace_service.spans import Sampler, Span, lines_of, spans_of, traces_of
from millrace_service.tracing import parts_timed, spans_file, tracing_to

HEADER = f"00-{7:032x}-{9:016x}-01"
REFUSED = f"00-{7:032x}-{9:016x}-00"


def settings(folder: Path, **more: str) -> ServiceSettings:
    named = {f"MILLRACE_{name.upper()}": value for name, value in more.items()}
    return load_settings(ServiceSettings, {"MILLRACE_DATA_DIR": str(folder), **named})


def written(folder: Path) -> list[Span]:
    return [one for file in sorted(folder.glob("traces/*.jsonl")) for one in spans_of(file.read_bytes())]


@given(st.floats(0.001, 1), st.lists(st.integers(0, 300), max_size=20), st.integers())
def test_how_messages_are_cut_into_batches_changes_nothing_of_which_are_sampled(
    share: float, counts: list[int], seed: int
) -> None:
    whole = Sampler(share, random.Random(seed).random).places(sum(counts))
    sampler, before, found = Sampler(share, random.Random(seed).random), 0, []
    for count in counts:
        found += [before + place for place in sampler.places(count)]
        before += count
    assert found == whole
    assert whole == sorted(set(whole))


def test_the_share_that_is_sampled_is_about_what_was_asked_for() -> None:
    assert len(Sampler(0.01, random.Random(1).random).places(1_000_000)) == pytest.approx(10_000, rel=0.05)
    assert Sampler(1, random.Random(1).random).places(4) == [0, 1, 2, 3]


def test_a_message_with_a_header_is_traced_whether_it_is_sampled_or_not() -> None:
    assert Sampler(1e-12, lambda: 0.5).parents(3, {1: HEADER}) == {1: HEADER}
    assert Sampler(1, lambda: 0.5).parents(2, {1: HEADER}) == {0: "", 1: HEADER}


def test_nothing_is_made_and_no_header_sent_while_it_is_off(tmp_path: Path) -> None:
    off = start_tracing(settings(tmp_path), "calc-svc")
    assert off is OFF
    assert not off.on
    assert off.begin("row.read", HEADER).traceparent == ""
    assert off.record("row.read", "", 1, 2) == ""
    off.close()
    assert written(tmp_path) == []


def test_the_sdk_is_not_even_loaded_while_it_is_off() -> None:
    code = "import sys, millrace_service; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_spans_of_two_services_form_one_tree(tmp_path: Path) -> None:
    first = start_tracing(settings(tmp_path, trace="1"), "trigger-svc")
    second = start_tracing(settings(tmp_path, trace="1"), "calc-svc")
    read = first.record("row.read", "", 1_000, 2_000, topic="wal.a.b", offset=7)
    step = first.begin("event.send", read, 2_000)
    got = second.begin("event.read", step.traceparent, 3_000)
    step.end(4_000)
    got.end(5_000)
    first.close()
    second.close()
    ((trace, spans),) = traces_of(written(tmp_path)).items()
    assert [(one.name, one.service, one.begin, one.end) for one in spans] == [
        ("row.read", "trigger-svc", 1_000, 2_000),
        ("event.send", "trigger-svc", 2_000, 4_000),
        ("event.read", "calc-svc", 3_000, 5_000),
    ]
    assert [one.parent for one in spans] == ["", spans[0].span, spans[1].span]
    assert spans[0].attributes == {"topic": "wal.a.b", "offset": 7}
    assert len(trace) == 32


def test_a_trace_that_a_producer_began_goes_on_if_it_is_sampled(tmp_path: Path) -> None:
    one = start_tracing(settings(tmp_path, trace="0.5"), "trigger-svc")
    assert one.record("row.read", HEADER, 1, 2).startswith(HEADER[:36])
    assert one.record("row.read", REFUSED, 1, 2) == ""
    assert one.record("row.read", "no header", 1, 2)[3:35] != HEADER[3:35]
    one.close()
    assert sorted(span.parent for span in written(tmp_path)) == ["", f"{9:016x}"]


def test_a_span_between_two_clocks_does_not_end_before_it_begins(tmp_path: Path) -> None:
    one = start_tracing(settings(tmp_path, trace="1"), "trigger-svc")
    one.record("row.read", "", 9, 5)
    one.close()
    assert [(span.begin, span.end) for span in written(tmp_path)] == [(5, 5)]


def test_a_file_that_is_long_is_followed_by_another(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    for number in range(3):
        one = tracing_to(spans_file(file, "a", longest=10), 1, "a")
        one.record(str(number), "", 1, 2)
        one.close()
    kept = [
        span.name for name in ("a.jsonl.1", "a.jsonl") for span in spans_of((tmp_path / name).read_bytes())
    ]
    assert kept == ["1", "2"]


def test_a_line_that_is_being_written_is_left_out() -> None:
    span = Span("t", "s", "", "a", "row.read", 1, 2)
    assert spans_of(lines_of([span, span])[:-3]) == [span]
    assert spans_of(b"") == []


def test_parts_are_timed_where_somebody_asks() -> None:
    with timed("nobody asks"):
        pass
    with parts_timed() as parts:
        with timed("job.rows"):
            pass
        with pytest.raises(ValueError), timed("job.sql"):
            raise ValueError
    assert [one.name for one in parts] == ["job.rows", "job.sql"]
    assert all(one.begin <= one.end for one in parts)


@pytest.mark.parametrize(
    ("variable", "value"), [("trace", "2"), ("trace", "-0.1"), ("trace", "on"), ("trace_endpoint", "here")]
)
def test_a_setting_that_does_not_fit_is_refused(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(MillraceError, match=f"MILLRACE_{variable.upper()} must be"):
        settings(tmp_path, **{variable: value})


def test_spans_go_to_an_endpoint_of_otlp(tmp_path: Path) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    came: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.handle_request, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        one = start_tracing(settings(tmp_path, trace="1", trace_endpoint=endpoint), "notify-svc")
        one.record("subscriber.send", "", 1, 2)
        one.close()
    (spans,) = ExportTraceServiceRequest.FromString(came[0]).resource_spans
    assert spans.scope_spans[0].spans[0].name == "subscriber.send"
    assert written(tmp_path) == []
