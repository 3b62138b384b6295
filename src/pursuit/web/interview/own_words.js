// What a person says in their own words, and what that may mean: each proposal is confirmed or not, one by one.

import { button, h } from "./dom.js";
import { say } from "./words.js";

/** A field for a sentence and, once something was said, the proposals. */
export function ownWords(view, acts) {
  const field = h("textarea", { id: "own-words", rows: "2", maxlength: "2000", autocomplete: "off" });
  field.value = view.text || "";
  const form = h("form", { class: "own-words", onsubmit: event => { event.preventDefault(); if (field.value.trim()) acts.suggest(field.value); } },
    h("label", { for: "own-words" }, say("own_words")), field, h("button", { class: "chip", type: "submit" }, say("own_words_read")));
  return [form, view.suggestions && proposals(view.suggestions, acts)].filter(Boolean);
}

function proposals(suggestions, acts) {
  if (!suggestions.length) return h("p", { class: "lead", role: "status" }, say("own_words_nothing"));
  return h("section", { "aria-label": say("own_words_ask") }, h("p", { class: "lead", role: "status" }, say("own_words_ask")),
    h("ul", { class: "chain" }, suggestions.map(one => h("li", { class: "wide" },
      h("span", {}, one.text, " ", h("b", {}, String(one.answer)), h("small", {}, ` “${one.words}”`)),
      h("span", {}, button(say("own_words_right"), () => acts.confirm(one), { class: "chip" }), " ",
        button(say("own_words_wrong"), () => acts.deny(one), { class: "chip" }))))));
}
