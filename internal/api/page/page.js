// What pages share: calls with an access token, which is asked for once and kept for this tab only.

const place = "rota-token";

export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

function askToken(why) {
  return new Promise((resolve) => {
    const input = element("input", { type: "password", autocomplete: "off", required: "", "aria-label": "access token" });
    const form = element("form", { method: "dialog" }, element("p", {}, why), input, element("button", {}, "Continue"));
    const dialog = element("dialog", {}, form);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(input.value.trim()); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function hasToken() {
  return sessionStorage.getItem(place) !== null;
}

export async function call(path) {
  for (;;) {
    const token = sessionStorage.getItem(place);
    const answer = await fetch(path, token ? { headers: { Authorization: "Bearer " + token } } : {});
    if (answer.status !== 401) return answer;
    sessionStorage.removeItem(place);
    const given = await askToken(token ? "This node does not know that token." : "This node wants an access token.");
    if (given) sessionStorage.setItem(place, given);
  }
}

export async function read(path) {
  const answer = await call(path);
  const body = await answer.json();
  if (!answer.ok && body.detail) throw new Error(body.detail);
  return body;
}
