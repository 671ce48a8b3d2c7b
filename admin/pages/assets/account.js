"use strict";

// One's own password goes from the browser to the API, and never through the page's socket: the answer's cookie is the
// new session's.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest?.("#pier-password");
  if (!form) return;
  event.preventDefault();
  const problem = form.querySelector("[role=alert]");
  const button = form.querySelector("button");
  const fields = form.elements;

  function tell(text, field) {
    problem.textContent = text;
    problem.hidden = !text;
    for (const input of form.querySelectorAll("input")) input.removeAttribute("aria-invalid");
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  }

  if (fields.password.value !== fields.again.value) {
    tell(form.dataset.differ, fields.again);
    return;
  }
  tell("");
  button.disabled = true;
  try {
    const answer = await fetch("/api/v1/session/password", {
      method: "PUT",
      headers: { "content-type": "application/json", "x-csrf-token": form.dataset.csrf },
      body: JSON.stringify({ current_password: fields.current_password.value, password: fields.password.value }),
    });
    if (answer.ok) {
      location.replace("/admin/account?changed=1");
      return;
    }
    if (answer.status === 401) {
      window.pier.leave();
      return;
    }
    const found = await answer.json().catch(() => ({}));
    const seconds = answer.headers.get("retry-after");
    const wait = seconds ? form.dataset.wait.replace("{seconds}", seconds) : "";
    tell([found.detail, wait || found.hint].filter(Boolean).join(" · ") || answer.statusText, fields[found.field]);
  } catch {
    tell(form.dataset.away);
  } finally {
    button.disabled = false;
  }
});
