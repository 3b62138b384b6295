// Keys of the keyboard: each presses the button that carries it.

import { hasKeys } from "./settings.js";

const ALSO = { w: "?", W: "?", S: "s" };

const isField = element => /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName || "");

/** Listen for keys as long as the page is open. */
export function listenToKeys() {
  document.addEventListener("keydown", event => {
    if (!hasKeys() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isField(event.target) && event.key !== "Escape") return;
    if (/^[0-9.,-]$/.test(event.key)) {
      const field = document.querySelector("main [data-number]");
      if (field) return field.focus(); // and the key goes there
    }
    if (event.key === "/") {
      const field = document.querySelector("main [data-search]");
      if (!field) return;
      field.focus();
    } else {
      const selector = /^d$/i.test(event.key) ? "[data-unsure]" : `[data-key="${ALSO[event.key] || event.key}"]`;
      const button = /^([0-9?dswDSW]|Escape|Backspace)$/.test(event.key) && document.querySelector(`main ${selector}`);
      if (!button) return;
      button.click();
    }
    event.preventDefault();
  });
}
