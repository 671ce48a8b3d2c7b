// Draws the diagrams of a page. Where scripts do not run, or from a file on disk, their text is shown.
const found = document.querySelectorAll("pre.diagram");
if (found.length) {
  const { mermaid } = await import("./mermaid/index.js");
  const isDark = document.body.getAttribute("data-md-color-scheme") === "slate";
  mermaid.initialize({ startOnLoad: false, theme: isDark ? "dark" : "neutral", fontFamily: "inherit" });
  for (const block of found) {
    const drawing = document.createElement("div");
    drawing.className = "drawing";
    drawing.textContent = block.textContent;
    block.replaceWith(drawing);
    await mermaid.run({ nodes: [drawing] });
  }
}
