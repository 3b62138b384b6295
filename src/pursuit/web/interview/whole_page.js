// A page that has an interview and nothing else: the exported file, and the frame in a notebook.

import { showHeader } from "./header.js";
import { Interview } from "./interview.js";
import { listenToKeys } from "./keys.js";
import { showColour, subtitleText } from "./presentation.js";
import { followTheme, preferredLanguage, showKeys } from "./settings.js";
import { say, speak, translate } from "./words.js";

/** Start the interview of an engine. `outcome` describes what is predicted, {is_number, n_labels}; `footnote` returns its text
 *  in the language of the page. */
export function startWholePage(engine, { title, outcome, footnote, presentation, words, language }) {
  const [head, main, spoken] = ["head", "main", "spoken"].map(id => document.getElementById(id));
  const startOver = async () => { await engine.restart(); interview.begin(); };
  const interview = new Interview(engine, main, spoken, { startOver, presentation, reportUrl: () => null, footnote });

  const speakNow = () => {
    const code = preferredLanguage(Object.keys(words), language);
    speak(code, words[code], Object.keys(words));
  };
  const showHead = isMenuOpen => {
    const redraw = isOpen => { speakNow(); showHead(isOpen); interview.render(); if (isOpen) head.querySelector("summary").focus(); };
    showHeader(head, { title, logo: presentation.logo, subtitle: subtitleText(presentation, outcome), links: [[say("start_over"), startOver]] }, redraw, isMenuOpen);
  };

  translate(presentation.languages);
  followTheme();
  showColour(presentation.colour);
  showKeys();
  speakNow();
  showHead(false);
  listenToKeys();
  interview.begin();
}
