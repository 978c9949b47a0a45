// Thumbnails of all layers and heads.
function drawGrid() {
  const grid = $("grid");
  const most = Math.max(...layers.map((layer) => layer.scales.length));
  const columns = most > 1 ? [MEAN, ...Array(most).keys()] : [0];
  const count = columns.length;
  grid.style.gridTemplateColumns = `auto repeat(${count}, minmax(24px, 1fr))`;
  grid.style.maxWidth = `${24 + 96 * count}px`;
  grid.setAttribute("aria-label", words.all);
  const heads = columns.map((n) => element("span", "", n === MEAN ? words.mean : n));
  grid.replaceChildren(element("span"), ...heads);
  layers.forEach((layer, index) => {
    const name = element("span", "", index);
    name.title = layer.name;
    grid.append(name);
    for (const head of columns) {
      const there = head === MEAN || head < layer.scales.length;
      grid.append(there ? thumb(layer, index, head) : element("span"));
    }
  });
  drawThumbs();
}

function thumb(layer, index, head) {
  const button = element("button", "thumb");
  const name = head === MEAN ? words.meanHeads : words.headName + head;
  button.type = "button";
  button.tabIndex = -1;
  button.title = `${layer.name} · ${name}`;
  button.setAttribute("aria-label", button.title);
  Object.assign(button.dataset, { layer: index, head });
  button.append(element("canvas"));
  button.addEventListener("click", () => {
    state.head = head;
    chooseLayer(index);
  });
  return button;
}

$("grid").addEventListener("keydown", (event) => {
  const all = [...$("grid").querySelectorAll("button")];
  const now = event.target.dataset;
  const [down, right] = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  }[event.key] ?? [0, 0];
  if (!down && !right) return;
  event.preventDefault();
  const next = all.find(
    (b) => +b.dataset.layer === +now.layer + down && +b.dataset.head === +now.head + right,
  );
  if (!next) return;
  rove($("grid"), next);
  next.focus();
});

/** Draw the thumbnails, one layer a frame, so that the page stays awake. */
let turn = 0;
function drawThumbs() {
  const mine = ++turn;
  const buttons = [...$("grid").querySelectorAll("button")];
  const next = () => {
    if (mine !== turn || !buttons.length) return;
    const index = buttons[0].dataset.layer;
    while (buttons.length && buttons[0].dataset.layer === index)
      drawThumb(buttons.shift());
    requestAnimationFrame(next);
  };
  next();
}

function drawThumb(button) {
  const layer = layers[button.dataset.layer];
  const values = weightsOf(layer, +button.dataset.head);
  const [rows, columns] = [tokensOf(layer, "query").length, tokensOf(layer, "key").length];
  const [height, width] = [Math.min(rows, 48), Math.min(columns, 48)];
  const small = new Float32Array(height * width);
  for (let t = 0, i = 0; t < rows; t++) {
    const line = Math.floor((t * height) / rows) * width;
    for (let s = 0; s < columns; s++, i++) {
      const place = line + Math.floor((s * width) / columns);
      if (values[i] > small[place]) small[place] = values[i];
    }
  }
  const limit = $("range").value === "one" ? 1 : greatest(small);
  const target = button.firstChild;
  [target.width, target.height] = [width, height];
  target.getContext("2d").putImageData(picture(small, height, width, limit), 0, 0);
}
