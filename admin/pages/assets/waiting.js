"use strict";

// Of the page that is shown while no process of the bus answers for the one that was wanted: that comes once one does.
// What the bus says of a part that is away is told meanwhile.
const EVERY = 1000;
const AWAY = [502, 503, 504];

const ask = (method) =>
  fetch(location.href, { method, cache: "no-store", redirect: "manual" }).catch(() => null);

async function tell() {
  const found = await (await ask("GET"))?.json().catch(() => null);
  if (!found?.detail) return;
  const heading = document.querySelector("h1");
  heading.textContent = heading.dataset.part;
  document.getElementById("pier-look").textContent = found.detail;
}

async function look() {
  const answer = await ask("HEAD"); // of a page it costs the bus nothing
  if (answer && !AWAY.includes(answer.status)) {
    location.reload();
    return;
  }
  if (answer?.headers.get("content-type")?.startsWith("application/problem+json")) await tell();
  setTimeout(look, EVERY);
}

setTimeout(look, EVERY);
