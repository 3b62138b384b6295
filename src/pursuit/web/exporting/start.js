// The exported page: it begins the interview once everything is there.

import { startWholePage } from "../interview/whole_page.js";
import { say } from "../interview/words.js";
import { BrowserEngine } from "./engine.js";
import { withWeights } from "./mathematics.js";

function startPage({ model: described, words, weights }) {
  const { title, interview: presentation, language } = described;
  const subtitle = () => (presentation.title ? "" : described.target ? say("subtitle_number") : say("subtitle", { n: described.labels.length }));
  startWholePage(new BrowserEngine(withWeights(described, weights)), { title, subtitle, footnote: () => say("made_with"), presentation, words, language });
}

startPage(globalThis.exportedPage);
