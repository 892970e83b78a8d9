"""What the page Break it says: what a mistake does, when it was caught, what cannot be seen by drawing, and what speed tells."""

from __future__ import annotations

import shlex
from html import escape

from specviz.evidence.mutants.mistakes import Mistake
from specviz.figures.common.narration import number
from specviz.figures.mistakes import Curve, raised
from specviz.models.pairs.names import as_options
from specviz.web.exactness.words import TAIL, Verdict
from specviz.web.mistakes.state import Case, Found, Pairing, Trial

UNSEEN = {
    "enumerated": "Sampling hardly shows this one on real text. It is caught by *enumeration*: every outcome of the rule on small tables.",
    "analytic": "Sampling cannot show this one within a million samples: it is too small. It is caught by the *analytic* check, which computes "
    "the distribution of the next token under the decoder and compares it with a fresh pass of the target.",
    "injected random number": "Sampling never shows this one: the random number would have to be exactly 0. It is caught by *setting that random number by hand*.",
    "tokens per pass": "Sampling cannot show this one: the distribution of the text stays exact. It is caught by counting *tokens per target pass*.",
}
TIERS = {"enumerated": "by enumeration", "analytic": "by the analytic check", "injected random number": "by a random number set by hand",
         "tokens per pass": "by tokens per pass", "sampled": "by samples"}  # fmt: skip


def title(name: str, mistakes: dict[str, Mistake]) -> str:
    """An entry of the list."""
    return f"{mistakes[name].name} ({name})" if name in mistakes else "A hidden one: which decoder is wrong?"


def reported(mistake: Mistake) -> str:
    """Who reported it, with links, as markdown; the words come from this package alone."""
    if mistake.thread == "derived":
        return "Nobody has reported this one; it was derived."
    if mistake.thread == "common":
        return "Found again and again, in many decoders."
    return "Reported in " + ", ".join(f"[{words}]({link})" if link else words for words, link in mistake.threads) + "."


def conditions(case: Case) -> str:
    """The settings under which both decoders write."""
    settings = case.settings
    parts = [f"temperature {settings.temperature:g}"]
    parts += [f"{name} {value:g}" for name, value in (("top-k", settings.top_k), ("top-p", settings.top_p)) if value is not None]
    guesses = "1 draft token per round" if settings.gamma == 1 else f"{settings.gamma} draft tokens per round"
    return ", ".join([*parts, guesses, f"{settings.length} tokens per sample", f"seed {settings.seed}"])


def about(case: Case, toy: float) -> str:
    """What is wrong, who reported it, what kind of evidence sees it."""
    mistake = case.known
    said = f"**{mistake.wrong}** {reported(mistake)}"
    if mistake.tier in UNSEEN:
        said += f" {UNSEEN[mistake.tier]}"
    if toy:
        small = f"{toy:.3f}" if toy >= 0.001 else f"{toy:.4f}"
        said += f" On small tables its distribution, enumerated outcome by outcome, is at a total variation distance of {small} from the target’s."
    elif mistake.tier in ("injected random number", "tokens per pass"):
        said += " Its enumerated distance is 0."
    return said + (
        "" if mistake.shared else f" Only the engine can sample it, so there are fewer samples here: {case.most:,} at most."
    )


def verdict(trial: Trial) -> Verdict:
    """What the looks have found so far."""
    case, drawn, looks = trial.question, trial.drawn, trial.drawn.looks
    if not trial.revealed:
        return Verdict("waiting", *_game(trial))
    if case.hidden:
        return _revealed(trial)
    if not drawn.n:
        return Verdict("waiting", "There are no samples yet.", "Sample, and watch the two distances part.")
    if trial.caught:
        return Verdict("rejected", *_caught(trial))
    if drawn.n == drawn.same:
        words = f"At this text the two wrote the same in all {drawn.n:,} samples: with the same random numbers the mistake changes nothing here."
        return Verdict("untold", words, _unseen(case) or f"Try another text. {_next(trial)}")
    if not looks:
        return Verdict(
            "waiting", f"{drawn.n:,} samples so far: too few to tell.", f"The first look comes at {trial.next_look:,}."
        )
    seen = looks[-1][1]
    words = f"Not caught yet: {seen.n:,} samples of the wrong rule show no difference."
    return Verdict("untold", words, " ".join(filter(None, (_could(seen), _unseen(case) or _inside(seen), _next(trial)))))


def _caught(trial: Trial) -> tuple[str, str]:
    arm = trial.question.wrong[1]
    places = [place for place, pair in enumerate(trial.drawn.looks) if pair[arm].rejected]
    found, right = trial.drawn.looks[places[0]][arm], trial.drawn.looks[-1][1 - arm]
    before = f"The look before, at {trial.drawn.looks[places[0] - 1][arm].n:,}, saw nothing. " if places[0] else ""
    small = "p < 10⁻³⁰⁰" if found.p < 1e-300 else f"p = {number(found.p)}"
    said = f"The {found.test} test: {small}, where {number(found.level)} was allowed. {before}"
    if any(pair[1 - arm].rejected for pair in trial.drawn.looks):
        return (
            f"Caught: {found.n:,} samples were enough.",
            said + "The right one was rejected too: a false alarm, once in 1,000 runs.",
        )
    return f"Caught: {found.n:,} samples were enough.", said + f"The right one passes, {right.n:,} samples, no difference seen."


def _could(seen: Found) -> str:
    if not seen.told:
        return "All texts share one cell here, so nothing can be told."
    return f"A distribution at a distance of {seen.detectable:.2g} would have been detected 99 times in 100."


def _inside(seen: Found) -> str:
    if seen.pooled < 0.2:
        return ""
    return f"{seen.pooled:.0%} of the distribution lies in cells that hold several texts: what moves inside one shows only in `verify`, whose command stands below."


def _unseen(case: Case) -> str:
    tier = case.known.tier if case.known else "sampled"
    return "" if tier == "sampled" else f"It is not caught by sampling, but {TIERS[tier]}."


def _next(trial: Trial) -> str:
    return f"The next look comes at {trial.next_look:,} samples." if trial.next_look else "This was the last look of the plan."


def _game(trial: Trial) -> tuple[str, str]:
    if not trial.drawn.n:
        return "One of these decoders is wrong, or none. Which?", "Sample as much as you like; the first guess counts."
    return (
        f"{trial.drawn.n:,} samples of each. Which one is wrong?",
        "Guess now, or sample on: what looks like sampling noise may be none.",
    )


def _revealed(trial: Trial) -> Verdict:
    case = trial.question
    good = trial.guess == case.answer
    truth = f"decoder {case.answer} is wrong: {case.known.name}" if case.known else "both follow the target’s distribution"
    words = f"{'Right' if good else 'Not so'}: {truth}."
    said = f"You guessed after {trial.guessed_at:,} samples. "
    if case.known:
        said += f"{case.known.wrong} {reported(case.known)} "
        said += _caught(trial)[0] if trial.caught else "The tests have not caught it yet: sample on, and see when they do."
    return Verdict("consistent" if good else "rejected", words, said)


def curve_sentence(curve: Curve, same: int, n: int, hidden: bool) -> str:
    """The sentence of meaning under the curve."""
    if not n:
        return "The distance of a correct decoder falls as 1/sqrt(n), ten times lower with a hundred times the samples; that of a wrong one levels off."
    said = "Sampling noise alone keeps a right decoder’s distance in the grey band 99 times in 100, and the band sinks; the distance of a wrong one stays."
    if not any(right for right, _ in curve.tv) and not hidden:
        said += " Here the right one’s distance is 0 throughout, and has no place on this axis."
    if hidden:
        return said
    if same == n:
        return f"{said} The two wrote the same in all {n:,} samples."
    return f"{said} The two wrote the same in {same:,} of {n:,} samples: a mistake hides in the others."


def speed_sentence(trial: Trial) -> str:
    """The lesson of the second picture."""
    speeds, case = trial.drawn.speeds, trial.question
    counted = f"Counted on {speeds[0].texts} longer texts of each."
    mistake, arm = case.wrong
    if not trial.revealed or not mistake:
        return f"A higher acceptance rate is faster, and says nothing about who is right. {counted}"
    right, wrong = speeds[1 - arm], speeds[arm]
    way = raised(right, wrong)
    if way > 0:
        said = f"The mistake accepts {wrong.share:.0%} of its draft tokens, not {right.share:.0%}: **it looks faster because it is wrong.** "
        return said + f"Higher acceptance is no sign of a better decoder. {counted}"
    if way < 0:
        return f"The mistake accepts fewer draft tokens, {wrong.share:.0%}, not {right.share:.0%}: it is wrong, and slower too. {counted}"
    if wrong.per_pass < 0.95 * right.per_pass:
        return f"It accepts as many draft tokens, yet each target pass writes {wrong.per_pass:.2f} tokens, not {right.per_pass:.2f}. {counted}"
    return f"Both accept about as many draft tokens: speed does not show this mistake. {counted}"


def cells_sentence(trial: Trial) -> str:
    arm = trial.drawn.arms[trial.question.wrong[1]]
    if not arm.outside:
        return "Where the wrong rule’s samples go: so far every bar lies where sampling noise alone would leave it."
    many = len(arm.outside)
    return f"Where the wrong rule’s samples go: {many} of {len(arm.probs)} bars {'lies' if many == 1 else 'lie'} outside what sampling noise explains."


def texts_title(trial: Trial) -> str:
    alike, of = trial.drawn.alike
    if alike == of:
        return f"**Same random numbers, same texts.** In all {of} texts of 16 tokens the two rules wrote the same here."
    return (
        f"**Same text, same random numbers, two rules.** {of - alike} of {of} longer texts differ; here are the first, "
        "with their first different token marked ≠. After it each goes its own way."
    )


def texts_html(case: Case, pairings: tuple[Pairing, ...]) -> str:
    """The texts side by side. Everything that a model or a person wrote is escaped."""
    tail = case.settings.prompt if len(case.settings.prompt) <= TAIL else "… " + case.settings.prompt[-TAIL:].partition(" ")[2]
    rows = []
    for one in pairings:
        for arm, (name, kind) in enumerate(zip(case.names, ("right", "wrong"), strict=True)):
            mark = _marked(one.first[arm], kind) if one.first[0] != one.first[1] else ""
            before = f"<i>{_shown(tail)}</i>{_shown(one.same)}"
            rows.append(f"<p class='{kind}'><span>{one.number} · {name}</span><q>{before}{mark}{_shown(one.rest[arm])}</q></p>")
    return f"<div class='broken-texts'>{''.join(rows)}</div>"


def _marked(token: str, kind: str) -> str:
    """The first different token; its spaces stay before the mark."""
    word = token.lstrip(" ")
    return f"{' ' * (len(token) - len(word))}<b class='{kind}'>≠ {_shown(word) or '(end)'}</b>"


def _shown(text: str) -> str:
    return escape(text.replace("\n", "↵"))


def command(case: Case) -> str:
    """The command that tries the same mistake without the page."""
    settings = case.settings
    parts = [
        "python",
        "-m",
        "specviz",
        "verify",
        *as_options(settings.pair),
    ]
    parts += ["--decoder", case.mistake, "--prompt", settings.prompt, "--seed", str(settings.seed)]
    return shlex.join(parts)
