"""Which pair of one's own a visitor looks at in the panel, and what is known of it. Plain records, no torch, no Streamlit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.errors import SettingsError
from specviz.jobs.queue import FairQueue
from specviz.models.pairs.names import PairPlaces
from specviz.web.common.page_state import PageState

if TYPE_CHECKING:
    from specviz.speed.prediction.preflight import Preflight

PLACE_MAX = 500  # characters of a folder or hub name


@dataclass(frozen=True, slots=True)
class PairRequest:
    """A pair as it is named: folders or hub names; rounded: whether the draft's weights are rounded to 8 bits.

    device, dtype  on and in which the pages run pairs
    """

    target: str = ""
    draft: str = ""
    rounded: bool = False
    device: str = "auto"
    dtype: str = "auto"

    def __post_init__(self) -> None:
        for role in ("target", "draft"):
            place = getattr(self, role)
            if "|" in place or len(place) > PLACE_MAX:
                raise SettingsError(
                    role, place, f"a folder or a hub name such as owner/model, without the sign |, at most {PLACE_MAX} characters"
                )

    @property
    def is_complete(self) -> bool:
        """Whether both models are named."""
        return bool(self.target and self.draft)

    @property
    def name(self) -> str:
        """The name of the pair, as settings hold it."""
        return PairPlaces(self.target, self.draft, self.rounded).name


class PairPickerState(PageState):
    """What is looked at, what the check found, and what a link offered.

    found    of the last check of what is asked; None: not checked
    start    what the fields began with
    offered  the name of a pair that a link asked for and nobody has used here
    drawn    the pair in force when the panel was last drawn
    """

    def __init__(self, question: PairRequest | None = None, queue: FairQueue | None = None):
        super().__init__(question or PairRequest(), queue)
        self.start: PairRequest = self.question
        self.offered = self.drawn = ""
        self.reset_findings()

    def reset_findings(self) -> None:
        self.check: Preflight | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the pair was checked, would run here, and is here."""
        return self.check is not None and self.check.ready and not self.check.download_bytes
