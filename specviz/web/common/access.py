"""What a server lets its visitors decide: pairs of their own, and where they are computed. And how pages read a link.

A visitor who may name a pair makes this machine look for folders and fetch models, and one who may name a device or a number type
makes it load the same weights again and drop others'. Both are for a machine of one's own. No torch and no session here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from ipaddress import ip_address

from streamlit import config

from specviz.settings import Settings

FLAG = "--allow-own-pairs"
NETWORK_FLAG = "--allow-own-pairs-from-network"
SERVERS = ("device", "dtype")  # settings that are the server's, not a link's
KEYS = {  # of links: a run's settings, and what single pages have besides
    *(field.name for field in fields(Settings)),
    *("at", "preset", "from", "p", "q", "source", "mistake", "arm", "distribution", "row", "draft", "tab", "alpha", "c"),
}
NAMED = 5  # unknown keys that a sentence names
REFUSED = (
    f"Pairs of your own are switched off: {FLAG} was given, but this server listens on {{}}, where others could make this machine"
    f" look for folders and fetch models. Start it with --server.address localhost, or add {NETWORK_FLAG} to allow them for everyone on the network."
)


def own_pairs_allowed() -> bool:
    """Whether visitors may name folders and hub names: ``streamlit run app.py --server.address localhost -- --allow-own-pairs``.

    On any other address, and on the default one, which is every network of the machine, NETWORK_FLAG is needed as well.
    """
    return FLAG in sys.argv[1:] and not own_pairs_refused()


def own_pairs_refused() -> str:
    """Why the flag does not count, in a sentence; empty where it does or was not given."""
    if FLAG not in sys.argv[1:] or NETWORK_FLAG in sys.argv[1:]:
        return ""
    address = config.get_option("server.address")
    return "" if is_loopback(address) else REFUSED.format(address or "every address of this machine")


def is_loopback(address: str | None) -> bool:
    """Whether only this machine reaches a server at this address. None, Streamlit's default, is every address that there is."""
    if address == "localhost":
        return True
    try:
        return ip_address((address or "").strip("[]")).is_loopback
    except ValueError:
        return False


def linked(query: Mapping[str, str], own_pairs: bool | None = None) -> tuple[Settings, list[str]]:
    """Settings of a link, and a sentence for each of its values that was left out: what every page reads its address by.

    own_pairs  whether visitors decide about pairs, device and number type; None: as the server was started
    """
    own_pairs = own_pairs_allowed() if own_pairs is None else own_pairs
    taken = {} if own_pairs else {name: query[name] for name in SERVERS if name in query}
    settings, said = Settings.from_query({name: value for name, value in query.items() if name not in taken})
    for name, asked in taken.items():
        if asked != (own := getattr(settings, name)):
            said.append(f"The link's {name} was left out: it asks for {asked[:60]!r}, and this server uses {own!r} for everyone.")
    return settings, said


def unknown_keys(query: Iterable[str]) -> list[str]:
    """A sentence where an address has keys that no page knows: misspelled ones, and those of earlier versions."""
    names = [repr(key[:40]) for key in query if key not in KEYS]
    names[NAMED:] = [f"{more} more"] if (more := len(names) - NAMED) > 0 else []
    return [f"The link's {', '.join(names)} was left out: no page has a setting of this name."] if names else []
