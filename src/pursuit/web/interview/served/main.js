// The pages of the server: which one is shown follows from the address.

import { button, h } from "../dom.js";
import { showHeader } from "../header.js";
import { listenToKeys } from "../keys.js";
import { followTheme, isFramed, preferredLanguage, showKeys } from "../settings.js";
import { say, speak, spokenLanguage } from "../words.js";
import { aboutPage } from "./about.js";
import { get, problemText } from "./api.js";
import { interviewPage } from "./interviewing.js";
import { modelsPage } from "./models.js";
import { sessionsPage } from "./sessions.js";
import { tokenPage } from "./token.js";

const [head, main, spoken] = ["head", "main", "spoken"].map(id => document.getElementById(id));
// A browser keeps no cookie of a frame in a page of another site, and so it finds none of its sessions there.
const isListing = document.documentElement.dataset.lists !== "no" && !isFramed; // whether past sessions are listed
const languages = document.documentElement.dataset.languages.split(" ");

// In a frame of another page: say how high the interview is, so that the frame can be.
if (isFramed) new ResizeObserver(() => parent.postMessage({ pursuitHeight: document.documentElement.offsetHeight }, "*")).observe(document.documentElement);

async function speakPreferred() {
  const code = preferredLanguage(languages);
  speak(code, await get(`/assets/${code}.json`), languages);
}

/** The parts of an address: [all of it, the page, which model or session]. */
const partsOf = path => path.match(/^\/(m|s|about|sessions|operator)?(?:\/(.+))?$/) || [];

/** What is said of a page that is not there. */
const MISSING = { m: "no_such_model", s: "no_such_session", about: "no_such_model", sessions: "no_list", operator: "no_operator" };

/** The page of an address. */
function pageAt(path) {
  const [, place, id] = partsOf(path);
  if (place === "sessions") return shell => sessionsPage(shell);
  if (place === "operator") return shell => sessionsPage(shell, true);
  if (place === "about") return shell => aboutPage(shell, decodeURIComponent(id));
  if (place === "m") return shell => interviewPage(shell, { model: decodeURIComponent(id) });
  if (place === "s") return shell => interviewPage(shell, { id: decodeURIComponent(id) });
  return shell => modelsPage(shell, isListing);
}

/** What pages share: where they show themselves, their header, and what to do if something goes wrong. */
const shell = {
  main, spoken, about: { title: "pursuit" }, redraw: () => {},
  setHeader(about, redraw) {
    Object.assign(this, { about, redraw });
    document.title = about.title === "pursuit" ? "pursuit" : `${about.title} · pursuit`;
    this.showHeader(false);
  },
  showHeader(isMenuOpen) {
    const { title, logo, subtitle, links = () => [] } = this.about;
    const own = { title, logo, home: "/", subtitle: subtitle ? subtitle() : "", links: [...links(), ...(location.pathname === "/sessions" || !isListing ? [] : [[say("past_sessions"), "/sessions"]])] };
    showHeader(head, own, isOpen => this.changed(isOpen), isMenuOpen);
    if (isMenuOpen) head.querySelector("summary").focus();
  },
  async changed(isMenuOpen) {
    if (preferredLanguage(languages) !== spokenLanguage()) await speakPreferred();
    this.showHeader(isMenuOpen);
    this.redraw();
  },
  /** Show a sentence in place of a page that cannot be shown. */
  fail(problem) {
    if (!problem.isLost && problem.message === undefined) throw problem;
    if (problem.status === 401) return tokenPage(this);
    main.className = "wide";
    main.replaceChildren(h("section", {}, h("h1", { tabindex: "-1" }, problemText(problem)),
      h("div", { class: "actions" }, (problem.isLost || !problem.message) && button(say("try_again"), () => location.reload(), { class: "first" }), h("a", { class: "button", href: "/" }, say("all_models")))));
    return main.querySelector("h1").focus();
  },
};

followTheme();
showKeys();
listenToKeys();
speakPreferred().then(() => {
  shell.setHeader({ title: "pursuit" }, () => {});
  if (document.documentElement.dataset.missing) throw { message: say("nothing_here") };
  return pageAt(location.pathname)(shell);
}).catch(problem => {
  const missing = problem.status === 404 && MISSING[partsOf(location.pathname)[1]];
  shell.fail(missing ? { ...problem, message: say(missing) } : problem);
});
