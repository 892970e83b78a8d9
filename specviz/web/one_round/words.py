"""What somebody who shows a round to others may ask or say at each kind of step: the presenter's second window has it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

NOTES = {
    "draft": "Ask: which token would you have expected? A draft token is drawn from the draft’s distribution, so it need not be the likeliest one.",
    "pass": "Ask: what does a pass over several tokens cost? Nearly what a pass over one token costs, because the weights are read once.",
    "look": "Let everybody say accepted or rejected, and how probable that is, before you step. Where the blue bar is the taller one there is nothing to bet on: the token is always accepted.",
    "uniform": "Ask: would another u have changed it? Drag u to the other side of the line and see.",
    "lift": "Ask: what have the accepted draft tokens brought already, and what is missing up to p?",
    "residual": "Ask: why is the replacement not drawn from p itself? Question 4 of Eight questions shows what that would do.",
    "draw": "Say: the draft has no part in this draw. Everything that is missing comes from the target’s side.",
    "bonus": "Ask: where does this distribution come from? The same pass also read the last draft token, so it says what follows.",
    "stop": "Say: an end token or the length limit ends the text; it changes nothing about the rule.",
    "tally": "Ask: how many passes of the target did these tokens cost, and how many would they have cost without a draft?",
}


@dataclass(frozen=True, slots=True)
class TourStop:
    """One place.

    kind    of the step that it begins with, about the rejected draft token where a step is about one
    points  a selector of the stage
    says    {token}, {p}, {q}, {rate} and {left} become the numbers of the rejected draft token
    """

    kind: str
    points: str
    title: str
    says: str


CHIPS = ".chip:not([data-is=ghost], [data-is=hidden])"
TOUR = (
    TourStop("draft", CHIPS, "Speculative decoding: why draft, and how",
         "Most of a large model’s time for a token goes into reading its weights. A pass over several given tokens reads them once. So a small draft "
         "model suggests some, drawn from its distribution (orange); the large one, the target, checks them. Press Step."),
    TourStop("pass", CHIPS, "One pass for all of them",
         "For the place of each draft token, the target model gives its own distribution, the blue bars, and one more for the place after the last: all "
         "in one pass. Press Step to check the draft tokens from the left, or go to the next stop."),
    TourStop("look", ".scene .distributions > .panel", "Suggested too often",
         "The draft suggests {token} {q} of the time, the target gives it only {p}. So it is accepted with probability p/q = {rate}: {q} × {rate} makes "
         "{p}, exactly the target’s share. Where the blue bar is taller, a draft token is always accepted."),
    TourStop("uniform", ".scene .uniform > .panel", "A random number decides",
         "u is equally likely to be anywhere between 0 and 1. Below p/q the token is accepted; here u is above, so {token} is rejected. "
         "Drag u below the line and hold it: {token} would be accepted. Let go, and u goes back."),
    TourStop("lift", ".scene .distributions > .panel", "What accepted tokens bring",
         "Think of many tries at this place. Each token is drawn with probability q and accepted with p/q, at most 1, so it comes out with probability min(p, q). That is the "
         "striped part, which is taken away here. What is left of the blue bars is still missing."),
    TourStop("residual", ".scene .distributions > .panel", "Why the result is exactly p",
         "Pale orange is rejected, green is missing: as much, {left}, since p and q both sum to 1. So each rejection is replaced by a draw from the green "
         "part, rescaled to 1: the residual distribution. Striped plus green is the blue bar, for every token."),
    TourStop("draw", CHIPS, "How a round ends",
         "The replacement ends this round: later draft tokens followed the rejected one, so they are dropped. Had all been accepted, the same pass would "
         "have given one more, drawn from the target’s distribution after the last draft token: the bonus token."),
    TourStop("tally", ".sentence", "What sets the speed",
         "A round costs one target pass and the drafting, and gives the accepted tokens plus one. A worse draft is rejected more often: slower, but "
         "still exactly p. The next page, Why it is exact, lets you drag both distributions."),
)  # fmt: skip


def list_tour_stops(rule: str) -> list[dict[str, str]]:
    """The stops as the stage takes them; none under a rule whose acceptance probability is not min(1, p/q)."""
    return [asdict(stop) for stop in TOUR] if rule == "token" else []
