"use strict";
// Draws the figures of the page, in the colours of the page, which follow the reader's choice of light or dark.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const colours = () => ({
    "font.color": colour("--text"),
    "xaxis.gridcolor": colour("--line"),
    "yaxis.gridcolor": colour("--line"),
    "hoverlabel.bgcolor": colour("--card"),
    "hoverlabel.font.color": colour("--text"),
  });

  const paint = (place) => {
    const drawn = place.layout.shapes?.length ? { "shapes[0].line.color": colour("--limit"), "annotations[0].font.color": colour("--limit") } : {};
    return Plotly.relayout(place, { ...colours(), ...drawn });
  };

  const drawn = Object.entries(figures).map(([id, figure]) => {
    const place = document.getElementById(id);
    return Plotly.newPlot(place, figure.data, figure.layout, config).then(() => paint(place));
  });
  Promise.all(drawn).then(() => document.documentElement.setAttribute("data-drawn", String(drawn.length)));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const id of Object.keys(figures)) paint(document.getElementById(id));
  });

  for (const button of document.querySelectorAll("button[data-range]")) {
    button.addEventListener("click", () => {
      const top = figures.memory.layout.meta[button.dataset.range];
      Plotly.relayout("memory", { "yaxis.range": [0, top] });
    });
  }
})();
