import { type DocumentText, HEADING_SEPARATOR, type Section } from "./document-text.ts";
import { decodeEntities } from "./html-entities.ts";

/** What stands in these is not for reading. */
const ignoredElements = new Set([
  "script",
  "style",
  "noscript",
  "template",
  "svg",
  "math",
  "iframe",
  "head",
]);
const blockElements = new Set(
  "p div br hr li ul ol dl dt dd tr table thead tbody section article main header footer nav aside pre blockquote figure figcaption form h1 h2 h3 h4 h5 h6 option summary details address".split(
    " ",
  ),
);

/**
 * The words of a page, in one walk over it: as many steps as characters, whatever is wrong with the
 * markup. Not a browser: what styles hide or scripts write is not known.
 */
export function readHtml(source: string, fallbackTitle: string): DocumentText {
  const page = new HtmlTextBuilder();
  let at = 0;
  while (at < source.length) {
    const open = source.indexOf("<", at);
    if (open === -1) {
      page.addText(source.slice(at));
      break;
    }
    page.addText(source.slice(at, open));
    if (source.startsWith("<!--", open)) {
      const end = source.indexOf("-->", open + 4);
      at = end === -1 ? source.length : end + 3;
      continue;
    }
    const tag = /^<(\/?)([A-Za-z][A-Za-z0-9-]{0,30})/.exec(source.slice(open, open + 40));
    if (!tag && !/[!?]/.test(source[open + 1] ?? "")) {
      page.addText("<");
      at = open + 1;
      continue;
    }
    const end = tagEnd(source, open + 1);
    at = end;
    if (!tag) continue;
    const [name, isEnd] = [(tag[2] ?? "").toLowerCase(), tag[1] === "/"];
    if (!isEnd && ignoredElements.has(name) && name !== "head" && source[end - 2] !== "/") {
      const close = findClose(source, name, end);
      at = close;
      continue;
    }
    page.addTag(name, isEnd);
  }
  return page.finish(fallbackTitle);
}

/** After the `>` of the tag; a `>` in quotes is none. */
function tagEnd(source: string, from: number): number {
  let quote = "";
  for (let at = from; at < source.length; at += 1) {
    const character = source[at] ?? "";
    if (quote !== "") {
      if (character === quote) quote = "";
    } else if (character === '"' || character === "'") {
      // Only in an attribute's value: an apostrophe elsewhere would swallow the rest of the page.
      if (/=\s*$/.test(source.slice(Math.max(from, at - 4), at))) quote = character;
    } else if (character === ">") return at + 1;
  }
  return source.length;
}

function findClose(source: string, name: string, from: number): number {
  const pattern = new RegExp(`</${name}[\\s>]`, "gi");
  pattern.lastIndex = from;
  const found = pattern.exec(source);
  return found === null ? source.length : tagEnd(source, found.index + 1);
}

class HtmlTextBuilder {
  readonly #sections: Section[] = [];
  readonly #headings: string[] = [];
  #body = "";
  #heading: { level: number; text: string } | undefined;
  #title: string | undefined;
  #isTitle = false;
  #isHead = false;

  addText(raw: string): void {
    if (raw === "") return;
    if (this.#isTitle) this.#title = (this.#title ?? "") + raw;
    else if (this.#isHead) return;
    else if (this.#heading) this.#heading.text += raw;
    else this.#body += raw;
  }

  addTag(name: string, isEnd: boolean): void {
    if (name === "title") this.#isTitle = !isEnd;
    else if (name === "head") this.#isHead = !isEnd;
    else if (name === "body") {
      this.#isHead = false;
      this.#isTitle = false;
    } else if (/^h[1-6]$/.test(name)) this.#headingTag(Number(name.slice(1)), isEnd);
    else if (this.#heading) this.#heading.text += " ";
    else if (blockElements.has(name)) this.#body += name === "li" && !isEnd ? "\n- " : "\n";
    else if (name === "td" || name === "th") this.#body += " ";
  }

  finish(fallbackTitle: string): DocumentText {
    if (this.#heading) this.#headingTag(this.#heading.level, true);
    this.#closeSection();
    const first = this.#sections.find(({ heading }) => heading !== "")?.heading;
    const title = collapseWhitespace(decodeEntities(this.#title ?? "")) || first || fallbackTitle;
    return { title, sections: this.#sections };
  }

  #headingTag(level: number, isEnd: boolean): void {
    if (!isEnd) {
      this.#closeSection();
      this.#heading = { level, text: "" };
    } else if (this.#heading) {
      const { level: opened, text } = this.#heading;
      this.#heading = undefined;
      this.#headings.length = Math.min(this.#headings.length, opened - 1);
      this.#headings[opened - 1] = collapseWhitespace(decodeEntities(text));
    }
  }

  #closeSection(): void {
    const text = decodeEntities(this.#body)
      .replaceAll(/[^\S\n]+/g, " ")
      .replaceAll(/ ?\n ?/g, "\n")
      .replaceAll(/\n{3,}/g, "\n\n")
      .trim();
    this.#body = "";
    if (text === "") return;
    const heading = this.#headings.filter((it) => it !== undefined && it !== "");
    this.#sections.push({ heading: heading.join(HEADING_SEPARATOR), text });
  }
}

function collapseWhitespace(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
