"""The published mistakes in words: what goes wrong, who reported it, under which settings which evidence must catch it.

No torch here, so that a page can name them before anything heavy is imported. What each one does to the decoder is in
mutants/catalogue.py, by the same ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from specviz.settings import Settings

REPLACED = ("distribution", "proposer", "randomness", "rule", "commit")
TIERS = ("sampled", "enumerated", "analytic", "injected random number", "tokens per pass")
_THREAD = re.compile(r"([\w.-]+/[\w.-]+?)(?:#(\d+))?")


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """One mistake.

    id        row of the checklist, or a word where it has none
    name      in words; ``wrong`` says in one sentence what goes wrong
    thread    who reported it; "derived" where nobody did
    replaces  which argument of ``decode`` is another, one of REPLACED
    settings  the warper, gamma and length that must catch it
    tier      the evidence that must catch it, one of TIERS
    shared    whether the sampler on shared distributions draws it too; else only the engine does
    """

    id: str
    name: str
    wrong: str
    thread: str
    replaces: str
    settings: Settings
    tier: str
    shared: bool = field(default=True, kw_only=True)

    def under(self, settings: Settings) -> Settings:
        """A run's settings with the warper, gamma and length that this mistake needs."""
        names = ("temperature", "top_k", "top_p", "min_p", "gamma", "length")
        return replace(settings, **{name: getattr(self.settings, name) for name in names})

    @property
    def threads(self) -> tuple[tuple[str, str], ...]:
        """Who reported it, one by one: words, and the address where they name a GitHub repository or a thread there."""
        return tuple((words, _address(words)) for words in self.thread.split(", "))


def _address(words: str) -> str:
    found = _THREAD.fullmatch(words)
    if not found:
        return ""
    return f"https://github.com/{found[1]}" + (f"/issues/{found[2]}" if found[2] else "")


_ROWS = (
    Mistake(
        "R1",
        "argmax draft, softmax ratio",
        "The draft token is the draft's likeliest token, but it is judged as if it had been drawn from the draft's distribution.",
        "huggingface/transformers#32867, jaymody/speculative-sampling#3",
        "proposer",
        Settings(gamma=1, length=2),
        "sampled",
    ),
    Mistake(
        "R2",
        "q before the cuts",
        "The draft token is drawn from the cut distribution, but it is judged by q as it was before top-k, top-p or min-p.",
        "huggingface/transformers#47932",
        "proposer",
        Settings(gamma=1, length=2, top_k=3),
        "sampled",
    ),
    Mistake(
        "R3",
        "greedy by argmax, compared by softmax",
        "At temperature 0 tokens are taken by argmax, yet draft tokens are kept or refused by a random number and a softmax ratio.",
        "romsto/Speculative-Decoding",
        "distribution",
        Settings(gamma=1, length=2, temperature=0.0),
        "sampled",
        shared=False,
    ),
    Mistake(
        "R4",
        "target not warped",
        "The draft's distribution is warped and the target's is not, so the text has the distribution of another temperature.",
        "vllm-project/vllm#9834",
        "distribution",
        Settings(gamma=1, length=2, temperature=0.5),
        "sampled",
    ),
    Mistake(
        "R5",
        "replacement from p",
        "A rejected draft token is replaced by a draw from p, not from what p has left over q.",
        "common",
        "rule",
        Settings(gamma=1, length=2),
        "sampled",
    ),
    Mistake(
        "R6",
        "draft noise used again",
        "The number that drew the rejected draft token draws its replacement too, so the two are not independent.",
        "vllm-project/vllm#54282",
        "randomness",
        Settings(gamma=1, length=2),
        "sampled",
    ),
    Mistake(
        "R7",
        "seeded again for each token",
        "Every draft token of a run meets the same random number: each token alone has the right distribution, several together do not.",
        "feifeibear/LLMSpeculativeSampling",
        "randomness",
        Settings(gamma=2, length=3),
        "sampled",
    ),
    Mistake(
        "R8",
        "unsure draft token dropped",
        "A draft token is drawn, found to have little q, and thrown away: what is left is no longer drawn from q.",
        "vllm-project/vllm#43522, ikawrakow/ik_llama.cpp#1820",
        "proposer",
        Settings(gamma=1, length=2),
        "sampled",
        shared=False,
    ),
    Mistake(
        "R9",
        "residual by place in a list",
        "After top-k the two distributions are lists of different tokens, and they are subtracted place by place.",
        "llama.cpp, examples/speculative",
        "rule",
        Settings(gamma=1, length=2, top_k=10),
        "sampled",
    ),
    Mistake(
        "R10",
        "comparison not strict",
        "A random number that shows exactly 0 keeps a token to which the target gives no probability at all.",
        "sgl-project/sglang#35771",
        "rule",
        Settings(gamma=1, length=2),
        "injected random number",
    ),
    Mistake(
        "R11",
        "target one row late",
        "The target's rows are off by one, so each draft token is judged by the distribution of the position before it.",
        "romsto/Speculative-Decoding#4, vllm-project/vllm#9730, vllm-project/vllm#3951",
        "distribution",
        Settings(gamma=2, length=3),
        "sampled",
    ),
    Mistake(
        "R16",
        "drawn in half precision",
        "The draft token is drawn from q rounded to bfloat16 and judged by q itself.",
        "deepseek-ai/DeepSpec#31, gpt-fast",
        "proposer",
        Settings(gamma=1, length=2),
        "analytic",
    ),
    Mistake(
        "R18",
        "random number stuck at 0",
        "The random number never moves, so every draft token that the target can write at all is kept.",
        "vllm-project/vllm-ascend#13766",
        "randomness",
        Settings(gamma=1, length=2),
        "sampled",
    ),
    Mistake(
        "R20",
        "one target draw per path",
        "Each of three siblings is held against a target draw of its own, so the first ones are kept too often.",
        "Medusa nucleus mode, foundation-model-stack/fms-extras#12",
        "rule",
        Settings(gamma=1, length=2),
        "sampled",
        shared=False,
    ),
    Mistake(
        "R21",
        "typical acceptance",
        "Whatever the target finds likely enough is kept for certain; this is a trade of quality for speed, not sampling.",
        "Medusa's default",
        "rule",
        Settings(gamma=1, length=2),
        "sampled",
    ),
    Mistake(
        "best-drawn",
        "best of the drawn siblings",
        "Two siblings are drawn and a budget hands over the likelier one alone, which was not drawn from the distribution that it comes with.",
        "derived",
        "proposer",
        Settings(gamma=1, length=2),
        "sampled",
        shared=False,
    ),
    Mistake(
        "R35",
        "random numbers by position alone",
        "The next round meets random numbers that the last one has already looked at and found wanting (here under block verification).",
        "derived",
        "randomness",
        Settings(gamma=2, length=5),
        "enumerated",
        shared=False,
    ),
    Mistake(
        "gate",
        "gate off by one",
        "Each draft token is judged by the draft's distribution of the neighbouring position.",
        "derived",
        "proposer",
        Settings(gamma=2, length=3),
        "sampled",
    ),
    Mistake(
        "kept-rest",
        "tokens after a rejection kept",
        "A rejected draft token is replaced where it stands, and the draft tokens made after it stay, though they followed another token.",
        "derived",
        "commit",
        Settings(gamma=2, length=3),
        "sampled",
        shared=False,
    ),
    Mistake(
        "no-bonus",
        "no bonus token",
        "After a block that was kept whole nothing is added: the text keeps its distribution, each pass writes less.",
        "derived",
        "commit",
        Settings(gamma=2, length=3),
        "tokens per pass",
        shared=False,
    ),
)

MISTAKES: dict[str, Mistake] = {mistake.id: mistake for mistake in _ROWS}
