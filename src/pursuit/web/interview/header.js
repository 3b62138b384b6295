// The top of every page: where one is, where one may go, and how the page should be.

import { button, h, quietButton } from "./dom.js";
import { chooseLanguage, chooseTheme, chosenTheme, hasKeys, isDark, setKeys } from "./settings.js";
import { languageNames, say, spokenLanguage } from "./words.js";

/** A group of buttons of which one is on. */
function options(title, values, current, choose) {
  const buttons = values.map(([value, text, lang]) => button(text, () => choose(value), { class: "option", lang, "aria-pressed": String(value === current) }));
  return h("fieldset", {}, h("legend", {}, title), h("div", { class: "options" }, buttons));
}

const linkTo = ([text, act], name) => (typeof act === "string" ? h("a", { class: name, href: act }, text) : quietButton(text, act));

function settingsMenu(links, redraw) {
  const again = act => value => { act(value); redraw(true); };
  const places = links.filter(([, act]) => typeof act === "string").map(link => linkTo(link, "place"));
  return [
    places.length > 0 && h("div", { class: "places" }, places), // what has no room at the top of a phone
    options(say("theme"), ["system", "light", "dark"].map(theme => [theme, say(`theme_${theme}`)]), chosenTheme(), again(chooseTheme)),
    options(say("keys"), [[true, say("on")], [false, say("off")]], hasKeys(), again(setKeys)),
    options(say("language"), languageNames().map(([code, name]) => [code, name, code]), spokenLanguage(), again(chooseLanguage)),
    h("p", { class: "lead small" }, say("keys_help")),
  ];
}

/** Fill the header: {title, logo, home, subtitle, links: [[text, act or address]]}; `redraw` shows the page again after a
 *  setting was changed. */
export function showHeader(element, { title, logo = "", home = null, subtitle = "", links = [] }, redraw, isMenuOpen = false) {
  const menu = h("details", { class: "menu", open: isMenuOpen, onkeydown: event => { if (event.key === "Escape") { menu.removeAttribute("open"); menu.querySelector("summary").focus(); } } },
    h("summary", { class: "quiet", "aria-label": say("settings"), title: say("settings") }, "⋯"), h("div", { class: "panel" }, settingsMenu(links, redraw)));
  element.replaceChildren(...[logo && h("img", { class: "logo", src: logo, alt: "" }),
    home ? h("a", { class: "home", href: home, title: say("all_models") }, title) : h("b", {}, title), h("span", {}, subtitle),
    h("nav", { "aria-label": say("menu") },
      links.map(link => linkTo(link, "quiet")),
      quietButton("◐", () => { chooseTheme(isDark() ? "light" : "dark"); redraw(false); }, { "aria-label": say("switch_theme"), title: say("switch_theme") }), menu)].filter(Boolean));
}
