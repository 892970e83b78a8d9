"""Hostile messages and requests as data: what a program can send to the server that no browser of a visitor sends."""

from __future__ import annotations

from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

from tests.web.hostile.corpus import TEXTS

CLOSES, LIVES = "the socket ends", "the socket lives"


def dump_rerun(**asked: Any) -> bytes:
    """A request for a run of the script."""
    message = BackMsg()
    message.rerun_script.SetInParent()
    for name, value in asked.items():
        if name == "cached_message_hashes":
            message.rerun_script.cached_message_hashes.extend(value)
        else:
            setattr(message.rerun_script, name, value)
    return message.SerializeToString()


def dump_states(*sent: WidgetState) -> bytes:
    """A request for a run with these values of fields."""
    message = BackMsg()
    message.rerun_script.widget_states.widgets.extend(sent)
    return message.SerializeToString()


def dump_context(**given: Any) -> bytes:
    """A request for a run from a browser that says this of itself."""
    message = BackMsg()
    for name, value in given.items():
        setattr(message.rerun_script.context_info, name, value)
    return message.SerializeToString()


def dump_operation(kind: str, session: str = "", file: str = "") -> bytes:
    message = BackMsg()
    asked = message.backend_operation_request
    asked.request_id, asked.session_id = "1", session
    getattr(asked, kind).SetInParent()
    if file:
        asked.deferred_file.file_id = file
    return message.SerializeToString()


def dump_file_names(*names: str) -> bytes:
    message = BackMsg()
    message.file_urls_request.request_id = "1"
    message.file_urls_request.file_names.extend(names)
    return message.SerializeToString()


QUERIES = {
    "of megabytes": "prompt=" + "x" * 900_000,
    "of 100,000 keys": "&".join(f"k{n}=1" for n in range(100_000)),
    "with a key a thousand times": "&".join(["prompt=a"] * 1000),
    "that is broken": "%&%%=%zz&=&==&&&prompt=%E0%A4%A",
    "with a NUL byte": "prompt=a%00b&seed=%00",
    "that is not UTF-8": "prompt=%ff%fe&pair=%c0%ae",
    "with half a character": "prompt=%ed%a0%80",
    "with a script": "prompt=<script>alert(1)</script>&%3Cscript%3E=1",
    "with Streamlit's own keys": "embed=true&embed_options=show_toolbar&session_state=1&st.query=1",
    "with a hub name": "pair=owner/big|owner/small&prompt=a",
    "with a folder": "pair=/etc|/root&prompt=a",
    "with a device": "device=cuda:99&dtype=float64&prompt=a",
    "with a long run": "prompt=a&length=4096&gamma=16",
    "with a text beyond the limit": "prompt=" + "y" * 9000,
    "with every number at its end": "prompt=a&seed=9223372036854775807&temperature=5&top_k=10000000&top_p=1&min_p=1e-308",
    "with the widest tree": "prompt=a&proposer=tree&tree=1-1-1-1-1-1-1-8&nodes=64",
    "with 4,096 random numbers": "prompt=a&uniforms=" + ",".join(f"{n}=0.5" for n in range(4097)),
    "with folders for heads and exit": "prompt=a&heads=/etc&exit=/root&proposer=medusa",
}
MESSAGES = {  # name -> (what is sent, what becomes of the socket)
    "text": ("hello", CLOSES),
    "no text": ("", CLOSES),
    "JSON as text": ('{"rerunScript": {}}', CLOSES),
    "no bytes": (b"", LIVES),
    "noise": (bytes(range(256)), CLOSES),
    "a part of a message": (dump_rerun(query_string="prompt=a")[:-3], CLOSES),
    "a length beyond the end": (b"\x5a\xff\xff\xff\xff\x07", CLOSES),
    "groups in groups": (b"\x0b" * 10_000, CLOSES),
    "a field with a book": (dump_states(WidgetState(id="$$ID-1-fold-prompt-0", string_value="x" * 1_900_000)), LIVES),
    "an unknown field": (b"\xfa\x3f\x04abcd", LIVES),
    "two kinds in one": (BackMsg(clear_cache=True).SerializeToString() + dump_rerun(query_string="prompt=a"), LIVES),
    "three megabytes": (b"x" * 3_000_000, CLOSES),
    "thirty megabytes": (b"x" * 30_000_000, CLOSES),
    **{
        kind: (BackMsg(**{kind: True}).SerializeToString(), LIVES)
        for kind in ("clear_cache", "load_git_info", "set_run_on_save", "debug_disconnect_websocket", "debug_shutdown_runtime")
    },
    **{kind: (dump_operation(kind), LIVES) for kind in ("install_skills", "dismiss_skills_nudge", "dataframe_chunk")},
    "a download of nothing": (dump_operation("deferred_file"), LIVES),
    "a download by a path": (dump_operation("deferred_file", file="../../../../etc/passwd"), LIVES),
    "a download for a session of no name": (dump_operation("deferred_file", session="\0" * 1000, file="1"), LIVES),
    "addresses for 100,000 files": (dump_file_names(*["a"] * 100_000), LIVES),
    "addresses for files upwards": (dump_file_names("../../../../etc/passwd", "C:\\x", "\0", "x" * 10**5), LIVES),
    "a stop of nothing": (BackMsg(stop_script=True).SerializeToString(), LIVES),
    **{
        f"the page {name!r}": (dump_rerun(page_name=name), LIVES)
        for name in ("nowhere", "../../../../etc/passwd", "/etc/passwd", "app.py", "<script>", "x" * 10**5, "\0")
    },
    **{
        f"the page of the hash {name!r}": (dump_rerun(page_script_hash=name), LIVES)
        for name in ("0" * 32, "../../app.py", "\0", "x" * 10**5, "__proto__")
    },
    **{
        f"the fragment {name[:20]!r}": (dump_rerun(fragment_id=name, is_auto_rerun=True), LIVES)
        for name in ("0" * 32, "../x", "\0", "x" * 10**5)
    },
    "a run of a fragment and Back at once": (dump_rerun(fragment_id="1", is_history_navigation=True), LIVES),
    "messages that it has not had": (dump_rerun(cached_message_hashes=["0" * 64] * 5000), LIVES),
    **{
        f"a browser whose {name} is {value!r:.20}": (dump_context(**{name: value}), LIVES)
        for name, value in {
            "timezone": "../../../../etc/passwd",
            "locale": "\0",
            "timezone_offset": 2**31 - 1,
            "url": "file:///etc/passwd",
        }.items()
    },
    "a browser at an address of 100,000 characters": (dump_context(url="http://" + "x" * 10**5), LIVES),
    **{f"an address {name}": (dump_rerun(query_string=query), LIVES) for name, query in QUERIES.items()},
    "501 fields": (dump_states(*(WidgetState(id=f"$$ID-{n}", bool_value=True) for n in range(501))), CLOSES),
    "400 fields that nobody made": (
        dump_states(*(WidgetState(id=f"$$ID-{n}-x-None", string_value="x") for n in range(400))),
        LIVES,
    ),
    "a field twice": (
        dump_states(*[WidgetState(id="$$ID-1-fold-seed-0", string_value="1"), WidgetState(id="$$ID-1-fold-seed-0", int_value=2)]),
        LIVES,
    ),
    "a field without a value": (dump_states(WidgetState(id="$$ID-1-fold-seed-0")), LIVES),
    "a field with a name of 100,000 characters": (dump_states(WidgetState(id="$$ID-" + "x" * 10**5, trigger_value=True)), LIVES),
    "a field of Streamlit's own": (
        dump_states(WidgetState(id="$$STREAMLIT_INTERNAL_KEY_x__events", json_trigger_value="[")),
        LIVES,
    ),
    **{
        f"a field of the name {name!r:.20}": (dump_states(WidgetState(id=name, string_value="x")), CLOSES)
        for name in ("", "x", "one_round", "fold-seed-0", "__class__", "$ID-1", "\0", "$$", "$$ID", "$$\0")
    },
    **{
        f"a field of the name {name!r}": (dump_states(WidgetState(id=name, json_value="{}")), LIVES)
        for name in ("$$ID-", "$$ID--", "$$ID-1-one_round", "$$ID-1-", "$$ID-\0")
    },
}
VALUES: dict[str, dict[str, Any]] = {  # what a field is given
    "a script": {"string_value": TEXTS["a script"]},
    "a long text": {"string_value": "x" * 10_000},
    "a large number": {"int_value": 2**62},
    "not a number": {"double_value": float("nan")},
    "infinity": {"double_value": float("inf")},
    "yes": {"bool_value": True},
    "bytes": {"bytes_value": b"\xff" * 1000},
    "JSON that ends too early": {"json_value": "[" * 5000},
    "a click": {"trigger_value": True},
    "a trigger of JSON": {"json_trigger_value": '[{"event": "__class__", "value": {"a": NaN}}]'},
    "many texts": {"string_array_value": {"data": ["x"] * 1000}},
    "many numbers": {"double_array_value": {"data": [float("nan")] * 1000}},
    "many large numbers": {"int_array_value": {"data": [2**62] * 500}},
    "a text that clicks": {"string_trigger_value": {"data": "x"}},
    "a file that is nobody's": {
        "file_uploader_state_value": {"uploaded_file_info": [{"file_id": "1", "name": "../x", "size": 2**62}]}
    },
}
EVENTS = {  # what a component reports
    "no JSON": "{",
    "a list that is nested": "[" * 5000 + "]" * 5000,
    "null": "null",
    "a number": "1e999",
    "an event that is none": '[{"event": "__class__", "value": 1}]',
    "an event without a name": '[{"value": 1}]',
    "an event that is a list": '[{"event": [], "value": {}}]',
    "no event": "[]",
    "300 events": "[" + ",".join(['{"event": "at", "value": "0.0"}'] * 300) + "]",
    **{
        f"{event} with {value[:20]}": f'[{{"event": "{event}", "value": {value}}}]'
        for event in ("at", "ask", "uniform")
        for value in (
            "null",
            "-1",
            "1e999",
            "NaN",
            '"<script>"',
            '"../../x"',
            "[]",
            '{"position": -1, "purpose": "x", "u": "y"}',
            "[[[]]]",
        )
    },
}

PATHS = (  # that lead nowhere
    *(
        f"{start}/{end}"
        for start in ("/app/static", "/static", "/component/x", "/_stcore/bidi-components/x", "/media", "")
        for end in (
            "../../../../etc/passwd",
            "..%2f..%2f..%2f..%2fetc%2fpasswd",
            "%2e%2e/%2e%2e/app.py",
            "..\\..\\app.py",
            "/etc/passwd",
            "%00",
        )
    ),
    *("//evil.example/share", "/\\\\evil.example\\share", "/C:/windows/win.ini", "/.git/config", "/.streamlit/secrets.toml"),
    *("/app.py", "/specviz.toml", "/app/static/.hidden", "/app/static/CON", "/app/static/%F0%9F", "/pages/one_round.py"),
    *("/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/agent/openapi.json", "/_stcore/stream", "/" + "x" * 5000),
)
HEADERS: dict[str, dict[str, str]] = {  # of a request for a page
    "a cookie of 20,000 bytes": {"Cookie": "_streamlit_xsrf=" + "2|ff|" + "f" * 20_000 + "|1"},
    "a mask of nothing": {"Cookie": "_streamlit_xsrf=2||00|1"},
    "a cookie that is none": {"Cookie": "=;;;\x7f==\"'"},
    "letters beyond ASCII": {"Cookie": "_streamlit_xsrf=2|é|ü|1", "X-Other": "ÿ"},
    "another host": {"Host": "evil.example"},
    "a host that is none": {"Host": "a b<script>"},
    "another origin": {"Origin": "https://evil.example"},
    "a range beyond the end": {"Range": "bytes=999999999999-0"},
    "many ranges": {"Range": "bytes=" + ",".join(["0-1"] * 500)},
    "a length below zero": {"Content-Length": "-1"},
    "a length that is none": {"Content-Length": "1e9"},
    "an upgrade to nothing": {"Upgrade": "h2c", "Connection": "Upgrade"},
}
METHODS = ("POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "X" * 100)


def build_form(name: str, content: bytes, disposition: str = "") -> bytes:
    head = disposition or f'form-data; name="file"; filename="{name}"'
    return b"--x\r\nContent-Disposition: " + head.encode() + b"\r\n\r\n" + content + b"\r\n--x--\r\n"


UPLOADS: dict[str, tuple[bytes, dict[str, str], tuple[int, ...]]] = {  # name -> (body, headers, what it may be answered with)
    "a name upwards": (build_form("../../../../tmp/x.jsonl", b"x"), {}, (204,)),
    "a name of a device": (build_form("CON\\..\\x", b"x"), {}, (204,)),
    "a name of 5,000 characters": (build_form("x" * 5000, b"x"), {}, (204, 400)),
    "a name with a script": (build_form("<script>alert(1)</script>.jsonl", b"x"), {}, (204,)),
    "no file": (build_form("", b"x", 'form-data; name="file"'), {}, (400,)),
    "two files": (
        build_form("a", b"x")[:-7] + b"\r\n" + build_form("b", b"y").replace(b'name="file"', b'name="other"'),
        {},
        (400,),
    ),
    "no parts": (b"x" * 1000, {}, (400,)),
    "no boundary": (build_form("a", b"x"), {"Content-Type": "multipart/form-data"}, (400,)),
    "another type": (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, (400,)),
    "nothing": (b"", {}, (400,)),
    "6 MB": (build_form("a", b"x" * 6 * 2**20), {}, (413,)),
    "parts without end": (b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n" * 5000, {}, (400,)),
    "a length beyond belief": (b"", {"Content-Length": "9" * 18}, (413,)),
    "a length that is none": (b"", {"Content-Length": "many"}, (400,)),
    "no token": (build_form("a", b"x"), {"X-Xsrftoken": ""}, (403,)),
    "another token": (build_form("a", b"x"), {"X-Xsrftoken": "2|00000000|00000000000000000000000000000000|1"}, (403,)),
}
