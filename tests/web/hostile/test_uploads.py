"""Every hostile file is one short sentence, read within bounds."""

from __future__ import annotations

import json

import pytest

from specviz.errors import EvidenceError
from specviz.evidence.sampling.sample_files import LINE, parse_samples
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.web.exactness.state import FILE, ExactnessQuestion, ExactnessState
from tests.web.common.test_frame import a_server_that_runs, open_page, send_value  # noqa: F401 the first is a fixture
from tests.web.exactness.test_upload import build_upload, examine_uploads
from tests.web.hostile.corpus import FILES, TEXTS, build_line


@pytest.mark.parametrize("kind", FILES)
def test_a_hostile_file_is_a_short_sentence(kind):
    with pytest.raises(EvidenceError) as said:
        parse_samples(FILES[kind], "draws.jsonl")
    sentence = str(said.value)
    assert "'draws.jsonl'" in sentence and len(sentence) < 500
    assert sentence.encode()


@pytest.mark.parametrize("kind", TEXTS)
def test_a_hostile_prompt_is_kept_as_it_is_or_is_a_short_sentence(kind):
    """A text that is read can be written again, as UTF-8 and as JSON."""
    try:
        found = parse_samples(build_line(prompt=TEXTS[kind]), "draws.jsonl")
    except EvidenceError as error:
        assert len(str(error)) < 500 and kind == "half a character"
    else:
        assert found.prompt == TEXTS[kind] and kind != "half a character"
        assert json.dumps(found.describe(), allow_nan=False)


def test_the_longest_line_is_read_and_one_more_byte_is_not():
    longest = build_line(note="").rstrip().ljust(LINE)
    assert len(parse_samples(longest, "a").samples) == 1
    with pytest.raises(EvidenceError, match="is too long"):
        parse_samples(longest + b" ", "a")


def test_the_prompt_of_a_file_is_held_to_the_limit_of_the_server(serve):
    serve(mode="hosted")
    exam = ExactnessState(ExactnessQuestion(Settings(max_new_tokens=2), FILE), FairQueue())
    examine_uploads(exam, build_upload(build_line(prompt="x" * 9000)))
    assert len(exam.notices) == 1 and "at most 8,000, the limit of this server" in exam.notices[0]
    assert exam.report is None


def test_a_file_that_is_not_here_is_left_out_and_the_page_stays(serve, caplog):
    """As after a server has started again, or with somebody else's file by its name."""
    serve(mode="hosted")
    app = open_page("exactness", source="file")
    state = {"uploaded_file_info": [{"file_id": "somebody else's", "name": "../x", "size": 2**62}]}
    app = send_value(app, "exactness-file", file_uploader_state_value=state)
    assert not app.exception and "Traceback" not in caplog.text
    assert not app.session_state["exactness"].tested_uploads
