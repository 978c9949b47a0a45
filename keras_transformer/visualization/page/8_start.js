// Fill the page, and listen.
function repaint() {
  readColors();
  recolor();
  drawThumbs();
}

for (const each of document.querySelectorAll("[data-word]"))
  each.textContent = words[each.dataset.word];
$("sum").hidden = data.hides;
if (data.notRecorded.length) {
  $("footer").textContent = words.notRecorded + data.notRecorded.join(", ");
  $("footer").hidden = false;
}
const dark = matchMedia("(prefers-color-scheme: dark)");
$("theme").title = words.theme;
$("theme").setAttribute("aria-label", words.theme);
$("theme").addEventListener("click", () => {
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  repaint();
});
dark.addEventListener("change", repaint);
$("layer").addEventListener("change", (event) => chooseLayer(+event.target.value));
$("head").addEventListener("change", (event) => chooseHead(+event.target.value));
$("range").addEventListener("change", repaint);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  state.pinned = false;
  setActive(null);
});
listen("query", $("queries"));
listen("key", $("keys"));
readColors();
fillKinds();
let width = $("holder").clientWidth;
new ResizeObserver(() => {
  if ($("holder").clientWidth === width) return;
  width = $("holder").clientWidth;
  drawMatrix();
  paint();
}).observe($("holder"));
