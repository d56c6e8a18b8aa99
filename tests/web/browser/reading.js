// What keeps somebody from reading a page: controls without a name, pictures without words, pale text, sideways scrolling.
() => {
  const wrong = [];
  const seen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !node.closest(".unseen, .skip, [aria-hidden=true]");
  const where = (node) => `${node.tagName.toLowerCase()}.${node.className?.baseVal ?? node.className} “${(node.textContent || "").trim().slice(0, 30)}”`;
  const named = (node) => node.getAttribute("aria-label") || (node.getAttribute("aria-labelledby") && document.getElementById(node.getAttribute("aria-labelledby"))?.textContent) || [...(node.labels || [])].map((label) => label.textContent).join("") || node.textContent.trim();
  for (const node of document.querySelectorAll("a[href], button, input, select, textarea, summary, [role=region], [role=group], fieldset")) {
    if (seen(node) && !named(node)) wrong.push(`no name: ${where(node)}`);
  }
  for (const node of document.querySelectorAll("[role=img], img, canvas")) {
    if (seen(node) && !named(node)) wrong.push(`no words for a picture: ${where(node)}`);
  }
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(seen).map((node) => Number(node.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) wrong.push(`headings of level 1: ${levels}`);
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) wrong.push(`a heading jumps: ${levels}`); });
  const ids = [...document.querySelectorAll("[id]")].filter((node) => !node.closest("svg")).map((node) => node.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) wrong.push(`the id ${id} is there twice`);

  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = (node) => (node ? over(rgba(getComputedStyle(node).backgroundColor), ground(node.parentElement)) : [255, 255, 255, 1]);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.textContent.trim() || !seen(node) || node.closest("svg, :disabled, noscript, script, style, option, .outdated")) continue;
    const style = getComputedStyle(node);
    const under = ground(node);
    const [a, b] = [light(over(rgba(style.color), under)), light(under)].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) wrong.push(`pale, ${((a + 0.05) / (b + 0.05)).toFixed(2)}: ${where(node)}`);
  }
  const sideways = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (sideways > 0) wrong.push(`scrolls sideways by ${sideways}`);
  return wrong;
}
