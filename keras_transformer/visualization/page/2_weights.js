// The weights: unpacked from bytes, averaged over heads and layers.
const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const MEAN = -1;
const FONT = getComputedStyle(document.body).fontFamily;
const SQUARES = Float32Array.from({ length: 256 }, (_, q) => (q / 255) ** 2);

// What is chosen. `active` is the token under the pointer or the focus.
const state = { kind: "", layer: 0, head: MEAN, active: null, pinned: false };
let layers = []; // those of the chosen kind
let weights = new Float32Array(0); // of the chosen head, a row a query
let lastColor = 1; // the weight that has the last color
let colors = [];

const tokensOf = (layer, side) => data.sequences[layer[side]];
const shown = () => layers[Math.max(state.layer, 0)];

function bytesOf(layer) {
  if (!layer.bytes) {
    const text = atob(layer.weights);
    layer.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) layer.bytes[i] = text.charCodeAt(i);
    layer.weights = null;
  }
  return layer.bytes;
}

/** Add the weights of one head to `sum`, times a factor. */
function addHead(sum, layer, head, factor) {
  const bytes = bytesOf(layer);
  const scale = layer.scales[head] * factor;
  for (let i = 0, j = head * sum.length; i < sum.length; i++, j++)
    sum[i] += SQUARES[bytes[j]] * scale;
}

function weightsOf(layer, head) {
  const size = tokensOf(layer, "query").length * tokensOf(layer, "key").length;
  const sum = new Float32Array(size);
  const heads = head === MEAN ? layer.scales.map((_, n) => n) : [head];
  for (const n of heads) addHead(sum, layer, n, 1 / heads.length);
  return sum;
}

function chosenWeights() {
  if (state.layer !== MEAN) return weightsOf(layers[state.layer], state.head);
  const parts = layers.map((layer) => weightsOf(layer, state.head));
  return parts[0].map((_, i) => parts.reduce((s, w) => s + w[i], 0) / parts.length);
}

const greatest = (array) => array.reduce((a, b) => (b > a ? b : a), 0) || 1;

function number(value) {
  if (value >= 0.0995) return value.toFixed(2);
  return value >= 0.001 || value === 0 ? value.toFixed(3) : "<0.001";
}
