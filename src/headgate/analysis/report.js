"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const LOG = ", logarithmic";
  const hidden = new Set();
  let printing = false;

  // Names come from files: Plotly would read them as markup.
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (series) => style(`--c${data.series[series].colour}`);
  const dash = (series) => DASHES[data.series[series].dash];
  const narrow = () => window.innerWidth < 550;

  function faded(hex, alpha) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  }

  function axis(title) {
    return {
      title: { text: title, font: { size: 12, color: style("--soft") }, standoff: 10 },
      gridcolor: style("--hair"),
      linecolor: style("--hair"),
      tickfont: { size: 11.5, color: style("--soft") },
      zeroline: false,
      automargin: true,
    };
  }

  // 1, 2, 5, 10 over few powers of ten, the powers alone over many.
  function logarithmic(axis, values) {
    const ends = values.filter((value) => value > 0).map(Math.log10);
    const powers = ends.reduce((a, b) => Math.max(a, b), -Infinity) - ends.reduce((a, b) => Math.min(a, b), Infinity);
    Object.assign(axis, { type: "log", dtick: powers < 3 ? "D2" : 1, minorloglabels: "complete" });
  }

  // There is no round 2.5.
  function wholeRounds(axis, rounds) {
    if (rounds.reduce((a, b) => Math.max(a, b), 0) <= 10) axis.dtick = 1;
  }

  function frame(node, x, y) {
    const size = printing ? { width: node.closest(".wide") ? 670 : 322, height: node.closest(".wide") ? 250 : 215 } : {};
    return {
      ...size,
      autosize: !printing,
      margin: { l: 52, r: 12, t: 12, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: style("--ink") },
      hoverlabel: { bgcolor: style("--page"), bordercolor: style("--hair"), font: { color: style("--ink"), size: 12.5 }, align: "left", namelength: 40 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--soft"), activecolor: style("--ink") },
      showlegend: false,
      dragmode: narrow() ? false : "zoom", // a finger scrolls the page
      xaxis: axis(x),
      yaxis: axis(y),
      uirevision: "kept", // zoom survives a change of policies or colours
    };
  }

  // A band, as its lower edge and the filled way up to its upper edge, then the mean on top of it.
  function traces(panel, curve) {
    const x = curve.x || curve.t;
    const own = { legendgroup: String(curve.series), type: "scatter", mode: "lines", visible: !hidden.has(curve.series) };
    const line = {
      ...own,
      x,
      y: curve.mean,
      name: escape(data.series[curve.series].name),
      line: { color: colour(curve.series), width: 2, dash: dash(curve.series) },
      customdata: curve.t.map((t, i) => [t, curve.half && curve.half[i] !== null ? curve.half[i] : null]),
      hovertemplate: template(panel, curve),
    };
    if (curve.t.length === 1) line.mode = "markers";
    if (!curve.half) return [line];
    const edge = { ...own, x, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    const at = (sign) => curve.mean.map((mean, i) => bounded(panel, mean, mean + sign * (curve.half[i] || 0)));
    return [
      { ...edge, y: at(-1) },
      { ...edge, y: at(1), fill: "tonexty", fillcolor: faded(colour(curve.series), 0.16) },
      line,
    ];
  }

  // An interval may leave what can be: nothing here is negative, no accuracy is above 100 %.
  function bounded(panel, mean, value) {
    const low = panel.log ? mean / 10 : 0;
    const high = panel.key.startsWith("accuracy") ? 100 : Infinity;
    return Math.min(Math.max(value, low), high);
  }

  function template(panel, curve) {
    const unit = panel.key.startsWith("accuracy") ? " %" : "";
    const spread = curve.half ? ` ± %{customdata[1]:${panel.digits}}` : "";
    const value = `%{y:${panel.digits}}${spread}${unit}`;
    if (!curve.x) return value;
    return `<b>%{fullData.name}</b><br>${value}<br>money %{x:,.0f}, round %{customdata[0]}<extra></extra>`;
  }

  function level(one) {
    const across = one.axis === "y";
    const line = { color: style("--ink"), width: 1.2, dash: "dash" };
    const shape = across
      ? { type: "line", xref: "paper", x0: 0, x1: 1, y0: one.value, y1: one.value, line }
      : { type: "line", yref: "paper", y0: 0, y1: 1, x0: one.value, x1: one.value, line };
    return shape;
  }

  function label(panel, one) {
    const own = { text: escape(one.text), showarrow: false, font: { size: 11.5, color: style("--ink") }, bgcolor: faded(style("--page"), 0.75) };
    if (one.axis === "x") return { ...own, x: panel.log_x ? Math.log10(one.value) : one.value, yref: "paper", y: 0.02, xanchor: "right", yanchor: "bottom", textangle: -90 };
    const y = panel.log ? Math.log10(one.value) : one.value;
    return { ...own, xref: "paper", x: 1, y, xanchor: "right", yanchor: "bottom" };
  }

  function drawPanel(node) {
    const panel = data.panels.find((one) => one.key === node.dataset.panel);
    const layout = frame(node, panel.x + (panel.log_x ? LOG : ""), panel.y + (panel.log ? LOG : ""));
    node.style.height = printing ? `${layout.height}px` : "";
    const byRound = panel.curves.every((curve) => !curve.x);
    layout.hovermode = byRound ? "x unified" : "closest";
    layout.xaxis.unifiedhovertitle = { text: "round %{x:,d}" };
    layout.xaxis.showgrid = !byRound;
    if (byRound) wholeRounds(layout.xaxis, panel.curves.map((curve) => curve.t[curve.t.length - 1]));
    if (panel.log_x) logarithmic(layout.xaxis, panel.curves.flatMap((curve) => curve.x || curve.t));
    if (panel.log) logarithmic(layout.yaxis, panel.curves.flatMap((curve) => curve.mean));
    const levels = panel.levels.filter((one) => one.value > 0 || !(one.axis === "x" ? panel.log_x : panel.log));
    layout.shapes = levels.map(level);
    layout.annotations = levels.map((one) => label(panel, one));
    return Plotly.react(node, panel.curves.flatMap((curve) => traces(panel, curve)), layout, settings(panel.title));
  }

  function drawHeat(node) {
    const heat = data.heats[Number(document.getElementById("heat-policy").value)];
    document.querySelector(".chosen").textContent = data.series[heat.series].name;
    const layout = frame(node, "Round", "Client");
    if (!printing) layout.height = Math.min(Math.max(21 * heat.clients.length + 90, 260), 620);
    node.style.height = `${layout.height}px`;
    const beside = !narrow() || printing;
    layout.yaxis = { ...layout.yaxis, type: "category", autorange: "reversed", showgrid: false };
    layout.xaxis.showgrid = false;
    layout.margin.t = 30; // room for the tools above the scale
    wholeRounds(layout.xaxis, heat.rounds);
    layout.hovermode = "closest";
    const trace = {
      type: "heatmap",
      x: heat.rounds,
      y: heat.clients,
      z: heat.ratio,
      zmin: 0,
      zmax: 2,
      customdata: heat.ratio.map((row, m) => row.map((r) => [r === null ? null : r * heat.buffers[m], heat.buffers[m]])),
      hovertemplate: "client %{y}, round %{x}<br>holds %{customdata[0]:,.4~g} of %{customdata[1]:,.4~g}, %{z:.0%}<extra></extra>",
      colorscale: [[0, style("--c0")], [0.5, style("--full")], [1, style("--c1")]],
      colorbar: {
        orientation: beside ? "v" : "h",
        thickness: 11,
        outlinewidth: 0,
        len: beside ? 1 : 0.9,
        ...(beside ? {} : { y: -0.22, yanchor: "top" }),
        tickvals: [0, 0.5, 1, 1.5, 2],
        ticktext: ["empty", "half", "full", "1.5×", "2× or more"],
        tickfont: { size: 11.5, color: style("--soft") },
      },
    };
    if (!beside) layout.margin.b = 90;
    return Plotly.react(node, [trace], layout, settings("Buffers"));
  }

  function settings(title) {
    const save = {
      name: "save",
      title: "Save as PNG",
      icon: Plotly.Icons.camera,
      click: (node) => saveImage(node, title),
    };
    return { responsive: true, displaylogo: false, modeBarButtons: [[save, "zoom2d", "pan2d", "resetScale2d"]] };
  }

  // Outside the page a figure needs its title and its legend.
  async function saveImage(node, title) {
    const layout = {
      ...node.layout,
      title: { text: title, x: 0.02, font: { size: 15 } },
      showlegend: true,
      legend: { orientation: "h", y: -0.25 },
      paper_bgcolor: style("--page"),
      margin: { ...node.layout.margin, t: 48, b: 110 },
    };
    const link = document.createElement("a");
    link.href = await Plotly.toImage({ data: node.data, layout }, { format: "png", width: 900, height: 560, scale: 2 });
    link.download = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.png`;
    link.click();
  }

  function draw() {
    document.querySelectorAll(".plot[data-panel]").forEach(drawPanel);
    const heat = document.getElementById("heat");
    if (heat) drawHeat(heat);
  }

  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  }

  const button = document.getElementById("theme");
  function showTheme() {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark()));
    button.setAttribute("aria-label", dark() ? "Change to light colours" : "Change to dark colours");
  }

  // #dark and #light in the address choose too, for a link or a screenshot.
  function followAddress() {
    const asked = location.hash.slice(1);
    if (asked === "dark" || asked === "light") root.dataset.theme = asked;
  }

  const legend = [...document.querySelectorAll(".legend button")];
  function showLegend() {
    for (const one of legend) one.setAttribute("aria-pressed", String(!hidden.has(Number(one.dataset.series))));
    draw();
  }
  for (const one of legend) {
    const series = Number(one.dataset.series);
    one.addEventListener("click", () => {
      if (!hidden.delete(series)) hidden.add(series);
      showLegend();
    });
    one.addEventListener("dblclick", () => {
      const alone = hidden.size === legend.length - 1 && !hidden.has(series);
      hidden.clear();
      if (!alone) legend.forEach((other) => other !== one && hidden.add(Number(other.dataset.series)));
      showLegend();
    });
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    showTheme();
    draw();
  });
  system.addEventListener("change", () => { showTheme(); draw(); });
  window.addEventListener("hashchange", () => { followAddress(); showTheme(); draw(); });
  const chooser = document.getElementById("heat-policy");
  if (chooser) chooser.addEventListener("change", () => drawHeat(document.getElementById("heat")));

  // Paper is white and narrow.
  let before = "";
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme || "";
    root.dataset.theme = "light";
    printing = true;
    draw();
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    printing = false;
    draw();
  });

  let wasNarrow = narrow();
  window.addEventListener("resize", () => {
    if (!printing && narrow() !== wasNarrow) {
      wasNarrow = narrow();
      draw();
    }
  });

  followAddress();
  showTheme();
  draw();
})();
