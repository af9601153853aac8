// Sixty texts that are to be shown as texts. Names have rules of their own (letters, digits and a few signs), so a
// text goes wherever the node takes it: contexts, results, errors, notes, logs, stages, keys, titles, owners, labels.
const long = "x".repeat(240);
const zalgo = "Z" + "\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307".repeat(12);

export const hostile = [
  "<script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", "<svg onload=window.pwned=1>", "\"><script>window.pwned=1</script>",
  "'-window.pwned=1-'", "javascript:window.pwned=1", "</script><script>window.pwned=1</script>", "<iframe srcdoc='<script>parent.pwned=1</script>'>",
  "<a href='javascript:window.pwned=1'>x</a>", "{{constructor.constructor('window.pwned=1')()}}", "${window.pwned=1}", "<!--<img src=x onerror=pwned=1>-->",
  "<style>*{display:none}</style>", "<link rel=stylesheet href=//evil.example/x.css>", "<base href=//evil.example/>", "<meta http-equiv=refresh content='0;url=//evil.example'>",
  "<form action=//evil.example><button>x</button></form>", "<math><mtext><img src=x onerror=pwned=1></mtext></math>", "<details open ontoggle=pwned=1>", "<input autofocus onfocus=pwned=1>",
  "&lt;b&gt;", "&#60;script&#62;", "%3Cscript%3E", "\\u003cscript\\u003e", "<b>bold</b>", "]]>", "<?xml?>", "<plaintext>", "<title>x</title>", "<body onload=pwned=1>",
  "\u202egnp.exe", "\u2066isolate\u2069", "\u200f\u200e", "a\u2028b", "a\u2029b", "\ufeffbom", "a\u200bb", "\u061cmark", "مرحبا بالعالم", "שלום עולם",
  long, "漢字".repeat(60), "🏴‍☠️👩‍👩‍👧‍👦".repeat(8), zalgo, "\u00ad".repeat(30) + "x", "a b  c   d", "   ", "..", "../../etc/passwd", "C:\\Windows\\",
  "'; DROP TABLE task; --", "' OR '1'='1", "null", "undefined", "NaN", "__proto__", "constructor", "toString", "-0", "1e400", "https://evil.example/?q=<x>",
];

export const deep = JSON.stringify(hostile) + "";

// fits tells whether a text may stand in a field without control characters, of at most 256 bytes.
const control = /[\p{Cc}\p{Zl}\p{Zp}]/u;
export const free = hostile.filter((s) => !control.test(s) && Buffer.byteLength(s) <= 256 && s.trim() !== "");
