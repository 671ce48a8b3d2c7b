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

  const found = setInterval(() => {
    if (!window.socket) return;
    clearInterval(found);
    window.socket.on("disconnect", look);
    window.socket.on("connect_error", look);
  }, 100);

  function isTyping(target) {
    return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
  }

  function destinations() {
    return [...document.querySelectorAll("nav[data-pier-nav] a[href]")].map((link) => ({
      text: link.textContent.trim(),
      href: link.getAttribute("href"),
      key: link.dataset.key,
    }));
  }

  // --- the palette -----------------------------------------------------------------------------------------

  function openPalette() {
    const dialog = document.getElementById("pier-palette");
    if (!dialog || dialog.open) return;
    const input = dialog.querySelector("input");
    input.value = "";
    showChoices(dialog, "");
    dialog.showModal();
    input.focus();
  }

  function choices(text) {
    const wanted = text.trim().toLowerCase();
    const found = destinations().filter((place) => place.text.toLowerCase().includes(wanted));
    const dialog = document.getElementById("pier-palette");
    if (wanted) {
      const say = dialog.dataset.find.replace("{text}", text.trim());
      found.push({ text: say, href: "/admin/find?ref=" + encodeURIComponent(text.trim()) });
    }
    return found;
  }

  function showChoices(dialog, text) {
    const list = dialog.querySelector("ul");
    list.replaceChildren(
      ...choices(text).map((choice, index) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = choice.href;
        link.textContent = choice.text;
        link.className = index === 0 ? "pier-chosen" : "";
        item.append(link);
        return item;
      }),
    );
  }

  function moveChoice(dialog, step) {
    const links = [...dialog.querySelectorAll("li a")];
    const at = links.findIndex((link) => link.classList.contains("pier-chosen"));
    links[at]?.classList.remove("pier-chosen");
    links[(at + step + links.length) % links.length]?.classList.add("pier-chosen");
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
      const place = destinations().find((found) => found.key === event.key);
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
