// What becomes of a draft token, also with u moved by hand. The recorded fate is the rule's word; nothing here decides anew.

/** Whether a chip is accepted: the rule's word, or, with u in a person's hand, the side of the threshold it is on. */
export function verdict(chip, drag) {
  if (!drag) return chip?.fate === "accepted";
  if (!chip.ifRejected) return true; // a token that no u can have rejected
  return chip.ifAccepted !== null && drag.u < chip.threshold;
}

/** With u in a person's hand: which chip it is about, whether that is accepted, and whether the record says otherwise. Else null. */
export function whatIf(chip, drag) {
  if (!drag) return null;
  const accepted = verdict(chip, drag);
  return { node: drag.node, accepted, changed: accepted !== (chip.fate === "accepted") };
}

/** How a chip looks at a step: ghost, draft token, or its fate; a moved u overrules what follows from it. */
export function standing(chip, index, step, what) {
  if (step < chip.appears) return "ghost";
  if (what && index === what.node) return what.accepted ? "accepted" : "rejected";
  if (what && index > what.node && what.changed) return what.accepted ? "pending" : "unchecked";
  return step < chip.decided ? "draft" : chip.fate;
}

/** Which parts of the distributions a step shows. */
export function frameOf(kind, ending) {
  const settled = kind === "tally" || kind === "stop" ? (ending?.kind === "residual" ? "draw" : ending?.kind === "bonus" ? "bonus" : "uniform") : kind;
  return {
    kind: settled,
    p: settled !== "draft",
    slab: settled === "look" || settled === "uniform",
    lifted: ["lift", "residual", "draw"].includes(settled),
    landed: ["residual", "draw", "bonus"].includes(settled),
    drawn: ["draw", "bonus"].includes(settled),
    uniforms: settled === "bonus",
  };
}
