// A text for somewhere else.

import { h } from "../lib/dom.js";

/** Puts a text into the clipboard; returns whether the browser let it. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // a page without a secure context
    const field = h("textarea", { readonly: "" });
    Object.assign(field.style, { position: "fixed", opacity: "0" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
