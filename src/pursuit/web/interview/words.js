// The page's own words, and how numbers, shares and dates are written in its language.

let dictionary = {};
let language = "en";
let languages = ["en"];

/** Speak a language from now on: its code, its words by key, and the codes of all languages there are. */
export function speak(code, words, available) {
  [language, dictionary, languages] = [code, words, available];
  document.documentElement.lang = code;
}

let translations = {};

/** Know what texts of the interview itself (questions, choices, labels, units) are in other languages: by code, by text. */
export function translate(byLanguage) { translations = byLanguage || {}; }

/** A text of the interview in the language that is spoken, or as it is. */
export function own(text) {
  const words = translations[language];
  return words && Object.hasOwn(words, text) ? words[text] : text;
}

export const spokenLanguage = () => language;

/** All languages there are: [code, its own name]. */
export const languageNames = () => languages.map(code => [code, new Intl.DisplayNames([code], { type: "language" }).of(code)]);

/** A sentence of the page, with {values} filled in. */
export const say = (key, values = {}) => dictionary[key].replace(/\{(\w+)\}/g, (_, name) => own(String(values[name])));

/** A sentence that is another one for a single thing: `key_one` beside `key`. */
export const count = (key, n) => say(n === 1 ? `${key}_one` : key, { n: whole(n) });

export const fixed = (number, digits) =>
  number.toLocaleString(language, { maximumFractionDigits: digits, useGrouping: false });

/** A number by its first two digits that are not zero. */
export const roughly = number => number.toLocaleString(language, { maximumSignificantDigits: 2, useGrouping: false });

export const whole = number => number.toLocaleString(language, { maximumFractionDigits: 0 });

/** A number with all its digits, as somebody would type it. */
export const typed = number => (Math.abs(number) >= 1e12 ? String(number)
  : number.toLocaleString(language, { maximumSignificantDigits: 9, useGrouping: false }));

export function percent(p) {
  const format = new Intl.NumberFormat(language, { style: "percent" });
  if (p > 0 && p < 0.005) return `<${format.format(0.01)}`;
  return p < 1 && p > 0.995 ? `>${format.format(0.99)}` : format.format(p);
}

export function bitsText(bits) {
  const text = fixed(bits, Math.abs(bits) < 0.095 ? 3 : 2);
  return text === "1" ? say("bits_one") : say("bits", { n: text });
}

const STRONG = 0.7, SOME = 0.2, NOTHING = 0.005; // bits

/** How much an answer weighs, in a word: strong, some, little or none. */
export function weightWord(bits) {
  const size = Math.abs(bits);
  return size >= STRONG ? "strong" : size >= SOME ? "some" : size >= NOTHING ? "little" : "none";
}

/** The same as the length of a bar, from 0 to 1. */
export const weightShare = bits => 1 - 2 ** -Math.abs(bits);

const DAY = 86400000;

/** The date of a number of days since 1970, as fields of a form have it. */
export const isoDate = (days, hasTime) =>
  new Date(Math.round(days * 1440) * 60000).toISOString().slice(0, hasTime ? 16 : 10);

/** The days since 1970 of such a date; NaN if it is none. */
export const daysOf = text => (text ? Date.parse(text.includes("T") ? `${text}Z` : `${text}T00:00Z`) / DAY : NaN);

/** How this person's own region writes the language: dates differ between the British and the Americans. */
const region = () => (navigator.languages || []).find(code => code.slice(0, 2) === language) || language;

/** When something happened, on this person's clock. */
export const momentText = iso => new Date(iso).toLocaleString(region(), { dateStyle: "medium", timeStyle: "short" });

/** A day, which is the same everywhere. */
export const dayText = iso => new Date(`${iso}T00:00Z`).toLocaleDateString(region(), { timeZone: "UTC", dateStyle: "medium" });
