// The page in the frame of a notebook's cell: it shows the interview, and Python computes it.

import { startWholePage } from "../interview/whole_page.js";

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

startWholePage(new KernelEngine(), { ...globalThis.framedPage, footnote: () => "" });
new ResizeObserver(() => parent.postMessage({ height: document.documentElement.offsetHeight }, "*")).observe(document.documentElement);
