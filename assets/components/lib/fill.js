// Sentences of a payload.

/** A sentence with its {places} filled in. */
export function fill(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}
