// The tree of the first questions, as nested lists that fold.

import { bar, h } from "../dom.js";
import { isNoAnswer } from "../answers.js";
import { count, own, percent, say, whole } from "../words.js";

const OPEN_LEVELS = 2;

/** Ranges of numbers as the server names them: the words for them, and which of their ends each has. */
const RANGES = [
  [/^above ([\d-].*), up to (.*)$/, "span", "low", "high"], [/^above ([\d-].*)$/, "above", "low"],
  [/^up to ([\d-].*)$/, "up_to", "high"], [/^([\d-].*) to ([\d-].*)$/, "span", "low", "high"],
];

/** An answer in the page's words, where these have it. */
function answerText(text) {
  if (isNoAnswer(text)) return say("unknown_chip");
  if (own(text) !== text) return text;
  for (const [pattern, key, ...names] of RANGES) {
    const ends = pattern.exec(text);
    if (ends) return say(key, Object.fromEntries(names.map((name, i) => [name, ends[i + 1]])));
  }
  return /^(yes|no)$/i.test(text) ? say(text.toLowerCase()).toLowerCase() : text;
}

function nodeRow(name, node, all) {
  const [first, ...others] = node.leading, share = node.n_rows / all;
  const then = others.filter(one => one.probability >= 0.005).map(one => `${own(String(one.label))} ${percent(one.probability)}`).join(", ");
  const remarks = [then && say("then", { labels: then }), node.n_stopped > 0 && (node.n_stopped === node.n_rows ? say("all_stop") : say("some_stop", { n: whole(node.n_stopped) }))];
  return h("div", { class: "node" }, h("span", {}, name, " ", first ? [h("b", {}, String(first.label)), ` ${percent(first.probability)}`] : h("b", {}, node.number)),
    h("em", {}, `${count("cases", node.n_rows)} (${percent(share)})`), bar(share), remarks.some(Boolean) && h("small", {}, remarks.filter(Boolean).join(" · ")));
}

function branchesOf(node, all, level) {
  return node.questions.map(question => [h("p", { class: "ask" }, question.text),
    h("ul", {}, question.branches.map(({ answer, node: next }) => {
      const row = nodeRow(h("span", { class: "chip" }, answerText(answer)), next, all), below = branchesOf(next, all, level + 1);
      if (!below.length) return h("li", {}, row);
      return h("li", {}, row, level < OPEN_LEVELS ? below : h("details", {}, h("summary", {}, say("what_next")), below));
    }))]);
}

export const questionTree = root => h("div", { class: "tree" }, nodeRow(say("before_first"), root, root.n_rows), branchesOf(root, root.n_rows, 1));
