"use strict";

// Keyboard, palette, preferences and session of the pages; everything that a page shows comes from the server.
(() => {
  const YEAR = 31536000;

  function remember(name, value) {
    document.cookie = `${name}=${value}; path=/admin; max-age=${YEAR}; samesite=strict`;
  }

  function cookie(name) {
    return document.cookie.split("; ").find((part) => part.startsWith(name + "="))?.slice(name.length + 1);
  }

  // The server writes times in the viewer's zone, which it learns here.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  if (cookie("bus_zone") !== zone) {
    remember("bus_zone", zone);
    if (cookie("bus_zone") === zone) location.reload();
  }

  const pier = (window.pier = {
    choose(name, value) {
      remember(name, value);
      location.reload();
    },
    async logOut(csrf) {
      await fetch("/api/v1/session", { method: "DELETE", headers: csrf ? { "x-csrf-token": csrf } : {} });
      location.assign("/admin/login");
    },
    leave() {
      leave();
    },
    palette() {
      openPalette();
    },
    help() {
      document.getElementById("pier-help")?.showModal();
    },
  });

  // What scrolls within the page must be reached by keyboard too.
  function reachScrolling() {
    document.querySelectorAll(".q-table__middle:not([tabindex])").forEach((part) => (part.tabIndex = 0));
  }
  document.addEventListener("DOMContentLoaded", () => {
    reachScrolling();
    new MutationObserver(reachScrolling).observe(document.body, { childList: true, subtree: true });
  });

  // --- the session -----------------------------------------------------------------------------------------

  // A page whose session has ended goes to log in, and comes back; one that shows a secret waits for its reader.
  function leave() {
    const kept = document.querySelector("[data-pier-keep]");
    if (kept) {
      kept.querySelectorAll("[data-pier-ended]").forEach((element) => (element.hidden = false));
      window.socket.disconnect();
      document.getElementById("popup").style.display = "none";
      return;
    }
    const here = location.pathname + location.search + location.hash;
    location.replace("/admin/login?ended=1&next=" + encodeURIComponent(here));
  }

  async function look() {
    const answer = await fetch("/api/v1/session", { cache: "no-store" }).catch(() => null);
    if (answer?.status === 401) leave();
  }

  // What is shown while the bus does not answer is of before: it is dimmed, and a bar says so.
  function tellLost(lost) {
    document.body.classList.toggle("pier-lost", lost);
  }

  const found = setInterval(() => {
    if (!window.socket) return;
    clearInterval(found);
    window.socket.on("connect", () => tellLost(false));
    for (const event of ["disconnect", "connect_error"]) {
      window.socket.on(event, () => {
        tellLost(true);
        look();
      });
    }
  }, 100);

  // While no process answers, the browser shows a page that this worker keeps, and that goes on by itself.
  const worker = document.currentScript.dataset.worker;
  if (worker && navigator.serviceWorker) {
    navigator.serviceWorker.register(worker, { scope: "/admin/" }).catch(() => {});
  }

  function isTyping(target) {
    return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
  }

  function pages() {
    return [...document.querySelectorAll("nav[data-pier-nav] a[href]")].map((link) => ({
      text: link.querySelector("span").textContent.trim(),
      href: link.getAttribute("href"),
      key: link.dataset.key,
    }));
  }

  // --- the palette -----------------------------------------------------------------------------------------

  const MOST = 12;
  let named = [];  // destinations and subscriptions, once they were read
  let readAt = 0;

  function openPalette() {
    const dialog = document.getElementById("pier-palette");
    if (!dialog || dialog.open) return;
    const input = dialog.querySelector("input");
    input.value = "";
    showChoices(dialog, "");
    dialog.showModal();
    input.focus();
    readNames().then(() => dialog.open && showChoices(dialog, input.value));
  }

  async function readNames() {
    if (Date.now() - readAt < 10_000) return;
    readAt = Date.now();
    const [destinations, conditions] = await Promise.all(
      ["/api/v1/destinations", "/api/v1/conditions?limit=5000"].map((path) =>
        fetch(path, { cache: "no-store" }).then((answer) => (answer.ok ? answer.json() : { items: [] }), () => ({ items: [] })),
      ),
    );
    named = [
      ...destinations.items.map(({ code }) => ({ kind: "destination", text: code, href: `/admin/destinations/${code}` })),
      ...conditions.items.map(({ destination, subscription }) => ({
        kind: "subscription",
        text: `${destination} / ${subscription}`,
        href: `/admin/destinations/${destination}/subscriptions/${subscription}`,
      })),
    ];
  }

  // Where a word begins with what was typed comes before where it is inside.
  function rank(text, wanted) {
    const at = text.toLowerCase().indexOf(wanted);
    return at < 0 ? 2 : at === 0 || !/[a-z0-9]/i.test(text[at - 1]) ? 0 : 1;
  }

  function choices(dialog, text) {
    const wanted = text.trim().toLowerCase();
    const actions = JSON.parse(dialog.dataset.actions).map((action) => ({ ...action, kind: "action" }));
    const all = [...pages().map((page) => ({ ...page, kind: "page" })), ...(wanted ? named : []), ...actions];
    const found = all.filter((choice) => rank(choice.text, wanted) < 2);
    found.sort((one, other) => rank(one.text, wanted) - rank(other.text, wanted));
    found.length = Math.min(found.length, MOST);
    if (wanted) {
      const say = dialog.dataset.find.replace("{text}", text.trim());
      found.push({ kind: "find", text: say, href: "/admin/find?ref=" + encodeURIComponent(text.trim()) });
    }
    return found;
  }

  function showChoices(dialog, text) {
    const kinds = JSON.parse(dialog.dataset.kinds);
    dialog.querySelector("ul").replaceChildren(
      ...choices(dialog, text).map((choice, index) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        const kind = document.createElement("small");
        item.role = "presentation";
        link.role = "option";
        link.id = `pier-choice-${index}`;
        link.href = choice.href;
        link.tabIndex = -1;
        link.textContent = choice.text;
        kind.textContent = kinds[choice.kind];
        link.append(kind);
        item.append(link);
        return item;
      }),
    );
    choose(dialog, 0);
  }

  function choose(dialog, index) {
    const links = [...dialog.querySelectorAll("li a")];
    links.forEach((link, place) => {
      link.classList.toggle("pier-chosen", place === index);
      link.setAttribute("aria-selected", String(place === index));
    });
    links[index]?.scrollIntoView({ block: "nearest" });
    dialog.querySelector("input").setAttribute("aria-activedescendant", links[index]?.id ?? "");
  }

  function moveChoice(dialog, step) {
    const links = [...dialog.querySelectorAll("li a")];
    const at = links.findIndex((link) => link.classList.contains("pier-chosen"));
    choose(dialog, (at + step + links.length) % links.length);
  }

  document.addEventListener("input", (event) => {
    const dialog = event.target.closest?.("#pier-palette");
    if (dialog) showChoices(dialog, event.target.value);
  });

  // --- copying ---------------------------------------------------------------------------------------------

  // A browser lets pages copy on TLS and on loopback only; elsewhere the text is selected, to be copied by hand.
  async function copyFrom(source) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      const fold = source.closest("details");
      if (fold) fold.open = true;
      getSelection().selectAllChildren(source);
      return false;
    }
  }

  document.addEventListener("click", async (event) => {
    const one = event.target.closest?.("[data-pier-text]");
    if (one) {
      const done = await navigator.clipboard?.writeText(one.dataset.pierText).then(() => true, () => false);
      if (!done) getSelection().selectAllChildren(one.previousElementSibling ?? one);
      one.classList.add(done ? "pier-copy-done" : "pier-copy-not");
      setTimeout(() => one.classList.remove("pier-copy-done", "pier-copy-not"), 1500);
      return;
    }
    const button = event.target.closest?.("[data-pier-copy]");
    const source = button && document.getElementById(button.dataset.pierCopy);
    if (!source) return;
    const done = await copyFrom(source);
    const said = done ? button.dataset.copied : button.dataset.failed;
    if (said) (button.querySelector("span") ?? button).textContent = said;
  });

  // --- keys ------------------------------------------------------------------------------------------------

  let pending = "";

  function moveRow(step) {
    const rows = [...document.querySelectorAll("main a.pier-row")].filter((link) => link.offsetParent);
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + step))].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // keys of an input method, such as Enter to take a word
    const dialog = document.getElementById("pier-palette");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (dialog?.open) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        moveChoice(dialog, event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter") {
        event.preventDefault();
        dialog.querySelector("a.pier-chosen")?.click();
      }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (pending === "g") {
      pending = "";
      const place = pages().find((found) => found.key === event.key);
      if (place) location.assign(place.href);
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      const box = document.getElementById("pier-find");
      box?.focus();
      box?.select();
    } else if (event.key === "?") {
      pier.help();
    } else if (event.key === "j" || event.key === "k") {
      moveRow(event.key === "j" ? 1 : -1);
    } else if (event.key === "g") {
      pending = "g";
      setTimeout(() => (pending = ""), 1500);
    }
  });
})();
