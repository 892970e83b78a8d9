// What becomes of a draft token, also with u moved by hand. The recorded fate is the rule's word; nothing here decides anew.

/** Whether a chip is kept: the rule's word, or, with u in a person's hand, the side of the threshold it is on. */
export function verdict(chip, drag) {
  if (!drag) return chip?.fate === "kept";
  if (!chip.ifRefused) return true; // a token that no u can have rejected
  return chip.ifKept !== null && drag.u < chip.threshold;
}

/** With u in a person's hand: which chip it is about, whether that is kept, and whether the record says otherwise. Else null. */
export function whatIf(chip, drag) {
  if (!drag) return null;
  const kept = verdict(chip, drag);
  return { node: drag.node, kept, changed: kept !== (chip.fate === "kept") };
}

/** How a chip looks at a motion: ghost, draft token, or its fate; a moved u overrules what follows from it. */
export function standing(chip, index, motion, what) {
  if (motion < chip.appears) return "ghost";
  if (what && index === what.node) return what.kept ? "kept" : "refused";
  if (what && index > what.node && what.changed) return what.kept ? "pending" : "never";
  return motion < chip.decided ? "draft" : chip.fate;
}

/** Which parts of the distributions a motion shows. */
export function frameOf(kind, ending) {
  const settled = kind === "tally" || kind === "stop" ? (ending?.kind === "residual" ? "draw" : ending?.kind === "bonus" ? "bonus" : "coin") : kind;
  return {
    kind: settled,
    p: settled !== "draft",
    slab: settled === "look" || settled === "coin",
    lifted: ["lift", "residual", "draw"].includes(settled),
    landed: ["residual", "draw", "bonus"].includes(settled),
    drawn: ["draw", "bonus"].includes(settled),
    coins: settled === "bonus",
  };
}
