// Formulas as MathML, which browsers typeset themselves. A formula is written as a line of text, "min(1, p/q)", and read here.

const MATHML = "http://www.w3.org/1998/Math/MathML";

/** A MathML element. */
export function m(tag, ...children) {
  const node = document.createElementNS(MATHML, tag);
  node.append(...children);
  return node;
}

const TOKEN = /\s*([A-Za-z]+|\d+(?:\.\d+)?|[^\sA-Za-z\d])/gy;

/** The words of a formula: names, numbers and signs. */
export function splitFormula(text) {
  return [...text.matchAll(TOKEN)].map(([, word]) => word);
}

/** A formula as a tree: {kind: "name", "number" or "sign", text}, {kind: "fraction", over, under}, {kind: "sub", base, below}, {kind: "row", parts}. */
export function readFormula(text) {
  const words = splitFormula(text);
  let at = 0;
  const row = (end) => {
    const parts = [];
    while (at < words.length && words[at] !== end) {
      const part = atom();
      if (words[at] === "/") {
        at += 1;
        parts.push({ kind: "fraction", over: part, under: atom() });
      } else parts.push(part);
    }
    at += 1;
    return { kind: "row", parts };
  };
  const atom = () => {
    const word = words[at];
    at += 1;
    if (word === "{") return row("}");
    const base = { kind: /^[A-Za-z]/.test(word) ? "name" : /^\d/.test(word) ? "number" : "sign", text: word };
    if (words[at] !== "_") return base;
    at += 1;
    return { kind: "sub", base, below: atom() };
  };
  return row(null);
}

function typeset(tree) {
  switch (tree.kind) {
    case "row": return m("mrow", ...tree.parts.map(typeset));
    case "fraction": return m("mfrac", typeset(tree.over), typeset(tree.under));
    case "sub": return m("msub", typeset(tree.base), typeset(tree.below));
    case "number": return m("mn", tree.text);
    case "name": return m("mi", tree.text);
    default: {
      const sign = m("mo", tree.text);
      if ("()|,".includes(tree.text)) sign.setAttribute("stretchy", "false");
      return sign;
    }
  }
}

/** A formula that stands in a line of text; ``block``: one that stands alone. */
export function makeFormula(text, block = false) {
  const node = m("math", typeset(readFormula(text)));
  if (block) node.setAttribute("display", "block");
  return node;
}

/** A sentence whose formulas stand between dollar signs, as nodes. */
export function withFormulas(sentence) {
  return sentence.split("$").map((part, i) => (i % 2 ? makeFormula(part) : part));
}
