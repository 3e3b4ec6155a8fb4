"""Lines of the engine's logs say what is true."""

from __future__ import annotations

import json
import logging

import pytest

pytest.importorskip("nvflare")

from intarsia.federation.flare.log import Json, Plain, Unanswered, configured, explained


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Connected to server: http://localhost:8102", "Connected to server: https://localhost:8102"),
        (
            "Connector [CH1 PASSIVE http://127.0.0.1:51141?x=y] is",
            "Connector [CH1 PASSIVE https://127.0.0.1:51141?x=y] is",
        ),
        ("connector to tcp://127.0.0.1:10192 on parent", "connector to tcp://127.0.0.1:10192 on parent"),
        (
            "Failed to send heartbeat. Will try again. Exception: E: error:client_quit",
            (
                "Failed to send heartbeat. Will try again. Exception: E: error:client_quit "
                "(no connection to the server, or the coordinator has shut this site out)"
            ),
        ),
        (
            "registration rejected: Client 'b' is disabled",
            "registration rejected: the coordinator has shut 'b' out (intarsia federation exclude, admit)",
        ),
    ],
)
def test_lines_that_mislead_are_corrected(line, expected):
    assert explained(line) == expected


def record(text, *arguments):
    return logging.LogRecord("nvflare.x.Client", logging.INFO, "file", 1, text, arguments, None)


def test_lines_of_text_and_of_json_are_both_corrected():
    connected = record("Connected to server: %s", "http://h:1")
    assert "server: https://h:1" in Plain("%(asctime)s - %(message)s").format(connected)
    assert "https://h:1" in json.loads(Json("%(name)s - %(message)s").format(connected))["message"]


def test_questions_about_a_job_that_has_not_begun_are_no_errors_in_the_log():
    quiet = Unanswered()
    assert not quiet.filter(record("blob_cb threw: 'NoneType' object has no attribute 'get_widget'"))
    assert quiet.filter(record("Error processing client result by %s", "x"))


def test_the_configuration_of_a_kit_can_be_used_and_names_our_classes():
    default = {
        "version": 1,
        "formatters": {
            "baseFormatter": {"()": "x", "fmt": "%(message)s"},
            "jsonFormatter": {"()": "y", "fmt": "%(message)s"},
        },
        "filters": {},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "baseFormatter"}},
    }
    written = configured(default)
    assert written["formatters"]["jsonFormatter"]["()"].endswith(".log.Json")
    assert written["handlers"]["console"]["filters"] == ["unanswered"]
    logging.config.dictConfigClass(written | {"incremental": False, "loggers": {}}).configure()
