"""Everything that may be attached to a target. Each kind has the name of its setting and option."""

from __future__ import annotations

import argparse

from specviz.models.attachments.eagle import EAGLES
from specviz.models.attachments.exits import EXITS
from specviz.models.attachments.folder import Attachment
from specviz.models.attachments.heads import HEADS
from specviz.settings import Settings

ATTACHMENTS: tuple[Attachment, ...] = (HEADS, EXITS, EAGLES)


def allow_attachments(named: Settings | argparse.Namespace) -> None:
    """Admit the folders that settings or options name, with ``Attachment.allow``. Only the command line and its workers call this."""
    for kind in ATTACHMENTS:
        if folder := getattr(named, kind.name):
            kind.allow(folder)
