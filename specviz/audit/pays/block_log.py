"""The blocks of a measurement as JSON lines: what was measured is kept when the work is stopped, and continued by the same command."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from specviz.audit.pays.load import Arm, Block, LoadPlan, block_from_record, block_to_record
from specviz.audit.pays.streams import Prompt
from specviz.errors import SettingsError

FILE = "blocks.jsonl"


class BlockLog:
    """The file of one measurement. Its first line says what is measured; levels and turns may be added later.

    Attributes:
        path: Of the file.
        blocks: Those in the file, also of an earlier run.

    Raises:
        SettingsError: The folder holds another measurement, or cannot be written.
    """

    def __init__(self, folder: Path, arms: Sequence[Arm], prompts: Sequence[Prompt], plan: LoadPlan):
        self.path, self.blocks = folder / FILE, list[Block]()
        first = json.dumps({"measurement": _identify(arms, prompts, plan)})
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lines = self.path.read_text().splitlines() if self.path.exists() else [first]
            if lines[:1] != [first]:
                found = "holds times of another server, of other prompts or of other settings"
                raise SettingsError("out", str(folder), "a new folder", f"The folder '{folder}' {found}. Give a new folder.")
            for line in lines[1:]:
                try:
                    self.blocks.append(block_from_record(json.loads(line)))
                except (ValueError, KeyError, TypeError):
                    break  # the last line, cut when the program was killed
            self.path.write_text("".join(f"{line}\n" for line in lines[: 1 + len(self.blocks)]))
        except OSError as error:
            sentence = f"The folder '{folder}' could not be written ({error.strerror})."
            raise SettingsError("out", str(folder), "a folder that can be written", sentence) from error

    def append(self, block: Block) -> None:
        """Add a block to the file. Raises OSError where the disk is full."""
        self.blocks.append(block)
        with self.path.open("a") as file:
            file.write(json.dumps(block_to_record(block)) + "\n")


def _identify(arms: Sequence[Arm], prompts: Sequence[Prompt], plan: LoadPlan) -> str:
    """A digest of what must be the same for a measurement to be continued."""
    asked = [(arm.name, arm.endpoint.url, asdict(arm.request)) for arm in arms]
    text = json.dumps([asked, list(prompts), plan.prompts_per_user], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
