import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitIntoChunks } from "../../../../src/assistant/context/index/text/chunk.ts";
import { decodeText } from "../../../../src/assistant/context/index/text/decode-text.ts";
import { classifyFile } from "../../../../src/assistant/context/index/text/file-kind.ts";
import { readHtml } from "../../../../src/assistant/context/index/text/html.ts";
import { readMarkdown } from "../../../../src/assistant/context/index/text/markdown.ts";
import { readText } from "../../../../src/assistant/context/index/text/read-text.ts";
import { UNBOUNDED_AFTER_MS } from "../../../support/wait-limits.ts";

const bytes = (text: string, encoding: BufferEncoding = "utf8") => Buffer.from(text, encoding);

describe("decodeText", () => {
  it.each([
    ["UTF-8", bytes("grün\r\nblau"), "grün\nblau"],
    ["UTF-8 with a mark", bytes("\ufeffgrün"), "grün"],
    ["UTF-16 with a mark", bytes("\ufeffgrün", "utf16le"), "grün"],
    ["big-endian UTF-16", bytes("\ufeffgrün", "utf16le").swap16(), "grün"],
    ["UTF-16 without a mark", bytes("plain words here", "utf16le"), "plain words here"],
    ["Latin-1", bytes("na\xefve", "latin1"), "naïve"],
    ["Windows-1252", Buffer.from([0x93, 0x61, 0x94]), "“a”"],
    ["nothing", bytes(""), ""],
  ])("reads %s", (_, input, text) => {
    expect(decodeText(input)).toBe(text);
  });

  it.each([
    ["a zero", Buffer.from([0x61, 0, 0, 0x62])],
    ["a PDF", bytes("%PDF-1.4\nwords words")],
    [
      "control characters",
      Buffer.from(Array.from({ length: 400 }, (_, at) => (at % 50 === 0 ? 1 : 97))),
    ],
    ["gzip", gzipSync("words ".repeat(100))],
  ])("returns undefined for %s", (_, input) => {
    expect(decodeText(input)).toBeUndefined();
  });
});

describe("classifyFile", () => {
  it.each([
    ["notes.MD", "markdown"],
    ["page.html", "html"],
    ["ls.1.gz", "skipped"],
    ["crontab.5", "plain"],
    ["main.rs", "code"],
    ["Makefile", "code"],
    ["README", "plain"],
    ["photo.JPG", "skipped"],
    ["app.min.js", "skipped"],
    ["package-lock.json", "skipped"],
    ["backup.tar.gz", "skipped"],
  ])("reads the file %s as %s", (name, kind) => {
    expect(classifyFile(name)).toBe(kind);
  });
});

describe("readMarkdown", () => {
  it("creates a section for each heading, and keeps the parent headings of each section", () => {
    const text = [
      "---\ntitle: From the front\n---\nIntro.",
      "# One\n\nText [here](https://example.org/long).\n\n```sh\n# no heading\n```",
      "## Two `code`\n\nMore.\n\nThree\n=====\n\nEnd.",
    ].join("\n\n");
    expect(readMarkdown(text, "file")).toEqual({
      title: "From the front",
      sections: [
        { heading: "", text: "Intro." },
        { heading: "One", text: "Text here.\n\n```sh\n# no heading\n```" },
        { heading: "One > Two code", text: "More." },
        { heading: "Three", text: "End." },
      ],
    });
  });

  it("uses the file name as the title of a text without headings", () => {
    expect(readMarkdown("just text", "file")).toEqual({
      title: "file",
      sections: [{ heading: "", text: "just text" }],
    });
  });
});

describe("readHtml", () => {
  it("keeps text and headings, but no scripts and markup", () => {
    const page = `<!doctype html><html><head><title>A &amp; B</title><style>p{}</style></head>
      <body><script>var x = "<p>no</p>"; if (a < b) {}</script><h1>Top</h1><p>One<b>two</b> &#233;t&eacute;</p>
      <!-- <p>hidden</p> --><ul><li>a</li><li title='x > y'>b</li></ul><h2>Sub</h2>5 < 6 it's</body></html>`;
    expect(readHtml(page, "file")).toEqual({
      title: "A & B",
      sections: [
        { heading: "Top", text: "Onetwo été\n\n- a\n\n- b" },
        { heading: "Top > Sub", text: "5 < 6 it's" },
      ],
    });
  });

  it("ignores drawings, frames and soft hyphens, and decodes every named character", () => {
    const page =
      "<p>in&shy;dex</p><svg><title>a</title><svg>b</svg>c</svg><iframe>d</iframe><svg/>" +
      "<script src='x'/><template><p>e</p></template>&hearts;&nbsp;f&#xd800;<textarea>g</textarea>";
    expect(readHtml(page, "file")).toEqual({
      title: "file",
      sections: [{ heading: "", text: "index\n♥ f\ufffdg" }],
    });
  });

  it("reads a malicious page in time that is linear in its size", () => {
    const bads = ["<", "<a '", "<!--", "<script>", "<a b='", "&", "<h1>", "<i>", "<svg>", "<form>"];
    for (const bad of [...bads, "</b>", "<title>"]) {
      const began = performance.now();
      readHtml(bad.repeat(200_000 / bad.length), "file");
      expect(performance.now() - began).toBeLessThan(UNBOUNDED_AFTER_MS);
    }
  });
});

const document = (text: string) => ({ title: "T", sections: [{ heading: "H", text }] });

describe("splitIntoChunks", () => {
  it("does not split words", () => {
    const text = fc.array(fc.stringMatching(/^(?:[a-zäé漢.]|🚢){1,30}[ \n]{1,2}$/), {
      minLength: 1,
      maxLength: 200,
    });
    fc.assert(
      fc.property(text, fc.integer({ min: 80, max: 400 }), (parts, size) => {
        const whole = parts.join("");
        const pieces = splitIntoChunks(document(whole), size).map(({ text: piece }) => piece);
        expect(pieces.join(" ").split(/\s+/).filter(Boolean)).toEqual(
          whole.split(/\s+/).filter(Boolean),
        );
        for (const piece of pieces) expect(piece.length).toBeLessThanOrEqual(size * 1.3);
      }),
    );
  });

  it("splits a text without spaces, but no surrogate pair", () => {
    const pieces = splitIntoChunks(document("🚢".repeat(1_000)), 301);
    expect(pieces.map(({ text }) => text).join("")).toBe("🚢".repeat(1_000));
    for (const { text } of pieces) expect(/\p{Surrogate}/u.test(text)).toBe(false);
  });

  it("keeps a heading that has no text, unless it has subsections", () => {
    const found = readText(bytes("# Call the plumber\n"), "todo.md", "markdown");
    expect(found?.chunks).toEqual([{ title: "Call the plumber", text: "Call the plumber" }]);
    const list = readText(bytes("# House\n\n## Boiler\n\nold\n\n## Roof\n"), "h.md", "markdown");
    expect(list?.chunks).toEqual([
      { title: "House > Boiler", text: "old" },
      { title: "House > Roof", text: "Roof" },
    ]);
  });

  it("adds the title and the headings to each chunk", () => {
    expect(splitIntoChunks(document("a"))).toEqual([{ title: "T > H", text: "a" }]);
  });
});
