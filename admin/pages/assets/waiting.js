"use strict";

// Of the page that is shown while no process of the bus answers: the page that was wanted comes once one does.
const EVERY = 1000;

async function look() {
  const answer = await fetch("/healthz", { cache: "no-store" }).catch(() => null);
  if (answer?.ok) location.reload();
  else setTimeout(look, EVERY);
}

setTimeout(look, EVERY);
