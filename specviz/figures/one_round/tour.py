"""The tour over one round: eight places of the stage, what to look at there, and what to say. The browser finds them in a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """One place. kind: of the motion that it begins with, about the rejected draft token where a motion is about one; points: a selector of the stage."""

    kind: str
    points: str
    title: str
    says: str


TOUR = (
    Stop("draft", ".chips", "Draft tokens are drawn at random",
         "The small draft model draws a token from its distribution, the orange bars, then another one after it. Press Step and watch the draft grow."),
    Stop("pass", ".chips", "One pass for all of them",
         "The large target model reads the draft tokens together. That takes about as long as a pass for one token, and gives its own "
         "distribution at each of them: the blue bars. Step on to check them one by one."),
    Stop("look", ".scene .distributions > .panel", "Too much, or too little?",
         "Here the orange bar of the draft token is taller than the blue one: the draft suggests this token too often. To be exact, only the "
         "share p/q of these suggestions may stay."),
    Stop("uniform", ".scene .uniform > .panel", "Chance decides",
         "u is equally likely to be anywhere between 0 and 1. Below p/q the token is accepted. Drag u across the line: the same token has "
         "another fate."),
    Stop("lift", ".scene .distributions > .panel", "What has come out already",
         "Rejected. Something else must take its place. Accepted draft tokens bring the striped part, which both models give. What is missing "
         "up to the blue bars is left over."),
    Stop("residual", ".scene .residual > .panel", "What is missing",
         "The missing part, rescaled to 1, is the residual distribution. A token is drawn from it exactly as often as a draft token is rejected."),
    Stop("draw", ".scene .distributions > .panel", "Why the result is exactly p",
         "Striped plus green is exactly the blue bars, for every token. The draft decides only how large the striped part is. So each token is "
         "written as often as the target says, however good or bad the draft was."),
    Stop("tally", ".transport", "What it is good for",
         "Several tokens from one target pass. Had every draft token been accepted, the same pass would have given one more: the bonus token. A worse "
         "draft is rejected more often, which is slower but never wrong."),
)  # fmt: skip
