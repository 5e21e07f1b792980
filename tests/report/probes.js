// Questions to a page; each answers with a list of what is wrong, empty when nothing is.

const BLOCKS = "p, li, dt, dd, h1, h2, h3, h4, figcaption, th, td, summary, caption, pre, figure > img, footer";

function label(element) {
  const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
  return `<${element.tagName.toLowerCase()}> ${text}`;
}

function visible(element) {
  return element.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true })
    && element.getClientRects().length > 0;
}

function ownText(element) {
  return [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
}

function beyondTheScreen() {
  const page = document.scrollingElement;
  return page.scrollWidth <= innerWidth ? [] : [`${page.scrollWidth} px on a screen of ${innerWidth}`];
}

function cutBoxes() {
  return [...document.querySelectorAll(".scroll, pre, figure, .answer")]
    .filter(box => visible(box) && box.scrollWidth > box.clientWidth + 1)
    .map(box => `${box.scrollWidth} px in ${box.clientWidth}: ${label(box)}`);
}

function figures() {
  return [...document.querySelectorAll("figure")].filter(visible).map(figure => {
    const box = figure.querySelector("img").getBoundingClientRect();
    return { id: figure.id, width: box.width, height: box.height };
  });
}

function smallText(least) {
  return [...document.querySelectorAll("body *")]
    .filter(element => ownText(element) && visible(element))
    .map(element => [parseFloat(getComputedStyle(element).fontSize), element])
    .filter(([size]) => size < least - 0.01)
    .map(([size, element]) => `${size.toFixed(1)} px: ${label(element)}`);
}

function overlap(one, other) {
  const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
  const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
  return wide > 1.5 && high > 1.5;
}

function overlapping(elements) {
  const found = [];
  const boxes = elements.map(element => [element, element.getBoundingClientRect()]);
  boxes.forEach(([one, box], at) => {
    for (const [other, its] of boxes.slice(at + 1)) {
      if (!one.contains(other) && !other.contains(one) && overlap(box, its)) {
        found.push(`${label(one)} | ${label(other)}`);
      }
    }
  });
  return found;
}

function overlappingBlocks() {
  return overlapping([...document.querySelectorAll(BLOCKS)].filter(visible));
}

function channels(colour) {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
}

function luminance(rgb) {
  const [r, g, b] = rgb.map(each => {
    const part = each / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function background(element) {
  for (let here = element; here; here = here.parentElement) {
    const found = channels(getComputedStyle(here).backgroundColor);
    if (found.alpha === 1) return found.rgb;
  }
  return [255, 255, 255];
}

function faintText(least) {
  return [...document.querySelectorAll("body *")]
    .filter(element => ownText(element) && visible(element))
    .map(element => {
      const ink = channels(getComputedStyle(element).color).rgb;
      const paper = background(element);
      const [light, dark] = [luminance(ink), luminance(paper)].sort((a, b) => b - a);
      return [(light + 0.05) / (dark + 0.05), element];
    })
    .filter(([ratio]) => ratio < least)
    .map(([ratio, element]) => `${ratio.toFixed(2)}: ${label(element)}`);
}

function paper() {
  return getComputedStyle(document.body).backgroundColor;
}

function skippedHeadings() {
  const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map(each => +each.tagName[1]);
  return levels.filter((level, at) => level > (at ? levels[at - 1] : 0) + 1);
}

function unnamed() {
  const cells = [...document.querySelectorAll("th:not([scope])")].map(label);
  const drawings = [...document.querySelectorAll("figure > img")]
    .filter(image => (image.getAttribute("alt") || "").length < 20)
    .map(image => image.parentElement.id);
  const regions = [...document.querySelectorAll("[role=region]:not([aria-label])")].map(label);
  const language = document.documentElement.lang ? [] : ["no language"];
  return [...cells, ...drawings, ...regions, ...language];
}

function doubledIds() {
  const ids = [...document.querySelectorAll("[id]")].map(each => each.id);
  return ids.filter((id, at) => ids.indexOf(id) !== at);
}

function deadLinks() {
  return [...document.querySelectorAll("a[href^='#'], use[href]")]
    .map(each => each.getAttribute("href"))
    .filter(target => !document.getElementById(target.slice(1)));
}

function cellsOutOfSight() {
  const cells = [...document.querySelectorAll("td, th")].filter(visible);
  return cells.filter(each => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(each => each.textContent.trim());
}
