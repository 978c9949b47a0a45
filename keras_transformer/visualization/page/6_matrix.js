// The heat map of the chosen head.
const canvas = $("matrix");
const pen = canvas.getContext("2d");
const base = document.createElement("canvas");
let plan = null;

function clip(text, room) {
  if (pen.measureText(text).width <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + "…").width <= room) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}

function planMatrix() {
  const rows = tokensOf(shown(), "query").map(visible);
  const columns = tokensOf(shown(), "key").map(visible);
  const width = Math.max(200, $("holder").clientWidth - 8);
  pen.font = `12px ${FONT}`;
  const longest = (texts) =>
    Math.ceil(Math.max(...texts.map((text) => pen.measureText(text).width)));
  // Where not every token can be written, those that are may be shortened.
  const dense = width < 14 * columns.length;
  const left = Math.min(longest(rows) + 10, Math.max(70, (dense ? 0.16 : 0.32) * width));
  const text = Math.min(longest(columns), dense ? 90 : 170);
  const fit = (room) =>
    Math.min(44, room / columns.length, Math.max(4, 620 / rows.length));
  const over = Math.max(2, 0.71 * text - 4); // by which the last slanted label sticks out
  const [straight, slanted] = [fit(width - left - 2), fit(width - left - over)];
  let [cell, angle, top] = [straight, 90, text + 12];
  if (longest(columns) + 6 <= straight) [angle, top] = [0, 22];
  else if (slanted >= 19) [cell, angle, top] = [slanted, 45, 0.71 * text + 18];
  cell = Math.max(2, cell);
  return {
    rows,
    columns,
    left,
    top: Math.ceil(top),
    angle,
    text,
    cell,
    step: Math.ceil(13 / cell),
    width: Math.ceil(left + cell * columns.length + (angle === 45 ? over : 2)),
    height: Math.ceil(top + cell * rows.length + 3),
  };
}

function picture(values, height, width, limit) {
  const image = new ImageData(width, height);
  for (let i = 0; i < values.length; i++) {
    const [r, g, b] = colorOf(values[i], limit);
    image.data.set([r, g, b, 255], 4 * i);
  }
  return image;
}

function drawMatrix() {
  plan = planMatrix();
  const ratio = window.devicePixelRatio || 1;
  for (const one of [canvas, base]) {
    one.width = Math.round(plan.width * ratio);
    one.height = Math.round(plan.height * ratio);
  }
  canvas.style.width = `${plan.width}px`;
  canvas.style.height = `${plan.height}px`;
  const small = document.createElement("canvas");
  [small.width, small.height] = [plan.columns.length, plan.rows.length];
  small
    .getContext("2d")
    .putImageData(picture(weights, small.height, small.width, lastColor), 0, 0);
  const ink = base.getContext("2d");
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.clearRect(0, 0, plan.width, plan.height);
  ink.imageSmoothingEnabled = false;
  const [w, h] = [plan.cell * plan.columns.length, plan.cell * plan.rows.length];
  ink.drawImage(small, plan.left, plan.top, w, h);
  ink.strokeStyle = css("--line");
  ink.strokeRect(plan.left - 0.5, plan.top - 0.5, w + 1, h + 1);
  for (let t = 0; t < plan.rows.length; t += plan.step) label(ink, "query", t, false);
  for (let s = 0; s < plan.columns.length; s += plan.step) label(ink, "key", s, false);
  canvas.setAttribute("aria-label", words.matrixLabel);
}

/** Write the label of a row or a column; a strong one is longer and covers others. */
function label(ink, side, index, strong) {
  const middle = (index + 0.5) * plan.cell;
  ink.save();
  ink.font = `${strong ? "600 " : ""}12px ${FONT}`;
  ink.textBaseline = "middle";
  const room = side === "query" ? plan.left - 8 : plan.text;
  const all = plan[side === "query" ? "rows" : "columns"][index];
  const text = clip(all, strong ? Math.max(room, side === "query" ? 260 : 0) + 8 : room);
  const width = ink.measureText(text).width;
  if (side === "query") {
    ink.translate(Math.max(4, plan.left - 6 - width), plan.top + middle);
  } else if (plan.angle === 0) {
    ink.translate(plan.left + middle - width / 2, plan.top - 11);
  } else {
    ink.translate(plan.left + middle, plan.top - 6);
    ink.rotate((-plan.angle * Math.PI) / 180);
  }
  if (strong) {
    ink.fillStyle = css("--panel");
    ink.fillRect(-3, -8, width + 6, 16);
  }
  ink.fillStyle = css(strong ? "--accent" : "--ink");
  ink.fillText(text, 0, 0.5);
  ink.restore();
}

function paint() {
  const ratio = window.devicePixelRatio || 1;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(base, 0, 0);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const { active } = state;
  if (!active) return;
  const row = active.side === "query" ? active.index : active.other;
  const column = active.side === "key" ? active.index : active.other;
  pen.strokeStyle = css("--accent");
  pen.lineWidth = 1.5;
  const { cell, left, top } = plan;
  if (row !== undefined) {
    const y = top + row * cell;
    pen.strokeRect(left - 1, y - 1, cell * plan.columns.length + 2, cell + 2);
    label(pen, "query", row, true);
  }
  if (column !== undefined) {
    const x = left + column * cell;
    pen.strokeRect(x - 1, top - 1, cell + 2, cell * plan.rows.length + 2);
    label(pen, "key", column, true);
  }
}

function placeOf(event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - plan.left) / plan.cell);
  const row = Math.floor((event.clientY - box.top - plan.top) / plan.cell);
  const inRows = row >= 0 && row < plan.rows.length;
  const inColumns = column >= 0 && column < plan.columns.length;
  if (inRows && inColumns) return { side: "query", index: row, other: column };
  if (inRows && column < 0) return { side: "query", index: row };
  if (inColumns && row < 0) return { side: "key", index: column };
  return null;
}

canvas.addEventListener("pointermove", (event) => setActive(placeOf(event)));
canvas.addEventListener("pointerleave", () => setActive(null));
// Between a finger's touch and its click the focus moves here, the text above changes
// its height, and the canvas its place: what counts is where the finger came down.
let touched = null;
canvas.addEventListener("pointerdown", (event) => {
  touched = placeOf(event);
});
canvas.addEventListener("click", () => {
  if (touched) pin(touched);
});
canvas.addEventListener("blur", () => setActive(null));
canvas.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && state.active) {
    event.preventDefault();
    pin(state.active);
    return;
  }
  const [down, right] = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  }[event.key] ?? [0, 0];
  if (!down && !right) return;
  event.preventDefault();
  const { active } = state;
  let [row, column] = [0, 0];
  if (active) {
    const here = active.side === "query";
    row = ((here ? active.index : active.other) ?? -1) + down;
    column = ((here ? active.other : active.index) ?? -1) + right;
  }
  state.pinned = false;
  setActive({
    side: "query",
    index: Math.min(plan.rows.length - 1, Math.max(0, row)),
    other: Math.min(plan.columns.length - 1, Math.max(0, column)),
  });
});
