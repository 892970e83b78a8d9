"""How much is in the corpus, by where it enters."""

from __future__ import annotations

from tests.web.hostile import corpus, protocol
from tests.web.hostile.test_links import FORGED, HOSTS

ENTRIES = {
    "texts of links and fields": {text[:1000] + str(len(text)) for text in corpus.TEXTS.values()},
    "values of links that the host decides": {(key, value) for key, values in HOSTS.items() for value in values},
    "addresses": set(protocol.QUERIES.values()),
    "values of fields": {repr(value) for value in (*protocol.VALUES.values(), *FORGED.values())},
    "reports of components": set(protocol.EVENTS.values()),
    "messages": {sent for name, (sent, _) in protocol.MESSAGES.items() if not name.startswith("an address")},
    "uploaded files": set(corpus.FILES.values()),
    "requests to upload": {repr(one) for one in protocol.UPLOADS.values()},
    "other requests": {*protocol.PATHS, *protocol.METHODS, *map(repr, protocol.HEADERS.values())},
}


def test_every_way_in_has_its_inputs_and_together_they_are_at_least_300():
    assert all(ENTRIES.values()) and sum(map(len, ENTRIES.values())) >= 300
