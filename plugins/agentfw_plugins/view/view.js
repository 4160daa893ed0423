"use strict";
// Shows what is new while a run goes on, unless somebody is reading: then the page stays as it is.
const news = document.querySelector("#news[data-news]");
async function renewed() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("news");
  const open = new Map([...news.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  for (const one of fresh.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = open.get(one.id);
  news.replaceChildren(...fresh.childNodes);
  news.dataset.news = fresh.dataset.news;
}
if (news && news.dataset.news && location.protocol.startsWith("http")) {
  let known = null;
  setInterval(async () => {
    if (document.hidden || !news.dataset.news || !getSelection().isCollapsed) return;
    try {
      const { generation } = await (await fetch(news.dataset.from)).json();
      if (known === null) known = Number(news.dataset.news) || generation;
      if (generation !== known) { known = generation; await renewed(); }
    } catch { /* the server has ended: what is shown stays */ }
  }, 1500);
}
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
// A page in a folder: the table is searched here.
const search = document.querySelector("input[data-rows]");
search?.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(".episodes tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
