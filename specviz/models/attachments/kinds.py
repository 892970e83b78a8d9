"""All that may be attached to a target: each kind by the name of its setting and its option."""

from __future__ import annotations

import argparse

from specviz.models.attachments.exits import EXITS
from specviz.models.attachments.folder import Attachment
from specviz.models.attachments.heads import HEADS
from specviz.settings import Settings

KINDS: tuple[Attachment, ...] = (HEADS, EXITS)


def admit(named: Settings | argparse.Namespace) -> None:
    """Admit the folders that settings or options name, as ``Attachment.admit`` does; for the command line and its workers alone."""
    for kind in KINDS:
        if folder := getattr(named, kind.name):
            kind.admit(folder)
