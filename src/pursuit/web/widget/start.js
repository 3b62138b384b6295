// The page in the frame of a notebook's cell: it shows the interview, and Python computes it.

import { showHeader } from "../interview/header.js";
import { Interview } from "../interview/interview.js";
import { listenToKeys } from "../interview/keys.js";
import { showColour } from "../interview/presentation.js";
import { followTheme, preferredLanguage, showKeys } from "../interview/settings.js";
import { say, speak, translate } from "../interview/words.js";

/** The engine of an interview that Python computes. The widget around the frame carries what both say. */
class KernelEngine {
  constructor() {
    this.waiting = new Map();
    this.n = 0;
    addEventListener("message", ({ source, data }) => {
      if (source !== parent || !this.waiting.has(data.id)) return;
      const { done, failed } = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (data.problem) failed(data.problem);
      else done(data.found);
    });
  }

  call(what, more = {}) {
    const id = ++this.n;
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed });
      parent.postMessage({ id, what, ...more }, "*");
    });
  }

  state() { return this.call("state"); }
  why() { return this.call("why"); }
  question(name) { return this.call("question", { query: name }); }
  tell(value, { query, confirmed = false } = {}) { return this.call("tell", { answer: value, query, confirmed }); }
  change(query, value, { confirmed = false } = {}) { return this.call("change", { query, answer: value, confirmed }); }
  skip() { return this.call("skip"); }
  undo() { return this.call("undo"); }
  reject() { return this.call("reject"); }
  takeBackRejection(label) { return this.call("take_back_rejection", { label }); }
  goOn() { return this.call("go_on"); }
  accept() { return this.call("accept"); }
  restart() { return this.call("restart"); }
}

function startFrame({ title, subtitle, presentation, words, language }) {
  const [head, main, spoken] = ["head", "main", "spoken"].map(id => document.getElementById(id));
  const engine = new KernelEngine();
  const startOver = async () => { await engine.restart(); interview.begin(); };
  const interview = new Interview(engine, main, spoken, { startOver, presentation, reportUrl: () => null, footnote: () => "" });
  const speakNow = () => {
    const code = preferredLanguage(Object.keys(words), language);
    speak(code, words[code], Object.keys(words));
  };
  const showHead = isMenuOpen => {
    const redraw = isOpen => { speakNow(); showHead(isOpen); interview.render(); if (isOpen) head.querySelector("summary").focus(); };
    showHeader(head, { title, logo: presentation.logo, subtitle: subtitle === null ? "" : say(...subtitle), links: [[say("start_over"), startOver]] }, redraw, isMenuOpen);
  };
  translate(presentation.languages);
  followTheme();
  showColour(presentation.colour);
  showKeys();
  speakNow();
  showHead(false);
  listenToKeys();
  interview.begin();
  new ResizeObserver(() => parent.postMessage({ height: document.documentElement.offsetHeight }, "*")).observe(document.documentElement);
}

startFrame(globalThis.framedPage);
