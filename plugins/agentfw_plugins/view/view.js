"use strict";
// Shows what is new while a run goes on, unless somebody is reading or typing: then the page stays as it is.
const main = document.getElementById("main");
async function renewed() {
  const fresh = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || part.matches(":focus-within") || "typed" in part.dataset) continue;
    const open = new Map([...part.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
    for (const one of other.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = open.get(one.id);
    part.replaceChildren(...other.childNodes);
  }
  main.dataset.watch = fresh.getElementById("main").dataset.watch || "";
}
if (main.dataset.watch) {
  document.addEventListener("input", (event) => { (event.target.closest("[data-live]") ?? main).dataset.typed = ""; });
  let seen = JSON.stringify(JSON.parse(main.dataset.seen));
  const look = async () => {
    try {
      if (!document.hidden && main.dataset.watch && getSelection().isCollapsed) {
        const now = JSON.stringify(await (await fetch(main.dataset.watch)).json());
        if (now !== seen) { await renewed(); seen = now; }
      }
    } catch { /* the server has ended: what is shown stays */ }
    setTimeout(look, 700);
  };
  setTimeout(look, 700);
}
// What is chosen from a list of the filter is shown at once.
document.addEventListener("change", (event) => { if (event.target.matches("#filter select")) event.target.form.requestSubmit(); });
// What nobody has changed here isn't sent: somebody else may have changed it meanwhile.
document.addEventListener("formdata", (event) => {
  for (const one of event.target.querySelectorAll("textarea"))
    if (one.value === one.defaultValue) event.formData.delete(one.name);
});
// The exact prompt: the messages that a turn was shown, in their order. Each is in the page once.
document.addEventListener("toggle", (event) => {
  const prompt = event.target;
  if (!prompt.open || !prompt.dataset || !prompt.dataset.messages) return;
  const parts = prompt.dataset.messages.split(" ").map((place) => {
    const told = document.getElementById(`message-${place}`), shown = document.createElement("div");
    shown.className = "message";
    shown.append(...(told ? told.cloneNode(true).childNodes : [`message ${place}`]));
    shown.querySelectorAll("details").forEach((one) => { one.open = true; });
    return shown;
  });
  prompt.replaceChildren(prompt.firstElementChild, ...parts);
  delete prompt.dataset.messages;
}, true);
// What scrolls can be reached by keys.
function reachable() {
  for (const one of document.querySelectorAll("pre, .read-as, .scroll, .recalled"))
    if (one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1) one.tabIndex = 0;
}
reachable();
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true);
// The tokens of a turn, the unlikely ones in the stronger of five colours.
document.addEventListener("toggle", (event) => {
  for (const line of event.target.querySelectorAll?.(":scope > [data-texts]") ?? []) {
    const ids = line.dataset.ids.split(" "), logprobs = line.dataset.logprobs.split(" ");
    line.replaceChildren(...JSON.parse(line.dataset.texts).map((text, place) => {
      const token = document.createElement("span"), logprob = logprobs[place] ?? "";
      token.textContent = text;
      token.title = logprob ? `${ids[place]}, ${logprob}` : ids[place];
      if (logprob) token.className = `t${[-0.05, -0.3, -0.7, -1.4, -3].filter((step) => logprob < step).length}`;
      return token;
    }));
    delete line.dataset.texts;
  }
}, true);
// A page in a folder: the table is searched here.
const search = document.querySelector("input[data-rows]");
search?.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(".episodes tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
// Keys for what has one: they press, follow or go to it.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const one = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!one) return;
  event.preventDefault();
  if (one.matches("input, textarea")) one.focus(); else one.click();
});
