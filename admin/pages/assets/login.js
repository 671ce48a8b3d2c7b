"use strict";

const form = document.getElementById("login");
const problem = document.getElementById("problem");
const asked = new URLSearchParams(location.search);

// Only a path below /admin: a forged link must not lead to another site after the login.
function next() {
  const home = "/admin/";
  try {
    const place = new URL(asked.get("next") || home, location.origin);
    const isPage = place.pathname.startsWith(home) && place.pathname !== location.pathname;
    return place.origin === location.origin && isPage ? place.pathname + place.search + place.hash : home;
  } catch {
    return home;
  }
}

function tell(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

// After too many failures the button is disabled, and enabled again once the seconds are counted down.
function wait(button, text, seconds) {
  if (seconds <= 0) {
    tell("");
    button.disabled = false;
    return;
  }
  tell(text + " · " + form.dataset.wait.replace("{seconds}", seconds));
  button.disabled = true;
  setTimeout(() => wait(button, text, seconds - 1), 1000);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  tell("");
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch("/api/v1/session", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: form.elements.name.value, password: form.elements.password.value }),
    });
    if (answer.ok) {
      location.replace(next());
      return;
    }
    const found = await answer.json().catch(() => ({}));
    const seconds = Number(answer.headers.get("retry-after"));
    if (answer.status === 429 && seconds > 0) {
      wait(button, found.detail, Math.ceil(seconds));
      return;
    }
    tell([found.detail, found.hint].filter(Boolean).join(" · ") || answer.statusText);
    form.elements.password.select();
  } catch {
    tell(form.dataset.away);
  }
  button.disabled = false;
});

// A link on another site leads here without the session's cookie: somebody may be logged in all the same.
fetch("/api/v1/session")
  .then((answer) => {
    if (answer.ok) location.replace(next());
  })
  .catch(() => {});

// Other ways to log in, when there are any.
fetch("/api/v1/session/methods")
  .then((answer) => (answer.ok ? answer.json() : { items: [] }))
  .then((found) => {
    for (const way of found.items.filter((item) => item.kind !== "password")) {
      const link = document.createElement("a");
      link.href = way.url + "?next=" + encodeURIComponent(next());
      link.textContent = way.label;
      link.className = "pier-other";
      document.getElementById("others").append(link);
    }
  })
  .catch(() => {});

if (asked.has("ended")) {
  const note = document.getElementById("note");
  note.textContent = form.dataset.ended;
  note.hidden = false;
}

const theme = document.documentElement.dataset.theme;
const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.body.classList.toggle("body--dark", isDark);

document.getElementById("language").addEventListener("change", (event) => {
  document.cookie = `bus_language=${event.target.value}; path=/admin; max-age=31536000; samesite=strict`;
  location.reload();
});
