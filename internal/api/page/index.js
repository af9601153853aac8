import { element, read } from "/page/page.js";

const states = ["waiting", "ready", "running", "done", "dead", "cancelled"];
const node = document.getElementById("node");
const table = document.getElementById("queues");
document.getElementById("origin").textContent = location.origin;

function age(time) {
  if (!time) return "";
  const s = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  return s < 100 ? s.toFixed(0) + " s" : s < 6000 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(0) + " h";
}

function row(queue) {
  const name = element("td", {}, queue.name, queue.paused ? element("span", { class: "quiet" }, " paused") : "");
  const counts = states.map((s) => element("td", { class: s === "dead" && queue.counts[s] ? "bad" : queue.counts[s] ? "" : "quiet" }, queue.counts[s].toLocaleString()));
  return element("tr", {}, name, ...counts, element("td", {}, age(queue.oldest_ready)));
}

async function show() {
  const ready = await read("/readyz");
  const ok = ready.status === "ok";
  node.textContent = ok ? "This node is ready." : "This node is not ready" + (ready.detail ? ": " + ready.detail : ".");
  node.className = ok ? "" : "bad";
  const { items } = await read("/v1/queues?limit=1000");
  table.tBodies[0].replaceChildren(...items.map(row));
  table.hidden = items.length === 0;
  for (const id of ["none", "first"]) document.getElementById(id).hidden = items.length > 0;
}

for (;;) {
  try {
    if (!document.hidden) await show();
  } catch (err) {
    node.textContent = "The node does not answer: " + err.message;
    node.className = "bad";
  }
  await new Promise((resolve) => setTimeout(resolve, 2000));
}
