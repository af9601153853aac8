// Renders the node's own OpenAPI document.
import { element, hasToken, read } from "./page.js";

const main = document.getElementById("calls");
const contents = document.getElementById("contents");
// base is where the calls begin, whatever prefix a proxy put before them.
const base = new URL(".", location.href).href.slice(0, -1);
const methods = ["get", "put", "post", "delete"];

const spec = await read("openapi.json").catch((err) => {
  main.replaceChildren(element("p", { class: "bad" }, err.message));
  throw err;
});

function resolve(schema) {
  return schema?.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema ?? {};
}

function kind(schema) {
  const s = resolve(schema);
  const types = [].concat(s.type ?? "any JSON");
  let text = types.map((t) => (t === "array" ? "list of " + kind(s.items) : t)).join(" or ");
  if (s.enum) text += ": " + s.enum.join(", ");
  const limits = [];
  if (s.minimum !== undefined) limits.push("≥ " + s.minimum);
  if (s.maximum !== undefined) limits.push("≤ " + s.maximum);
  if (s.maxLength !== undefined) limits.push("≤ " + s.maxLength + " characters");
  if (s.maxItems !== undefined) limits.push("≤ " + s.maxItems);
  if (s.default !== undefined) limits.push("default " + s.default);
  return limits.length ? text + " (" + limits.join(", ") + ")" : text;
}

// rows lists fields and, indented by their path, the fields of what they hold.
function rows(schema, path, out) {
  const s = resolve(schema);
  if (s.items) return rows(s.items, path + "[]", out);
  for (const [name, field] of Object.entries(s.properties ?? {})) {
    const here = path ? path + "." + name : name;
    const f = resolve(field);
    const optional = s.required?.includes(name) ? "" : element("span", { class: "quiet" }, " optional");
    out.push(element("tr", {}, element("td", {}, element("code", {}, here), optional), element("td", {}, kind(field)), element("td", {}, field.description ?? f.description ?? "")));
    if (out.length < 200) rows(field, here, out);
  }
  return out;
}

function fields(title, list) {
  if (list.length === 0) return "";
  return element("div", {}, element("h3", {}, title), element("table", { class: "fields" }, element("tbody", {}, ...list)));
}

function parameters(op) {
  return (op.parameters ?? []).map((p) => element("tr", {}, element("td", {}, element("code", {}, p.name), p.required ? "" : element("span", { class: "quiet" }, " optional")), element("td", {}, p.in + ", " + kind(p.schema)), element("td", {}, p.description ?? "")));
}

// example is a call as a shell would make it. Paths and bodies have examples; of the query only what is worth showing has.
function example(path, method, op, body) {
  const parameters = op.parameters ?? [];
  const target = path.replace(/{(\w+)}/g, (_, name) => parameters.find((p) => p.name === name).schema.examples[0]);
  const query = parameters.filter((p) => p.in === "query" && p.example !== undefined).map((p) => p.name + "=" + p.example).join("&");
  const words = ["curl"];
  if (method !== (body ? "post" : "get")) words.push("-X " + method.toUpperCase());
  if (hasToken()) words.push('-H "Authorization: Bearer $ROTA_TOKEN"');
  words.push(quoted(base + target + (query ? "?" + query : "")));
  if (body) words.push("\\\n  -d " + quoted(JSON.stringify(body.example)));
  return element("pre", {}, element("code", {}, words.join(" ")));
}

function quoted(text) {
  return /^[\w:/.-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

function section(path, method, op) {
  const parts = [element("h2", {}, element("span", { class: "method" }, method.toUpperCase()), element("code", {}, path)), element("p", {}, op.summary + ". ", op.description ?? "")];
  parts.push(example(path, method, op, Object.values(op.requestBody?.content ?? {})[0]));
  parts.push(fields("Parameters", parameters(op)));
  for (const [type, body] of Object.entries(op.requestBody?.content ?? {})) parts.push(fields("Body, " + type, rows(body.schema, "", [])));
  for (const [status, answer] of Object.entries(op.responses)) {
    if (status === "default") continue;
    const types = Object.entries(answer.content ?? {});
    parts.push(element("h3", {}, "Answer " + status + " " + (answer.description ?? "")));
    for (const [type, body] of types) parts.push(fields(type, rows(body.schema, "", [])));
  }
  return element("section", { id: op.operationId }, ...parts);
}

const groups = new Map(spec.tags.map((tag) => [tag.name, []]));
for (const [path, item] of Object.entries(spec.paths)) {
  for (const method of methods) {
    if (!item[method]) continue;
    const tag = item[method].tags?.[0] ?? "Other";
    if (!groups.has(tag)) groups.set(tag, []);
    groups.get(tag).push([path, method, item[method]]);
  }
}

main.replaceChildren(...spec.info.description.split("\n\n").map((text) => element("p", {}, text)));
for (const [tag, list] of groups) {
  contents.append(element("h2", {}, tag));
  for (const [path, method, op] of list) {
    contents.append(element("a", { href: "#" + op.operationId }, op.summary));
    main.append(section(path, method, op));
  }
}
const problem = { type: "object", ...spec.components.schemas.Problem };
main.append(element("section", { id: "refusals" }, element("h2", {}, "Refusals"), element("p", {}, "Every refusal is application/problem+json:"), fields("", rows(problem, "", []))));
contents.append(element("h2", {}, "All calls"), element("a", { href: "#refusals" }, "Refusals"));
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
