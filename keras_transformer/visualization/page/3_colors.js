// Colors, numbers and texts.
function readColors() {
  const stops = getComputedStyle(root)
    .getPropertyValue("--ramp")
    .split(",")
    .map((stop) => parseInt(stop.trim().slice(1), 16))
    .map((c) => [c >> 16, (c >> 8) & 255, c & 255]);
  colors = Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    return stops[low].map((c, k) =>
      Math.round(c + (place - low) * (stops[low + 1][k] - c)),
    );
  });
  $("ramp").style.background =
    `linear-gradient(90deg, ${stops.map((c) => `rgb(${c})`).join(",")})`;
}

const colorOf = (weight, limit) =>
  colors[Math.min(255, Math.round((255 * weight) / limit))];
const inkOn = ([r, g, b]) =>
  0.299 * r + 0.587 * g + 0.114 * b < 140 ? "#fff" : "#111";
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

/** A token as it is written: white space and control characters are visible. */
function visible(token) {
  if (token === "") return "∅";
  const text = token.replace(
    /[\u0000-\u001f\u007f]/g,
    (c) => `<0x${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}>`,
  );
  return /^ +$/.test(text) ? "␣".repeat(text.length) : text;
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
