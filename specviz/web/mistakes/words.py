"""What the page Break it says: what a mistake does, when it was detected, what sampling cannot show, and what speed tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.evidence.mutants.mistakes import MISTAKES, Mistake
from specviz.evidence.tally import SIZES
from specviz.figures.mistakes import Curve, TextPair, raised
from specviz.web.common import two_texts
from specviz.web.common.two_texts import Line
from specviz.web.common.verdict import Verdict, detectable, next_test, rejection, tail, too_early
from specviz.web.mistakes.state import Case, Trial

if TYPE_CHECKING:
    from specviz.evidence.tally import Look

UNSEEN = {
    "enumerated": "Sampling hardly shows this one on real text. *Enumeration* detects it: the rule's outcomes on small tables are added up one by one.",
    "analytic": "This one is too small for a million samples. The *analytic* check detects it: it computes the decoder's distribution of the next "
    "token and compares it with a fresh pass of the target.",
    "injected random number": "Sampling never shows this one, because the random number would have to be exactly 0. *Setting that number by hand* detects it.",
    "tokens per pass": "Sampling cannot show this one, because the distribution of the text stays exact. Counting *tokens per target pass* detects it.",
}
TIERS = {"enumerated": "by enumeration", "analytic": "by the analytic check", "injected random number": "by a random number set by hand",
         "tokens per pass": "by tokens per pass", "sampled": "by samples"}  # fmt: skip


def title(name: str) -> str:
    """An entry of the list."""
    return f"{MISTAKES[name].name} ({name})" if name in MISTAKES else "A hidden mistake: which decoder is wrong?"


def reported(mistake: Mistake) -> str:
    """Who reported it, with links, as markdown; the words come from this package alone."""
    if mistake.thread == "derived":
        return "Nobody has reported this one; we derived it."
    if mistake.thread == "common":
        return "A common mistake, found in many decoders."
    return "Reported in " + ", ".join(f"[{words}]({link})" if link else words for words, link in mistake.threads) + "."


def conditions(case: Case) -> str:
    """The settings under which both decoders write."""
    settings = case.settings
    parts = [f"temperature {settings.temperature:g}"]
    parts += [f"{name} {value:g}" for name, value in (("top-k", settings.top_k), ("top-p", settings.top_p)) if value is not None]
    drafted = "1 draft token per round" if settings.gamma == 1 else f"{settings.gamma} draft tokens per round"
    return ", ".join([*parts, drafted, f"{settings.length} tokens per sample", f"seed {settings.seed}"])


def about(case: Case, toy: float) -> str:
    """What is wrong, who reported it, what kind of evidence sees it."""
    mistake = case.known
    said = f"**{mistake.wrong}** {reported(mistake)}"
    if mistake.tier in UNSEEN:
        said += f" {UNSEEN[mistake.tier]}"
    if toy:
        small = f"{toy:.3f}" if toy >= 0.001 else f"{toy:.4f}"
        said += f" Enumerated on small tables, its distribution has a total variation distance of {small} from the target’s."
    elif mistake.tier in ("injected random number", "tokens per pass"):
        said += " Its enumerated distance is 0."
    if not mistake.shared:
        said += f" Sampling it takes the full decoder, so this page draws at most {case.most:,} samples."
    return said


def verdict(trial: Trial) -> Verdict:
    """What the tests have found so far."""
    case, result, rejected = trial.question, trial.shown, trial.rejection_in(trial.shown)
    if not trial.revealed:
        return Verdict("waiting", *_game(trial))
    if case.hidden:
        return _revealed(trial)
    if early := too_early(trial, "Sample, and watch the two distances separate."):
        return early
    if rejected:
        return Verdict("rejected", _detected(rejected), _why(trial, rejected))
    if result.n == result.same:
        words = f"On this text the two decoders wrote the same in all {result.n:,} samples: with the same random numbers the mistake changes nothing here."
        return Verdict("untold", words, _unseen(case) or f"Try another text. {next_test(trial)}")
    found = result.looks[-1][1]
    words = f"Not detected yet: {found.n:,} samples of the wrong rule show no difference."
    seen = detectable(found) if found.tells else "All texts share one cell here, so nothing can be decided."
    return Verdict("untold", words, " ".join(filter(None, (seen, _unseen(case) or _inside(found), next_test(trial)))))


def _detected(found: Look) -> str:
    return f"Detected: {found.n:,} samples were enough."


def _why(trial: Trial, found: Look) -> str:
    """The test that detected the mistake, the one before it, and what the tests say of the correct decoder."""
    looks, right = trial.shown.looks, 1 - trial.question.wrong[1]
    said, place = rejection(found), SIZES.index(found.n)
    if place:
        said += f" The test before, at {SIZES[place - 1]:,} samples, detected nothing."
    if any(pair[right].verdict == "rejected" for pair in looks):
        return f"{said} The correct one was rejected too: a false alarm, which happens in 1 of 1,000 runs."
    return f"{said} The correct one passes: {looks[-1][right].n:,} samples, no difference seen."


def _inside(found: Look) -> str:
    if found.pooled < 0.2:
        return ""
    return f"{found.pooled:.0%} of the probability lies in cells that hold several texts. Differences inside a cell show only in `verify`; its command is below."


def _unseen(case: Case) -> str:
    tier = case.known.tier if case.known else "sampled"
    return "" if tier == "sampled" else f"It is not detected by sampling, but {TIERS[tier]}."


def _game(trial: Trial) -> tuple[str, str]:
    if not trial.result.n:
        return "One of these decoders is wrong, or none. Which?", "Sample as much as you like; the first guess counts."
    seen = "Guess now, or draw more samples: what looks like sampling noise may be a mistake."
    return f"{trial.result.n:,} samples of each. Which one is wrong?", seen


def _revealed(trial: Trial) -> Verdict:
    case = trial.question
    good = trial.guess == case.answer
    truth = f"decoder {case.answer} is wrong: {case.known.name}" if case.known else "both follow the target’s distribution"
    said = f"You guessed after {trial.guessed_at:,} samples. "
    if case.known:
        not_yet = "The tests have not detected it yet. Draw more samples to see when they do."
        said += f"{case.known.wrong} {reported(case.known)} {_detected(trial.detected) if trial.detected else not_yet}"
    return Verdict("consistent" if good else "rejected", f"{'Right' if good else 'No'}: {truth}.", said)


def curve_sentence(curve: Curve, same: int, n: int, hidden: bool) -> str:
    """The sentence of meaning under the curve."""
    if not n:
        return "The distance of a correct decoder falls as 1/sqrt(n): with a hundred times the samples it is ten times smaller. That of a wrong one levels off."
    said = "Sampling noise alone leaves a correct decoder’s distance inside the gray band 99 times in 100. The band falls with more samples; the distance of a wrong decoder levels off."
    if not any(right for right, _ in curve.tv) and not hidden:
        said += " Here the correct one’s distance is always 0, which a logarithmic axis cannot show."
    if hidden:
        return said
    if same == n:
        return f"{said} The two wrote the same in all {n:,} samples."
    return f"{said} The two wrote the same in {same:,} of {n:,} samples; the mistake shows in the others."


def speed_sentence(trial: Trial) -> str:
    """The lesson of the second picture."""
    speeds, case = trial.shown.speeds, trial.question
    counted = f"Counted on {speeds[0].texts} longer texts of each."
    mistake, arm = case.wrong
    if not trial.revealed or not mistake:
        return f"A higher acceptance rate is faster, but does not say which decoder is correct. {counted}"
    right, wrong = speeds[1 - arm], speeds[arm]
    way = raised(right, wrong)
    if way > 0:
        said = f"The mistake accepts {wrong.acceptance_rate:.0%} of its draft tokens instead of {right.acceptance_rate:.0%}: **it looks faster because it is wrong.** "
        return said + f"A higher acceptance rate does not mean a better decoder. {counted}"
    if way < 0:
        return f"The mistake accepts fewer draft tokens, {wrong.acceptance_rate:.0%} instead of {right.acceptance_rate:.0%}: it is wrong and slower. {counted}"
    if wrong.per_pass < 0.95 * right.per_pass:
        return f"It accepts as many draft tokens, but each target pass writes {wrong.per_pass:.2f} tokens instead of {right.per_pass:.2f}. {counted}"
    return f"Both accept about as many draft tokens, so speed does not show this mistake. {counted}"


def cells_sentence(trial: Trial) -> str:
    arm = trial.shown.arms[trial.question.wrong[1]]
    if not arm.outside:
        return "So far sampling noise explains every bar of the wrong rule."
    many = len(arm.outside)
    return f"Sampling noise does not explain {many} of the wrong rule’s {len(arm.probs)} bars."


def texts_title(trial: Trial) -> str:
    alike, of = trial.shown.alike
    if alike == of:
        return f"**Same random numbers, same texts.** In all {of} texts of 16 tokens the two rules wrote the same."
    return (
        f"**Same text, same random numbers, two rules.** {of - alike} of {of} longer texts differ. These are the first ones, "
        "with the first different token marked ≠; from there on the texts go separate ways."
    )


def texts_html(case: Case, pairs: tuple[TextPair, ...]) -> str:
    """The texts side by side."""
    before = tail(case.settings.prompt)
    return two_texts.html(
        Line(f"{one.number} · {name}", kind, before, one.same, token if one.first[0] != one.first[1] else None, rest)
        for one in pairs
        for name, kind, token, rest in zip(case.names, ("right", "wrong"), one.first, one.rest, strict=True)
    )
