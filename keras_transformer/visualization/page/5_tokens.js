// The tokens: the one under the pointer colors those of the other side.
function fillTokens(side, box) {
  const name = words[side] + " " + words[side === "query" ? "looks" : "seen"];
  box.setAttribute("aria-label", name);
  box.replaceChildren(
    ...tokensOf(shown(), side).map((token, index) => {
      const button = element("button", "token", visible(token));
      button.type = "button";
      button.tabIndex = index ? -1 : 0;
      button.dataset.index = index;
      return button;
    }),
  );
}

function listen(side, box) {
  const tokenAt = (event) => event.target.closest?.(".token");
  const activate = (event) => {
    const token = tokenAt(event);
    if (token) setActive({ side, index: +token.dataset.index });
  };
  box.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch") activate(event);
  });
  box.addEventListener("pointerleave", () => setActive(null));
  box.addEventListener("focusin", (event) => {
    rove(box, tokenAt(event));
    if (tokenAt(event)?.matches(":focus-visible")) activate(event);
  });
  box.addEventListener("focusout", () => setActive(null));
  box.addEventListener("click", (event) => {
    const token = tokenAt(event);
    if (token) pin({ side, index: +token.dataset.index });
  });
  box.addEventListener("keydown", (event) => {
    const all = [...box.children];
    const now = all.indexOf(tokenAt(event));
    const next = {
      ArrowLeft: now - 1,
      ArrowUp: now - 1,
      ArrowRight: now + 1,
      ArrowDown: now + 1,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    if (all[next]) {
      state.pinned = false;
      all[next].focus();
    }
  });
}

const same = (a, b) =>
  a && b && a.side === b.side && a.index === b.index && a.other === b.other;

function setActive(active) {
  if (state.pinned || same(active, state.active)) return;
  state.active = active;
  showActive();
}

function pin(active) {
  state.pinned = !(state.pinned && same(active, state.active));
  state.active = active;
  showActive();
}

/** The weights between the active token and those of the other side. */
function rowOf({ side, index }) {
  const width = tokensOf(shown(), "key").length;
  if (side === "query") return weights.subarray(index * width, (index + 1) * width);
  return Float32Array.from(
    tokensOf(shown(), "query"),
    (_, t) => weights[t * width + index],
  );
}

const looks = new WeakMap(); // of each token: how it was last drawn

function showActive() {
  const { active } = state;
  const row = active ? rowOf(active) : null;
  for (const [side, box] of [
    ["query", $("queries")],
    ["key", $("keys")],
  ]) {
    const near = active?.side === side;
    const chosen = near ? active.index : active?.other;
    [...box.children].forEach((token, index) => {
      const color = row && !near ? colorOf(row[index], lastColor) : null;
      const look = `${chosen === index} ${state.pinned && chosen === index && near} ${color}`;
      if (looks.get(token) === look) return; // 400 tokens, of which few change
      looks.set(token, look);
      token.classList.toggle("chosen", chosen === index);
      token.setAttribute("aria-pressed", state.pinned && chosen === index && near);
      token.style.background = color ? `rgb(${color})` : "";
      token.style.color = color ? inkOn(color) : "";
    });
  }
  showReading(active, row);
  paint();
}
function showReading(active, row) {
  const sentence = element("p");
  if (!active) {
    sentence.textContent = words.hint;
    const title = element("p", "", words.average);
    const list = ranking(keyMeans(), tokensOf(shown(), "key"));
    $("reading").replaceChildren(sentence, title, list);
    return;
  }
  const [near, far] = active.side === "query" ? ["query", "key"] : ["key", "query"];
  const mine = visible(tokensOf(shown(), near)[active.index]);
  const others = tokensOf(shown(), far);
  const parts = [];
  if (active.other !== undefined) {
    const pair = element("p");
    const other = element("b", "", visible(others[active.other]));
    pair.append(element("b", "", mine), words.pair, other);
    pair.append(`: ${number(row[active.other])}`);
    parts.push(pair);
  }
  sentence.append(element("b", "", mine), near === "query" ? words.looksAt : words.seenBy);
  $("reading").replaceChildren(...parts, sentence, ranking(row, others));
}

/** How much each key is looked at, as a mean over the queries. */
function keyMeans() {
  const width = tokensOf(shown(), "key").length;
  const sum = new Float32Array(width);
  for (let i = 0; i < weights.length; i++) sum[i % width] += weights[i];
  return sum.map((value) => (value * width) / weights.length);
}

/** The five greatest weights, as a list with bars. */
function ranking(row, names) {
  const list = element("ol");
  const order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 5);
  for (const index of order) {
    const item = element("li");
    const bar = element("i");
    bar.style.setProperty("--part", `${100 * Math.min(1, row[index])}%`);
    const value = element("span", "", number(row[index]));
    item.append(element("span", "", visible(names[index])), bar, value);
    list.append(item);
  }
  return list;
}
