"""Write the generated parts of docs/ and specviz/pair_options.py, the keyword arguments of ``specviz.Pair``.

    python tools/generated_docs.py

Replaces the text between ``<!-- generated: NAME -->`` and ``<!-- end -->``: options of commands from their parsers, options of the
from specviz.audit.record import AuditRecord  # noqa: E402
server from web/hosting/server_options.py, settings from settings.py, terms and papers from assets/*.toml, the gallery of pairs from assets/pairs, audits from docs/audits.
SCHEMA_FILE = DOCS / "reference" / "audit-record.schema.json"
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from specviz.__main__ import COMMANDS  # noqa: E402
from specviz.audit.record import AuditRecord  # noqa: E402
from specviz.cli.common import command_options  # noqa: E402
from specviz.decoding.method_checks import list_readers  # noqa: E402
from specviz.figures.pages_and_glossary import GLOSSARY  # noqa: E402
from specviz.proposers.registry import PROPOSERS  # noqa: E402
from specviz.settings import SETTINGS  # noqa: E402
from specviz.speed.records.pair_record import format_gallery, load_pair_records  # noqa: E402
from specviz.verification.registry import RULES  # noqa: E402
from specviz.web.hosting.server_options import DEFAULTS, ServerOptions  # noqa: E402
from tools.record_schema import build_schema  # noqa: E402
from tools.servers import table as audits_table  # noqa: E402

DOCS, KEYWORDS_FILE = ROOT / "docs", ROOT / "specviz" / "pair_options.py"
SCHEMA_FILE = DOCS / "reference" / "audit-record.schema.json"
PAIR_FIELDS = ("pair", "prompt", "device", "dtype")  # settings that are no keyword arguments of the methods of Pair
BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.S)
SHARED_GROUPS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "pair": ("[the pair of models](#the-pair-of-models)", command_options.add_pair_options),
    "run": ("[one run](#one-run)", command_options.add_run_options),
    "sampling": ("[sampling](#sampling)", command_options.add_sampling_options),
    "drafting": ("[drafting method and rule](#drafting-method-and-rule)", command_options.add_drafting_options),
}


def list_actions(arguments: Callable[[argparse.ArgumentParser], None]) -> list[argparse.Action]:
    """List the options of a command or of a group of options, without --help."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    arguments(parser)
    return parser._actions


def get_identity(action: argparse.Action) -> tuple[object, ...]:
    """What tells two options apart."""
    return tuple(action.option_strings), action.dest, action.help, repr(action.default)


def escape_cell(text: str) -> str:
    """Escape plain text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def format_row(action: argparse.Action) -> str:
    """Format one line of a table: the option with its value, and its help."""
    name = ", ".join(action.option_strings) or action.dest
    if action.option_strings and action.nargs != 0:
        value = action.metavar or action.dest.upper()
        value = value if isinstance(value, str) else " ".join(value)
        name += " " + (",".join(map(str, action.choices)) if action.choices else value)
    meaning = action.help or (f"default: {action.default}" if action.choices else "")
    required = "; required" if action.required and action.option_strings else ""
    return f"| `{name.replace('|', '/')}` | {escape_cell(meaning)}{required} |"


def format_table(rows: list[argparse.Action]) -> str:
    return "\n".join(["| option | meaning |", "|---|---|", *map(format_row, rows)]) + "\n"


def format_command(name: str) -> str:
    """Format a command: examples, options (links to shared groups, the rest as a table) and notes."""
    module = importlib.import_module(f"specviz.cli.{name.replace('-', '.')}")
    rest, shared = {get_identity(action): action for action in list_actions(module.add_arguments)}, []
    for link, arguments in SHARED_GROUPS.values():
        group = [get_identity(action) for action in list_actions(arguments)]
        if set(group) <= set(rest):
            shared.append(link)
            rest = {key: action for key, action in rest.items() if key not in group}
    texts = COMMANDS[name.replace("-", " ")]
    parts = ["\n".join(["```sh", *texts["examples"], "```"]) + "\n"]
    parts += [f"Options for {', '.join(shared)}{', and:' if rest else '.'}\n"] if shared else []
    parts += [format_table(list(rest.values()))] if rest else []
    if codes := texts.get("exit_codes"):
        rows = [f"| {code} | {escape_cell(meaning)} |" for code, meaning in codes.items()]
        parts.append("\n".join(["| exit code | meaning |", "|---|---|", *rows]) + "\n")
    parts += [texts["notes"] + "\n"] if "notes" in texts else []
    return "\n".join(parts)


def format_settings() -> str:
    """Format every setting with its range, its default, who may set it and what reads it."""
    lines = ["| setting | allowed | default | in links | read by |", "|---|---|---|---|---|"]
    links = {"anyone": "yes", "host": "on your own server", "command": "no"}
    for name, one in SETTINGS.items():
        default = f"`{one.default}`" if one.default not in (None, "") else one.shown or "none"
        lines.append(
            f"| `{name}` | {escape_cell(one.allowed)} | {escape_cell(default)} | {links[one.setter]} | {', '.join(list_readers(name)) or 'all'} |"
        )
    return "\n".join(lines) + "\n"


def format_commands() -> str:
    rows = [f"| [`{name}`](#{name.replace(' ', '-')}) | {escape_cell(one['summary'])} |" for name, one in COMMANDS.items()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows]) + "\n"


def format_glossary() -> str:
    lines = ["| term | meaning |", "|---|---|"]
    lines += [
        f"| **{escape_cell(term)}** | {escape_cell(definition)} |"
        for term, definition in sorted(GLOSSARY.items(), key=lambda item: item[0].lower())
    ]
    return "\n".join(lines) + "\n"


def format_default(name: str, mode: str) -> str:
    """Format the default of a server option in a mode. The default of ``places`` depends on the machine."""
    if name == "places":
        return "by cores"
    value = mode if name == "mode" else DEFAULTS[mode].get(name, ServerOptions.model_fields[name].default)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"`{value}`" if value else "none"


def format_hosting_options() -> str:
    lines = ["| option | environment variable | local | hosted | meaning |", "|---|---|---|---|---|"]
    for name, field in ServerOptions.model_fields.items():
        variable = f"{ServerOptions.model_config['env_prefix']}{name.upper()}"
        lines.append(
            f"| `{name}` | `{variable}` | {format_default(name, 'local')} | {format_default(name, 'hosted')} | {escape_cell(field.description or '')} |"
        )
    return "\n".join(lines) + "\n"


def format_audits() -> str:
    return audits_table.build_table(DOCS / "audits")


def format_sources() -> str:
    """Format every paper with what it reports and the result here."""
    lines = ["| paper | taken from it | its abstract reports | here |", "|---|---|---|---|"]
    for one in tomllib.loads((ROOT / "assets" / "sources.toml").read_text(encoding="utf-8"))["source"]:
        paper = f"{escape_cell(one['authors'])}: [{escape_cell(one['title'])}]({one['url']}), {escape_cell(one['where'])}"
        lines.append(f"| {paper} | {escape_cell(one['what'])} | {escape_cell(one['claims'])} | {escape_cell(one['here'])} |")
    return "\n".join(lines) + "\n"


def format_model_kinds() -> str:
    """Format every kind of model or file with what becomes of it."""
    lines = ["| what you have | outcome | what happens |", "|---|---|---|"]
    for one in tomllib.loads((ROOT / "assets" / "model_kinds.toml").read_text(encoding="utf-8"))["kind"]:
        lines.append(f"| {one['title']} | {one['outcome']} | {one['note']} |")
    return "\n".join(lines) + "\n"


def format_generation_fields() -> str:
    """Format the fields of a generation_config by their effect here."""
    fields = tomllib.loads((ROOT / "assets" / "generation_config.toml").read_text(encoding="utf-8"))
    meanings = {
        "applied": "applied to the target's distribution, and to the draft's",
        "option": "decided by the options of a run; named where the model suggests another value",
        "sampling": "not applied; named in runs that sample",
        "named": "not applied; named",
    }
    lines = ["| fields | here |", "|---|---|"]
    for effect, meaning in meanings.items():
        names = ", ".join(f"`{name}`" for name, one in fields.items() if one["effect"] == effect)
        lines.append(f"| {names} | {meaning} |")
    return "\n".join([*lines, "| all others | no effect on the distribution |"]) + "\n"


def format_record_schema() -> str:
    """Format the JSON schema of an audit's record."""
    return json.dumps(build_schema(AuditRecord, "Record of specviz audit"), indent=1) + "\n"


def list_own_only() -> ExitStack:
    """Leave out what other packages that happen to be installed register."""
    with ExitStack() as stack:
        for registry in (PROPOSERS, RULES):
            stack.enter_context(registry.list_own_only())
        return stack.pop_all()


def format_block(name: str) -> str:
    """Format the generated text of that name. Raises KeyError for an unknown name."""
    with list_own_only():
        return _format_block(name)


def _format_block(name: str) -> str:
    if name.replace("-", " ") in COMMANDS:
        return format_command(name)
    if name in SHARED_GROUPS:
        return format_table(list_actions(SHARED_GROUPS[name][1]))
    return {
        "commands": format_commands,
        "settings": format_settings,
        "glossary": format_glossary,
        "gallery": lambda: format_gallery(load_pair_records()),
        "hosting-options": format_hosting_options,
        "audits": format_audits,
        "sources": format_sources,
        "model-kinds": format_model_kinds,
        "generation-fields": format_generation_fields,
    }[name]()


def replace_blocks(text: str) -> str:
    """Return a page with every generated part replaced."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{format_block(match['name'])}\n{match[3]}", text)


def format_keyword_arguments() -> str:
    """Format the source of specviz/pair_options.py: the settings as typed keyword arguments."""
    lines = [
        '"""Keyword arguments of the methods of ``specviz.Pair``: the settings, with their ranges and defaults.',
        "",
        "Generated from settings.py and assets/settings.toml by ``python tools/generated_docs.py``; edit those.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping",
        "from typing import TypedDict",
        "",
        "",
        "class PairOptions(TypedDict, total=False):",
        '    """Every field of ``Settings`` that is not of the pair."""',
        "",
        "    uniforms: Mapping[tuple[int, str], float]  # random numbers that you choose: (position, purpose) -> u in [0, 1)",
    ]
    for name, one in SETTINGS.items():
        if name not in PAIR_FIELDS:
            field = f"    {name}: {one.kind.__name__}{' | None' if one.optional else ''}"
            with list_own_only():
                text = one.describe(list_readers(name)).replace("--", "")
            above = textwrap.wrap(text, 120, initial_indent="    # ", subsequent_indent="    # ")
            lines += [f"{field}  # {text}"] if len(field) + len(text) <= 126 else [*above, field]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    KEYWORDS_FILE.write_text(format_keyword_arguments(), encoding="utf-8")
    SCHEMA_FILE.write_text(format_record_schema(), encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        if (after := replace_blocks(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
