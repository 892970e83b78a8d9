"""What somebody who shows a page to others may ask or say there: the presenter's second window has it. *One round* has a note for each motion."""

ASK = {  # by path
    "whole_text": "Ask: which tokens did the target decide, those that were accepted too? All of them: a draft token stands only where the rule lets "
    "it. Then replay, and let everybody say which text is finished first, and how many target passes it takes.",
    "exactness": "Ask: what would a wrong decoder look like here, and how many samples would it take to see it? Then draw more samples. "
    "Say: the sentence names the smallest difference that these samples would have shown.",
    "mistakes": "Let everybody choose a mistake and say how many samples will show it, before you change the number. Ask: why are some mistakes seen "
    "late, although the text is wrong from the first token on?",
    "serving_limits": "Ask: which of the two texts is exact? Let everybody vote before you go on. Say: exactness is relative to the target as it is "
    "served. Whatever changes the target changes what the rule reproduces.",
    "speed": "Let everybody say which gamma is fastest, then move the sliders. Ask: when does drafting not pay? Where alpha is small, or where a draft "
    "step costs as much as a target pass.",
    "drafting_methods": "Ask: may a drafting method be arbitrarily bad? Yes, that costs only speed. Then step through the tree with the arrow keys, and "
    "ask before each random number: accepted or rejected?",
}  # fmt: skip
INSTEAD = {  # pages that are not presented, and what is
    "classroom": "This page has no presenter view. Open a room: its wall is made for the projector.",
}
