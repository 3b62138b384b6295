// A long list that is searched by typing.

import { h } from "./dom.js";
import { say, spokenLanguage } from "./words.js";

export const N_LISTED = 12; // before somebody types
export const N_KEYS = 9; // of the items have a key of their own

const fold = text => text.toLocaleLowerCase(spokenLanguage()).normalize("NFD").replace(/\p{Diacritic}/gu, "");

/** A field and the list below it, of items {text, make(key)}. */
export function searchable(items, label) {
  const list = h("div", { class: "choices" }), folded = items.map(item => fold(item.text));
  const found = h("p", { class: "unseen", role: "status" });
  const fill = text => {
    const word = fold(text.trim());
    // what begins with the word comes before what merely has it
    const fitting = items.filter((_, i) => folded[i].startsWith(word)).concat(items.filter((_, i) => folded[i].indexOf(word) > 0));
    const rows = fitting.slice(0, N_LISTED).map((item, i) => item.make(!text && i < N_KEYS ? String(i + 1) : null));
    if (!fitting.length) rows.push(h("p", { class: "lead" }, say("nothing_found")));
    if (fitting.length > N_LISTED) rows.push(h("p", { class: "lead small" }, say("more_choices", { n: fitting.length - N_LISTED })));
    list.replaceChildren(...rows);
    found.textContent = text ? (fitting.length ? say("found", { n: fitting.length }) : say("nothing_found")) : "";
  };
  const input = h("input", { type: "search", placeholder: say("search"), "aria-label": label, autocomplete: "off", "data-search": true,
    oninput: () => fill(input.value),
    onkeydown: event => { if (event.key === "Enter" && input.value) list.querySelector("button")?.click(); } });
  fill("");
  return h("div", { class: "searchable" }, input, list, found);
}
