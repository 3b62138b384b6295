// Opens a page in a document that is just enough of one, does what standard input says ({page, steps, stored}), and
// prints what is shown after each step, and what the browser keeps in the end. A step is {click: text}, {key},
// {type: text} or {chip: number of an answer}.
"use strict";
const fs = require("fs");
const { page, steps, stored = {} } = JSON.parse(fs.readFileSync(0, "utf8"));
const html = fs.readFileSync(page, "utf8");

class Node_ {
  constructor(tag) { Object.assign(this, { tagName: tag.toUpperCase(), children: [], attributes: {}, listeners: {}, style: {}, dataset: {}, value: "" }); }
  setAttribute(name, value) { this.attributes[name] = String(value); if (name === "value") this.value = String(value); }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(name, act) { (this.listeners[name] ||= []).push(act); }
  append(...parts) { for (const part of parts) this.children.push(part instanceof Node_ ? part : String(part)); }
  replaceChildren(...parts) { this.children = []; this.append(...parts); }
  get firstChild() { return this.children[0]; }
  get textContent() { return this.children.map(child => (child instanceof Node_ ? child.textContent : child)).join(""); }
  set textContent(text) { this.children = [String(text)]; }
  focus() { document.activeElement = this; }
  click() { this.fire("click", {}); }
  fire(name, event) { for (const act of this.listeners[name] || []) act({ target: this, preventDefault() {}, ...event }); }
  all() { return this.children.filter(child => child instanceof Node_).flatMap(child => [child, ...child.all()]); }
  matches(selector) {
    const [, tag, name, value] = selector.match(/^([a-z0-9]*)(?:\[([\w-]+)(?:="?([^"\]]*)"?)?\])?$/);
    return (!tag || this.tagName === tag.toUpperCase()) && (!name || (value === undefined ? name in this.attributes : this.attributes[name] === value));
  }
  querySelector(selector) { return this.all().find(one => one.matches(selector.split(" ").at(-1))) || null; }
}

const ids = {};
for (const id of ["head", "main", "spoken", "page", "weights"]) ids[id] = new Node_(id === "main" ? "main" : "div");
for (const id of ["page", "weights"]) ids[id].textContent = html.split(`id="${id}">`)[1].split("</script>")[0];
const document = new Node_("document");
document.append(...Object.values(ids));
document.getElementById = id => ids[id];
document.createElement = document.createElementNS = (...names) => new Node_(names.at(-1));
document.documentElement = new Node_("html");
document.body = new Node_("body");
document.body.append = script => new Function(script.textContent)();
document.activeElement = null;
const sessionStorage = { getItem: key => stored[key] ?? null, setItem: (key, value) => { stored[key] = value; }, removeItem: key => { delete stored[key]; } };
Object.assign(globalThis, { document, sessionStorage, matchMedia: () => ({ matches: true, addEventListener() {} }), requestAnimationFrame: act => act(), scrollTo() {}, print() {} });
Object.defineProperty(globalThis, "navigator", { value: { languages: ["fr", "en"] }, configurable: true });

new Function(html.split("<script>")[1].split("</script>")[0])();

const main = ids.main, find = test => main.all().find(test);
function act(step) {
  if (step.click) {
    const button = [...main.all(), ...ids.head.all()].find(one => one.tagName === "BUTTON" && one.textContent.replace(/^[0-9]/, "").includes(step.click));
    if (!button) throw new Error(`There is no button "${step.click}" among: ${main.all().filter(one => one.tagName === "BUTTON").map(one => one.textContent).join(" | ")}`);
    button.click();
  } else if (step.key) document.fire("keydown", { key: step.key, target: main });
  else if (step.type !== undefined) {
    const input = find(one => one.tagName === "INPUT" && one.attributes.type !== "range");
    input.value = step.type;
    input.fire("input", {});
    input.fire("keydown", { key: "Enter" });
  } else if (step.chip !== undefined) main.all().filter(one => (one.attributes.class || "").startsWith("chip"))[step.chip].click();
}

const state = () => ({
  heading: main.querySelector("h1").textContent,
  focused: document.activeElement === main.querySelector("h1"),
  buttons: main.all().filter(one => one.tagName === "BUTTON").map(one => one.textContent),
  bars: main.all().filter(one => one.tagName === "LI").map(one => one.textContent),
  text: main.textContent, head: ids.head.textContent, spoken: ids.spoken.textContent,
  theme: document.documentElement.dataset.theme, lang: document.documentElement.lang, tags: [...new Set(main.all().map(one => one.tagName))],
});

const pause = milliseconds => new Promise(done => { setTimeout(done, milliseconds); });

(async () => {
  for (let i = 0; i < 100 && !main.querySelector("h1"); i++) await pause(10);
  const shown = [state()];
  for (const step of steps) { act(step); await pause(1); await pause(1); shown.push(state()); }
  process.stdout.write(JSON.stringify({ shown, stored }));
})();
