// Whether a draft token (a chip) is shown as accepted or rejected. The decision is the recorded one; only a u that a visitor has
// moved is compared again, with the recorded threshold.

/** Whether a chip is accepted: as recorded, or, while a visitor moves u, whether u is below the recorded threshold. */
export function isAccepted(chip, drag) {
  if (!drag) return chip?.status === "accepted";
  if (!chip.ifRejected) return true; // accepted whatever u is
  return chip.ifAccepted !== null && drag.u < chip.threshold;
}

/** While a visitor moves u: its chip, whether the chip is accepted, and whether this differs from the record. Else null. */
export function compareMoved(chip, drag) {
  if (!drag) return null;
  const accepted = isAccepted(chip, drag);
  return { node: drag.node, accepted, changed: accepted !== (chip.status === "accepted") };
}

/** The state of a chip at a step: ghost, draft, or its status. A moved u changes its own chip and those after it. */
export function getChipState(chip, index, step, what) {
  if (step < chip.appears) return "ghost";
  if (what && index === what.node) return what.accepted ? "accepted" : "rejected";
  if (what && index > what.node && what.changed) return what.accepted ? "pending" : "unchecked";
  return step < chip.decided ? "draft" : chip.status;
}

/** Which parts of the distributions a step shows; ``drafted``: how many draft tokens the round has. */
export function describeFrame(kind, ending, drafted = 1) {
  const settled = kind === "stop" ? (ending?.kind === "residual" ? "draw" : ending?.kind === "bonus" ? "bonus" : "uniform") : kind;
  return {
    kind: settled,
    chain: settled === "tally",
    mask: settled === "pass" && drafted > 0,
    p: settled !== "draft",
    slab: settled === "look" || settled === "uniform",
    lifted: ["lift", "residual", "draw"].includes(settled),
    landed: ["residual", "draw", "bonus"].includes(settled),
    drawn: ["draw", "bonus"].includes(settled),
    uniforms: settled === "bonus",
  };
}
