// The exported page: it begins the interview once everything is there.

import { showHeader } from "../interview/header.js";
import { Interview } from "../interview/interview.js";
import { listenToKeys } from "../interview/keys.js";
import { showColour } from "../interview/presentation.js";
import { followTheme, preferredLanguage, showKeys } from "../interview/settings.js";
import { say, speak, translate } from "../interview/words.js";
import { BrowserEngine } from "./engine.js";
import { withWeights } from "./mathematics.js";

function startPage({ model: described, words, weights }) {
  const [head, main, spoken] = ["head", "main", "spoken"].map(id => document.getElementById(id));
  const engine = new BrowserEngine(withWeights(described, weights));
  const startOver = () => { engine.restart(); interview.begin(); };
  const interview = new Interview(engine, main, spoken, { startOver, presentation: described.interview, reportUrl: () => null, footnote: () => say("made_with") });

  const speakNow = () => {
    const code = preferredLanguage(Object.keys(words), described.language);
    speak(code, words[code], Object.keys(words));
  };
  const showHead = isMenuOpen => {
    const subtitle = described.interview.title ? "" : described.target ? say("subtitle_number") : say("subtitle", { n: described.labels.length });
    const redraw = isOpen => { speakNow(); showHead(isOpen); interview.render(); if (isOpen) head.querySelector("summary").focus(); };
    showHeader(head, { title: described.title, logo: described.interview.logo, subtitle, links: [[say("start_over"), startOver]] }, redraw, isMenuOpen);
  };

  translate(described.interview.languages);
  followTheme();
  showColour(described.interview.colour);
  showKeys();
  speakNow();
  showHead(false);
  listenToKeys();
  interview.begin();
}

startPage(globalThis.exportedPage);
