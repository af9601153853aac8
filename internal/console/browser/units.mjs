// The parts of the console that decide without a screen: laws and tables.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import ts from "typescript";

async function load(name) {
  const text = readFileSync(new URL("../app/" + name, import.meta.url), "utf8");
  const out = ts.transpileModule(text, { compilerOptions: { target: "es2023", module: "esnext" } }).outputText;
  return import("data:text/javascript;base64," + Buffer.from(out).toString("base64"));
}

const { rawField, rawItems, indented, differences, folded } = await load("json.ts");
const { merged } = await load("merge.ts");
const { alike, pattern } = await load("likeness.ts");

// random is a small generator, so that a failure comes again.
function random(seed) {
  return (n) => { seed = (seed * 1664525 + 1013904223) >>> 0; return Math.floor((seed / 2 ** 32) * n); };
}

function value(r, deep) {
  const kind = r(deep > 0 ? 8 : 6);
  if (kind < 6) return [null, true, -0.5, "a\"b\\c{}[],:", "", 12345][kind];
  if (kind === 6) return Array.from({ length: r(4) }, () => value(r, deep - 1));
  return Object.fromEntries(Array.from({ length: r(4) }, () => ["k\"" + r(5), value(r, deep - 1)]));
}

export const units = {
  "a context is cut out of an answer byte for byte"() {
    for (const raw of ['{ "a" :1e400, "a":9007199254740993,"s":"<&> \\ud800", "e":[ ] }', '"x\\"}"', "null", "12345678901234567890", "[1,{\"context\":2}]", "true", '""']) {
      assert.equal(rawField(`{"id":"1","steps":[{"context":"no"}],"text":"\\"context\\":9","context":${raw},"result":null}`, "context"), raw);
    }
    assert.equal(rawField('{"a":1}', "context"), undefined);
    assert.equal(rawField("", "context"), undefined);
  },
  "what is indented is the same value, and scalars keep their text"() {
    const r = random(1);
    for (let i = 0; i < 2000; i++) {
      const v = value(r, 4), text = JSON.stringify(v);
      assert.deepEqual(JSON.parse(indented(text)), v);
    }
    assert.equal(indented('{"a":1e400,"b":[],"a":{}}'), '{\n  "a": 1e400,\n  "b": [],\n  "a": {}\n}');
  },
  "items of a list are cut out of an answer byte for byte"() {
    for (const raw of [[], ["1e400"], ['{ "a" :[1,"]"]}', '"],["', "[ [ ] ]", "null"]]) {
      assert.deepEqual(rawItems(`[ ${raw.join(" , ")} ]`), raw);
    }
  },
  "what is folded of a difference is only what is the same, far from what differs"() {
    const lines = (text) => [...text].map((kind, i) => ({ kind, text: String(i) }));
    const told = (text) => folded(lines(text)).map((l) => (l.kind === "…" ? "(" + l.n + ")" : l.kind)).join("");
    for (const [text, want] of [["", ""], ["  ", "(2)"], [" ", " "], ["     +     ", "(2)   +   (2)"], ["    -    ", "    -    "], ["+        -", "+   (2)   -"], ["+++", "+++"]]) {
      assert.equal(told(text), want, text);
    }
  },
  "a difference leads from one text to the other"() {
    const r = random(2);
    for (let i = 0; i < 1000; i++) {
      const a = Array.from({ length: r(9) }, () => "abc"[r(3)]).join("\n"), b = Array.from({ length: r(9) }, () => "abc"[r(3)]).join("\n");
      const lines = differences(a, b);
      assert.equal(lines.filter((l) => l.kind !== "+").map((l) => l.text).join("\n"), a);
      assert.equal(lines.filter((l) => l.kind !== "-").map((l) => l.text).join("\n"), b);
    }
    const many = Array.from({ length: 3000 }, (_, i) => "l" + i).join("\n");
    assert.equal(differences(many, many).every((l) => l.kind === " "), true);
  },
  "merge patches do what RFC 7396 says"() {
    for (const [target, patch, want] of [
      [{ a: "b" }, { a: "c" }, { a: "c" }], [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }], [{ a: "b" }, { a: null }, {}], [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
      [{ a: ["b"] }, { a: "c" }, { a: "c" }], [{ a: "c" }, { a: ["b"] }, { a: ["b"] }], [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
      [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }], [["a", "b"], ["c", "d"], ["c", "d"]], [{ a: "b" }, ["c"], ["c"]], [{ a: "foo" }, null, null], [{ a: "foo" }, "bar", "bar"],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }], [[1, 2], { a: "b", c: null }, { a: "b" }], [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ]) {
      const before = JSON.stringify(target);
      assert.deepEqual(merged(target, patch), want);
      assert.equal(JSON.stringify(target), before, "the target is left alone");
    }
    assert.equal({}.polluted, undefined);
    merged({}, JSON.parse('{"__proto__":{"polluted":1}}'));
    assert.equal({}.polluted, undefined);
  },
  "errors that differ in numbers and ids are alike, and their pattern finds them"() {
    for (const [a, b] of [
      ["connect to smtp-7.example:587: i/o timeout after 30s", "connect to smtp-3.example:587: i/o timeout after 5s"],
      ["task 1jwrrkvpcj00710 is gone", "task 1jwrrkvpcj00799 is gone"], ["at 2026-01-31T00:00:00.123Z", "at 2027-02-01T01:02:03Z"],
      ["object 6f1c2d3e-0000-4000-8000-123456789abc", "object 7f1c2d3e-0000-4000-8000-123456789abd"], ["10.0.0.1:80 refuses", "192.168.1.77:8080 refuses"], ["0xdeadbeef", "0x1"],
    ]) {
      assert.equal(alike(a), alike(b));
      for (const x of [a, b]) assert.match(x, new RegExp(pattern(alike(x))));
    }
    assert.notEqual(alike("no such file"), alike("no such host"));
    const odd = "(a[b{c*d+e?f.g^h$i|j\\k)".repeat(30);
    assert.ok(Buffer.byteLength(pattern(odd)) <= 256);
    assert.match(odd, new RegExp(pattern(odd)));
    assert.ok(Buffer.byteLength(pattern("漢\\".repeat(200))) <= 256);
    new RegExp(pattern("漢\\".repeat(200)));
  },
};
