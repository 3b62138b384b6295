// A picture that is revealed patch by patch, with the next patch outlined.

import { button, h, keyHint, s } from "./dom.js";
import { count, say } from "./words.js";

const box = ({ row, column, size }, name) => s("rect", { class: name, x: column, y: row, width: size, height: size });

/** Where in a picture a patch lies, as a small drawing. */
export const patchMap = ({ width, height }, patch) =>
  s("svg", { class: "patch", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, box(patch, "next"));

/** The picture as far as it is revealed. */
export function pictureFigure(state, url) {
  const { width, height, n_revealed: n } = state.image, next = state.question?.patch;
  const seen = state.answers.filter(entry => entry.kind === "answer" && entry.question.patch && entry.value !== null);
  const text = n === 0 ? say("picture_none") : count(state.done ? "picture_done" : "picture_so_far", n);
  return h("figure", { class: "picture" },
    h("div", { class: "layers" }, h("img", { src: url, alt: text, width, height }),
      s("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none" },
        seen.map(({ question }) => box(question.patch, "seen")), next && box(next, "next"))),
    h("figcaption", { class: "lead small" }, text));
}

/** The picture and the button that reveals the patch that is outlined. */
export const pictureBlock = (state, url, reveal) => h("div", { class: "choices" }, pictureFigure(state, url),
  button([keyHint("1"), say("reveal")], reveal, { class: "first", "data-key": "1", "aria-keyshortcuts": "1" }));
