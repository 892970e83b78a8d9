"""The published mistakes in words: what goes wrong, who reported it, under which settings which evidence must catch it.

No torch here, so that a page can name them before anything heavy is imported. What each one does to the decoder is in
mutants/catalog.py, by the same ids.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, replace

from specviz.settings import SAMPLING_FIELDS, Settings

REPLACED = ("distribution", "proposer", "randomness", "rule", "commit")
TIERS = ("sampled", "enumerated", "analytic", "injected random number", "tokens per pass")
ONE_DRAFT_TOKEN = Settings(gamma=1, max_new_tokens=2)
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
    _: KW_ONLY
    settings: Settings = ONE_DRAFT_TOKEN
    tier: str = "sampled"
    shared: bool = True

    def under(self, settings: Settings) -> Settings:
        """A run's settings with the warper, gamma and length that this mistake needs."""
        names = (*SAMPLING_FIELDS, "gamma", "max_new_tokens")
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
        "The draft token is the draft's most likely token, but it is judged as if it had been drawn from the draft's distribution.",
        "huggingface/transformers#32867, jaymody/speculative-sampling#3",
        "proposer",
    ),
    Mistake(
        "R2",
        "q before the cuts",
        "The draft token is drawn from the cut distribution, but it is judged by q as it was before top-k, top-p or min-p.",
        "huggingface/transformers#47932",
        "proposer",
        settings=Settings(gamma=1, max_new_tokens=2, top_k=3),
    ),
    Mistake(
        "R3",
        "greedy by argmax, compared by softmax",
        "At temperature 0 tokens are chosen by argmax, but draft tokens are accepted or rejected by a random number and a softmax ratio.",
        "romsto/Speculative-Decoding",
        "distribution",
        settings=Settings(gamma=1, max_new_tokens=2, temperature=0.0),
        shared=False,
    ),
    Mistake(
        "R4",
        "target not warped",
        "Temperature is applied to the draft's distribution and not to the target's, so the text has the distribution of another temperature.",
        "vllm-project/vllm#9834",
        "distribution",
        settings=Settings(gamma=1, max_new_tokens=2, temperature=0.5),
    ),
    Mistake(
        "R5",
        "replacement from p",
        "A rejected draft token is replaced by a draw from the target's whole distribution p, not from its part above the draft's q (the residual), so "
        "tokens that both models like come out too often.",
        "common",
        "rule",
    ),
    Mistake(
        "R6",
        "draft noise used again",
        "The random number that drew the rejected draft token also draws its replacement, so the two are not independent.",
        "vllm-project/vllm#54282",
        "randomness",
    ),
    Mistake(
        "R7",
        "seeded again for each token",
        "Every draft token of a run meets the same random number: single tokens have the right distribution, several together do not.",
        "feifeibear/LLMSpeculativeSampling",
        "randomness",
        settings=Settings(gamma=2, max_new_tokens=3),
    ),
    Mistake(
        "R8",
        "unsure draft token dropped",
        "A draft token with a small q is thrown away after it was drawn, so the remaining ones no longer follow q.",
        "vllm-project/vllm#43522, ikawrakow/ik_llama.cpp#1820",
        "proposer",
        shared=False,
    ),
    Mistake(
        "R9",
        "residual by place in a list",
        "After top-k the two distributions are lists of different tokens, but they are subtracted entry by entry.",
        "llama.cpp, examples/speculative",
        "rule",
        settings=Settings(gamma=1, max_new_tokens=2, top_k=10),
    ),
    Mistake(
        "R10",
        "comparison not strict",
        "A random number of exactly 0 accepts a token that has probability 0 under the target.",
        "sgl-project/sglang#35771",
        "rule",
        tier="injected random number",
    ),
    Mistake(
        "R11",
        "target one row late",
        "The target's rows are off by one, so each draft token is judged by the distribution at the position before it.",
        "romsto/Speculative-Decoding#4, vllm-project/vllm#9730, vllm-project/vllm#3951",
        "distribution",
        settings=Settings(gamma=2, max_new_tokens=3),
    ),
    Mistake(
        "R16",
        "drawn in half precision",
        "The draft token is drawn from q rounded to bfloat16 and judged by q itself.",
        "deepseek-ai/DeepSpec#31, gpt-fast",
        "proposer",
        tier="analytic",
    ),
    Mistake(
        "R18",
        "random number stuck at 0",
        "The random number is always 0, so every draft token that the target can write at all is accepted.",
        "vllm-project/vllm-ascend#13766",
        "randomness",
    ),
    Mistake(
        "R20",
        "one target draw per path",
        "Each of three siblings is compared with its own draw from the target, so the first ones are accepted too often.",
        "Medusa nucleus mode, foundation-model-stack/fms-extras#12",
        "rule",
        shared=False,
    ),
    Mistake(
        "R21",
        "typical acceptance",
        "Every token that the target finds likely enough is accepted: a trade of quality for speed, not sampling.",
        "Medusa's default",
        "rule",
    ),
    Mistake(
        "best-drawn",
        "best of the drawn siblings",
        "Two siblings are drawn, but only the more likely one is proposed, with a distribution that it was not drawn from.",
        "derived",
        "proposer",
        shared=False,
    ),
    Mistake(
        "R35",
        "random numbers by position alone",
        "The next round uses random numbers that the last round already used to reject (here under block verification).",
        "derived",
        "randomness",
        settings=Settings(gamma=2, max_new_tokens=5),
        tier="enumerated",
        shared=False,
    ),
    Mistake(
        "gate",
        "gate off by one",
        "Each draft token is judged by the draft's distribution at the next position.",
        "derived",
        "proposer",
        settings=Settings(gamma=2, max_new_tokens=3),
    ),
    Mistake(
        "pass-temperature",
        "another temperature in the verifying pass",
        "Draft tokens are judged and replaced by the target at half the temperature that was asked for; greedy texts stay right.",
        "vllm-project/vllm#55005",
        "rule",
    ),
    Mistake(
        "kept-rest",
        "tokens after a rejection stay",
        "A rejected draft token is replaced, but the draft tokens after it stay, although they followed another token.",
        "derived",
        "commit",
        settings=Settings(gamma=2, max_new_tokens=3),
        shared=False,
    ),
    Mistake(
        "no-bonus",
        "no bonus token",
        "When all draft tokens were accepted, no bonus token is added: the distribution stays exact, but each pass writes less.",
        "derived",
        "commit",
        settings=Settings(gamma=2, max_new_tokens=3),
        tier="tokens per pass",
        shared=False,
    ),
)

MISTAKES: dict[str, Mistake] = {mistake.id: mistake for mistake in _ROWS}
