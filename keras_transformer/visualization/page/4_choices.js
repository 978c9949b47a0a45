// The choice of kind, layer, head and range of colors.
function fillKinds() {
  for (const kind of Object.keys(words.kinds)) {
    if (!data.layers.some((layer) => layer.kind === kind)) continue;
    const label = element("label");
    const input = element("input");
    Object.assign(input, { type: "radio", name: "kind", value: kind });
    input.addEventListener("change", () => chooseKind(kind));
    label.append(input, element("span", "", words.kinds[kind]));
    $("kinds").append(label);
  }
  const first = $("kinds").querySelector("input");
  first.checked = true;
  chooseKind(first.value);
}

function options(select, entries, chosen) {
  select.replaceChildren(
    ...entries.map(([value, text]) => new Option(text, value)),
  );
  select.value = chosen;
}

function chooseKind(kind) {
  layers = data.layers.filter((layer) => layer.kind === kind);
  Object.assign(state, { kind, layer: 0, active: null, pinned: false });
  const [one] = layers;
  const alike = layers.every(
    (x) =>
      x.query === one.query &&
      x.key === one.key &&
      x.scales.length === one.scales.length,
  );
  const entries = layers.map((layer, i) => [i, layer.name]);
  if (alike && layers.length > 1) entries.unshift([MEAN, words.meanLayers]);
  options($("layer"), entries, 0);
  drawGrid();
  chooseLayer(0);
}

function chooseLayer(layer) {
  const before = [shown().query, shown().key];
  state.layer = layer;
  const count = shown().scales.length;
  if (state.head >= count) state.head = MEAN;
  if (count === 1) state.head = 0;
  const heads = shown().scales.map((_, n) => [n, words.headName + n]);
  if (count > 1) heads.unshift([MEAN, words.meanHeads]);
  options($("head"), heads, state.head);
  const after = [shown().query, shown().key];
  if (before.join() !== after.join())
    Object.assign(state, { active: null, pinned: false });
  fillTokens("query", $("queries"));
  fillTokens("key", $("keys"));
  chooseHead(state.head);
}

function chooseHead(head) {
  state.head = head;
  $("layer").value = state.layer;
  $("head").value = head;
  weights = chosenWeights();
  for (const thumb of $("grid").querySelectorAll("button")) {
    const here = +thumb.dataset.layer === state.layer && +thumb.dataset.head === head;
    thumb.setAttribute("aria-pressed", here);
    if (here) rove($("grid"), thumb);
  }
  recolor();
}

function recolor() {
  lastColor = $("range").value === "one" ? 1 : greatest(weights);
  $("high").textContent = lastColor === 1 ? "1" : number(lastColor);
  drawMatrix();
  showActive();
}

/** Let Tab stop at one of a group's buttons; the arrow keys reach the others. */
function rove(group, button) {
  if (!button) return; // Firefox lets Tab stop at the group itself, where it scrolls
  for (const other of group.querySelectorAll('button[tabindex="0"]'))
    other.tabIndex = -1;
  button.tabIndex = 0;
}
