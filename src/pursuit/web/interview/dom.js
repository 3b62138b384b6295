// Elements. Texts of a model only ever become text nodes, in the language that is spoken.

import { own } from "./words.js";

/** An element with listeners (onclick), properties of style, attributes and children. */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same inside of a drawing. */
export function s(tag, properties = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const there = children.flat(3).filter(child => child !== null && child !== undefined && child !== false);
  element.append(...there.map(child => (typeof child === "string" ? own(child) : child)));
  return element;
}

/** A bar that is filled to a share; it moves there from another one. */
export function bar(share, from = share) {
  const inner = h("i");
  inner.style.width = `${100 * from}%`;
  if (from !== share) requestAnimationFrame(() => requestAnimationFrame(() => { inner.style.width = `${100 * share}%`; }));
  return h("span", { class: "b", "aria-hidden": "true" }, inner);
}

/** A named bar with its figure: a row of a list. */
export const barRow = (name, figure, share, leads = false, from = share) =>
  h("li", { class: leads ? "leads" : null }, h("span", {}, name), h("em", {}, figure), bar(share, from));

export const button = (text, onclick, more = {}) => h("button", { type: "button", onclick, ...more }, text);
export const quietButton = (text, onclick, more = {}) => button(text, onclick, { class: "quiet", ...more });

/** A key beside what it does. */
export const keyHint = key => h("kbd", { "aria-hidden": "true" }, key);
