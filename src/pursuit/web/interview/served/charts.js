// Drawings of a few numbers, in the colours of the page.

import { h, s } from "../dom.js";
import { percent, say } from "../words.js";

const WIDTH = 420, HEIGHT = 230, LEFT = 50, RIGHT = 16, TOP = 14, BOTTOM = 34;
const across = share => LEFT + share * (WIDTH - LEFT - RIGHT);
const up = share => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);

const line = (x1, y1, x2, y2, name) => s("line", { x1, y1, x2, y2, class: name });
const words = (x, y, text, anchor) => s("text", { x, y, "text-anchor": anchor }, text);

const curve = (values, place) => s("path", { d: values.map((value, n) => `${n ? "L" : "M"}${place(n).toFixed(1)} ${up(Math.max(0, value)).toFixed(1)}`).join(""), class: "curve" });

/** A drawing with shares from 0 to 1 upwards, and what stands below and beside it. */
function frame(title, below, parts) {
  const grid = [0, 0.25, 0.5, 0.75, 1].map(share => [line(across(0), up(share), across(1), up(share), "axis"), words(LEFT - 8, up(share) + 4, percent(share), "end")]);
  const [first, last] = below;
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, class: "chart" }, grid, parts,
    words(across(0), HEIGHT - 10, first, "start"), words(across(1), HEIGHT - 10, last, "end"));
}

/** How often sessions were right so far, day by day. */
export function accuracyChart(points, dates) {
  const n = points.length, place = i => across(n === 1 ? 0.5 : i / (n - 1));
  const last = points.at(-1);
  return frame(say("accuracy_drawn", { n: last.so_far_n, right: percent(last.so_far_accuracy) }), n === 1 ? [dates[0], ""] : [dates[0], dates.at(-1)],
    [curve(points.map(point => point.so_far_accuracy), place), points.map((point, i) => s("circle", { cx: place(i), cy: up(point.so_far_accuracy), r: 4, class: "dot" },
      s("title", {}, `${dates[i]}: ${percent(point.so_far_accuracy)} (${point.so_far_right}/${point.so_far_n})`)))]);
}

/** How often a model is right for each level of how sure it is. */
export function reliabilityChart(bins) {
  const most = Math.max(...bins.map(bin => bin.n_rows)), width = (across(1) - across(0)) / 22;
  return frame(say("reliability_drawn"), [percent(0), percent(1)], [
    bins.map(bin => s("rect", { class: "column", x: across(bin.confidence) - width / 2, width, y: up(0.3 * bin.n_rows / most), height: up(0) - up(0.3 * bin.n_rows / most) })),
    line(across(0), up(0), across(1), up(1), "guide"),
    bins.map(bin => [line(across(bin.confidence), up(bin.accuracy_interval[0]), across(bin.confidence), up(bin.accuracy_interval[1]), "whisker"),
      s("circle", { class: "dot", cx: across(bin.confidence), cy: up(bin.accuracy), r: 4.5 }, s("title", {}, `${percent(bin.confidence)} → ${percent(bin.accuracy)}`))])]);
}

/** How often a model is right after so many questions. */
export function curveChart(values, mark) {
  const place = n => across(values.length === 1 ? 0 : n / (values.length - 1));
  return frame(say("curve_drawn", { first: percent(Math.max(0, values[0])), last: percent(Math.max(0, values.at(-1))) }), ["0", String(values.length - 1)], [curve(values, place),
    mark && [line(place(mark.asked), up(0), place(mark.asked), up(1), "guide"), s("circle", { class: "dot", cx: place(mark.asked), cy: up(mark.right), r: 6 })]]);
}

export const figure = (drawing, caption) => h("figure", {}, drawing, h("figcaption", { class: "lead small" }, caption));
