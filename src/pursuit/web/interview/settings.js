// What a person chose for the page itself, and remembers where the browser lets it.

const SHARES = "pursuit.";

/** Whether the page is in a frame of another page. */
export const isFramed = globalThis.parent !== globalThis.window;

/** Something kept in the browser, or null: storage may be refused, and the page then begins anew. */
export function kept(name, place = "localStorage") {
  try {
    return globalThis[place].getItem(SHARES + name);
  } catch {
    return null;
  }
}

/** Keep a text, or forget it (null). */
export function keep(name, text, place = "localStorage") {
  try {
    if (text === null) globalThis[place].removeItem(SHARES + name);
    else globalThis[place].setItem(SHARES + name, text);
  } catch {
    // Nothing is remembered, and nothing else changes.
  }
}

const prefersDark = () => matchMedia("(prefers-color-scheme: dark)");

/** "light" or "dark" if somebody chose it, or else "system". */
export const chosenTheme = () => (["light", "dark"].includes(kept("theme")) ? kept("theme") : "system");

export function chooseTheme(theme) {
  keep("theme", theme === "system" ? null : theme);
  showTheme();
}

export const isDark = () => document.documentElement.dataset.theme === "dark";

function showTheme() {
  const theme = chosenTheme();
  document.documentElement.dataset.theme = theme === "system" ? (prefersDark().matches ? "dark" : "light") : theme;
}

/** Show the theme now and whenever the system changes its own. */
export function followTheme() {
  showTheme();
  prefersDark().addEventListener("change", showTheme);
}

/** Whether keys of the keyboard answer. */
export const hasKeys = () => kept("keys") !== "off";

export function setKeys(isOn) {
  keep("keys", isOn ? null : "off");
  showKeys();
}

export function showKeys() {
  document.documentElement.dataset.keys = hasKeys() ? "on" : "off";
}

/** The language to speak: the one chosen, or else the one the page was made for, or else the browser's. */
export function preferredLanguage(available, madeFor = null) {
  const wanted = [kept("language"), madeFor, ...(navigator.languages || []).map(code => code.slice(0, 2))];
  return wanted.find(code => available.includes(code)) || available[0];
}

export const chooseLanguage = code => keep("language", code);
