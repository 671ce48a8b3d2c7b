"use strict";

const form = document.getElementById("login");
const problem = document.getElementById("problem");

// Only a place of these pages: a link must not lead elsewhere after the login.
function next() {
  const wanted = new URLSearchParams(location.search).get("next") || "/admin/";
  const place = new URL(wanted, location.origin);
  return place.origin === location.origin && place.pathname.startsWith("/admin/") ? place.pathname + place.search : "/admin/";
}

function tell(text) {
  problem.textContent = text;
  problem.hidden = !text;
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
    tell([found.detail, found.hint].filter(Boolean).join(" · ") || answer.statusText);
  } catch {
    tell(form.dataset.away);
  } finally {
    button.disabled = false;
  }
});

// Other ways to log in, when there are any.
fetch("/api/v1/session/methods")
  .then((answer) => (answer.ok ? answer.json() : {}))
  .then((found) => {
    if (!found.oidc) return;
    const link = document.createElement("a");
    link.href = found.oidc.url + "?next=" + encodeURIComponent(next());
    link.textContent = found.oidc.label;
    link.className = "pier-other";
    document.getElementById("others").append(link);
  })
  .catch(() => {});

document.getElementById("language").addEventListener("change", (event) => {
  document.cookie = `bus_language=${event.target.value}; path=/admin; max-age=31536000; samesite=strict`;
  location.reload();
});
