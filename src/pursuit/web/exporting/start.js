// The exported page: it begins the interview once everything is there.

import { startWholePage } from "../interview/whole_page.js";
import { say } from "../interview/words.js";
import { BrowserEngine } from "./engine.js";
import { withWeights } from "./mathematics.js";

function startPage({ model: described, words, weights }) {
  const { title, interview: presentation, language } = described;
  const outcome = { is_number: Boolean(described.target), n_labels: described.labels.length };
  startWholePage(new BrowserEngine(withWeights(described, weights)), { title, outcome, footnote: () => say("made_with"), presentation, words, language });
}

startPage(globalThis.exportedPage);
