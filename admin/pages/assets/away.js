"use strict";

// Runs in the browser, between it and the bus: while no process answers, a page of the bus says so, and goes on by
// itself. Nothing else is kept here; what people look at always comes from the bus.
const KEPT = "pier-away";
const LANGUAGE = new URL(self.location).searchParams.get("language") ?? "en";
const HERE = new URL("./", self.location).pathname;
const PAGE = `${HERE}away.html?language=${LANGUAGE}`;
const FILES = [PAGE, `${HERE}pier.css`, `${HERE}waiting.js`];
const AWAY = [502, 503, 504];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((cache) => cache.addAll(FILES)));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function pageOf(request) {
  const answer = await fetch(request).catch(() => null);
  if (answer && !AWAY.includes(answer.status)) return answer;
  return (await caches.match(PAGE)) ?? answer ?? Response.error();
}

self.addEventListener("fetch", (event) => {
  const path = new URL(event.request.url).pathname;
  if (event.request.mode === "navigate") event.respondWith(pageOf(event.request));
  else if (FILES.includes(path)) event.respondWith(caches.match(path).then((kept) => kept ?? fetch(event.request)));
});
