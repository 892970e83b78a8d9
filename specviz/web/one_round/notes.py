"""What somebody who shows a round to others may ask or say at each kind of motion: the presenter's second window has it."""

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
