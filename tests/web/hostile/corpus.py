"""Hostile input as data, by family: texts for links and fields, uploaded files, and forged messages."""

from __future__ import annotations

import gzip
import json

from specviz.web.common.links import KEYS

TEXTS = {
    "nothing": "",
    "a NUL byte": "\0",
    "control characters": "\x01\x07\x1b[2J\x7f\x85",
    "half a character": "\ud800",
    "right to left": "\u202egpj.exe\u2066",
    "many digits": "9" * 10**6,
    "not a number": "nan",
    "infinity": "-inf",
    "beyond a float": "1e999",
    "a negative number": "-1",
    "digits of another script": "٣",
    "an underscore in a number": "1_000",
    "a hexadecimal number": "0x10",
    "a script": "<script>alert(1)</script>",
    "a handler": '"><img src=x onerror=alert(1)>',
    "an address that runs": "[x](javascript:alert(1))",
    "an image elsewhere": "![x](https://example.com/seen.png)",
    "a formula of LaTeX": r"$\href{javascript:alert(1)}{x}$",
    "a color directive": ":red[x] :material/home:",
    "a formula of a spreadsheet": "=cmd|' /C calc'!A0",
    "a path upwards": "../../../../etc/passwd",
    "a file": "file:///etc/passwd",
    "a hub name": "owner/model",
    "a pair of one's own": "owner/big|owner/small",
    "a template": "{{7*7}} ${7*7} %s %n",
    "JSON": '{"__class__": "os.system"}',
    "deep nesting": "[" * 10**5,
    "many parts": "0=0.5," * 10**5,
    "many dots": "1." * 10**4,
    "a million characters": "a" * 10**6,
}
LINKS = [(key, name) for key in sorted(KEYS) for name in TEXTS]


def build_line(**more: object) -> bytes:
    return (json.dumps({"prompt": "Once", "tokens": [1, 2]} | more) + "\n").encode()


def nest(depth: int) -> bytes:
    return b'{"prompt": "Once", "tokens": [1], "settings": {"a": ' + b"[" * depth + b"]" * depth + b"}}\n"


FILES = {  # none of them holds samples that can be used
    "nothing": b"",
    "blank lines": b"\n" * 10**5,
    "a NUL byte": b"\0",
    "every byte": bytes(range(256)),
    "a truncated line": build_line()[:-5],
    "gzip": gzip.compress(build_line() * 1000, mtime=0),
    "HTML": b"<!doctype html><script>alert(1)</script>",
    "UTF-16": build_line().decode().encode("utf-16"),
    "invalid UTF-8": b'{"prompt": "\xff\xfe", "tokens": [1]}',
    "a half character in bytes": b'{"prompt": "\xed\xa0\x80", "tokens": [1]}',
    "a half character as prompt": build_line(prompt="\ud800"),
    "a half character as text": build_line(tokens=None, text="\udfff"),
    "a half character as reason": build_line(stop="\ud800"),
    "a half character in settings": build_line(settings={"\ud800": 1}),
    **{f"lists nested {depth}": b"[" * depth for depth in (10**3, 10**5, 10**6)},
    "objects nested 10^5": b'{"a":' * 10**5,
    **{f"settings nested {depth}": nest(depth) for depth in (10, 100, 900, 990, 10**5)},
    "a number of 10^7 digits": b'{"prompt": "Once", "tokens": [' + b"9" * 10**7 + b"]}",
    "a number of 10^5 digits": b'{"prompt": "Once", "tokens": [' + b"9" * 10**5 + b"]}",
    "NaN as token": b'{"prompt": "Once", "tokens": [NaN]}',
    "NaN in settings": build_line(settings={"temperature": float("nan")}),
    "infinity in settings": b'{"prompt": "Once", "tokens": [1], "settings": {"temperature": 1e999}}',
    "two prompts": b'{"prompt": "Once", "prompt": "Twice", "tokens": [1]}',
    "two temperatures": b'{"prompt": "Once", "tokens": [1], "settings": {"temperature": 1, "temperature": 2}}',
    "a line of two megabytes": build_line(note="x" * 2**21),
    "a list of many objects": b"[" + b"{}," * 10**6 + b"{}]",
    "settings of a megabyte": build_line(settings={"a": "x" * 10**6}),
    "settings that differ at length": build_line(settings={"a": "x" * 10**4}) + build_line(settings={"a": "y" * 10**4}),
    "many lines": b"\n" * (2 * 10**6 + 1),
    **{
        f"tokens are {value!r}": build_line(tokens=value)
        for value in ("1", 1, {"a": 1}, [True], [1.0], [None], ["1"], [-1], [2**31], [[1]])
    },
    **{f"the prompt is {value!r}": build_line(prompt=value) for value in (None, 1, [], {}, True)},
    **{f"the reason is {value!r}": build_line(stop=value) for value in (1, [], {}, True)},
    **{f"settings are {value!r}": build_line(settings=value) for value in (1, [], "x", True)},
    **{f"the line is {value}": value.encode() for value in ("null", "true", "1", '"x"', "[]", "{}", "-", "[1,]")},
    "two prompts in two lines": build_line() + build_line(prompt="Twice"),
    "text after tokens": build_line() + build_line(tokens=None, text="x"),
}
