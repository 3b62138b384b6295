// Opens a page in a document that is just enough of one, does what standard input says ({page, steps}), and prints what
// is shown after each step. A step is {click: text}, {key}, {type: text} or {chip: number of an answer}.
"use strict";
const fs = require("fs");
const { page, steps } = JSON.parse(fs.readFileSync(0, "utf8"));
const html = fs.readFileSync(page, "utf8");

class Node_ {
  constructor(tag) { Object.assign(this, { tagName: tag.toUpperCase(), children: [], attributes: {}, listeners: {}, style: {}, dataset: {}, value: "" }); }
  setAttribute(name, value) { this.attributes[name] = String(value); if (name === "value") this.value = String(value); }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(name, act) { (this.listeners[name] ||= []).push(act); }
  append(...parts) { for (const part of parts) this.children.push(part instanceof Node_ ? part : String(part)); }
  replaceChildren(...parts) { this.children = []; this.append(...parts); }
  remove() { this.removed = true; }
  get firstChild() { return this.children[0]; }
  get textContent() { return this.children.map(child => (child instanceof Node_ ? child.textContent : child)).join(""); }
  set textContent(text) { this.children = [String(text)]; }
  focus() { document.activeElement = this; }
  click() { this.fire("click", {}); }
  fire(name, event) { for (const act of this.listeners[name] || []) act({ target: this, preventDefault() {}, ...event }); }
  all() { return this.children.filter(child => child instanceof Node_).flatMap(child => [child, ...child.all()]); }
  matches(selector) {
    const [, tag, name, value] = selector.match(/^([a-z0-9]*)(?:\[([\w-]+)="?([^"\]]*)"?\])?$/);
    return (!tag || this.tagName === tag.toUpperCase()) && (!name || this.attributes[name] === value);
  }
  querySelector(selector) { return this.all().find(one => one.matches(selector.split(" ").at(-1))) || null; }
}

const ids = {};
for (const id of ["head", "main", "spoken", "words", "model", "weights"]) ids[id] = new Node_(id === "main" ? "main" : "div");
for (const id of ["words", "model", "weights"]) ids[id].textContent = html.split(`id="${id}">`)[1].split("</script>")[0];
const document = new Node_("document");
document.append(...Object.values(ids));
document.getElementById = id => ids[id];
document.createElement = tag => new Node_(tag);
document.documentElement = new Node_("html");
document.documentElement.lang = html.match(/<html lang="(\w+)">/)[1];
document.activeElement = null;
Object.assign(globalThis, { document, matchMedia: () => ({ matches: true, addEventListener() {} }), requestAnimationFrame: act => act(), scrollTo() {}, print() {} });

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
  } else if (step.chip !== undefined) main.all().filter(one => (one.className || "").startsWith("chip"))[step.chip].click();
}

const state = () => ({
  heading: main.querySelector("h1").textContent,
  focused: document.activeElement === main.querySelector("h1"),
  buttons: main.all().filter(one => one.tagName === "BUTTON").map(one => one.textContent),
  bars: main.all().filter(one => one.tagName === "LI").map(one => one.textContent),
  text: main.textContent, head: ids.head.textContent, spoken: ids.spoken.textContent,
  theme: document.documentElement.dataset.theme, tags: [...new Set(main.all().map(one => one.tagName))],
});

setTimeout(() => {
  const shown = [state()];
  for (const step of steps) { act(step); shown.push(state()); }
  process.stdout.write(JSON.stringify(shown));
}, 300);
