import { Tokenizer } from "htmlparser2";
import { type DocumentText, HEADING_SEPARATOR, type Section } from "./document-text.ts";

/** Elements whose text is not shown to readers. */
const ignoredElements = new Set(
  "script style noscript template svg math iframe noembed noframes".split(" "),
);
const blockElements = new Set(
  "p div br hr li ul ol dl dt dd tr table thead tbody section article main header footer nav aside pre blockquote figure figcaption form h1 h2 h3 h4 h5 h6 option summary details address".split(
    " ",
  ),
);

const ignore = () => {};

/**
 * Extracts headings and text from a web page. Uses htmlparser2's tokenizer without its parser: the parser keeps a stack
 * of open elements, and its time grows with the square of the depth of a hostile page. Styles and scripts have no
 * effect.
 */
export function readHtml(source: string, fallbackTitle: string): DocumentText {
  const page = new HtmlTextBuilder();
  const nameAt = (start: number, end: number) => source.slice(start, end).toLowerCase();
  const tokenizer = new Tokenizer(
    { recognizeSelfClosing: true },
    {
      ontext: (start, end) => page.addText(source.slice(start, end)),
      ontextentity: (codePoint) => page.addText(String.fromCodePoint(codePoint)),
      onopentagname: (start, end) => page.openTag(nameAt(start, end)),
      onclosetag: (start, end) => page.closeTag(nameAt(start, end)),
      onselfclosingtag: () => page.closeSelfClosingTag(),
      onopentagend: ignore,
      onattribname: ignore,
      onattribdata: ignore,
      onattribentity: ignore,
      onattribend: ignore,
      oncdata: ignore,
      oncomment: ignore,
      ondeclaration: ignore,
      onprocessinginstruction: ignore,
      onend: ignore,
    },
  );
  tokenizer.write(source);
  tokenizer.end();
  return page.finish(fallbackTitle);
}

class HtmlTextBuilder {
  readonly #sections: Section[] = [];
  readonly #headings: string[] = [];
  #body = "";
  #heading: { level: number; text: string } | undefined;
  #title: string | undefined;
  #isTitle = false;
  #isHead = false;
  /** The element whose text is ignored, and the number of open elements with its name. */
  #ignored: { name: string; depth: number } | undefined;
  #lastOpened = "";

  addText(text: string): void {
    if (this.#ignored) return;
    if (this.#isTitle) this.#title = (this.#title ?? "") + text;
    else if (this.#isHead) return;
    else if (this.#heading) this.#heading.text += text;
    else this.#body += text;
  }

  openTag(name: string): void {
    this.#lastOpened = name;
    if (this.#ignored) {
      if (this.#ignored.name === name) this.#ignored.depth += 1;
    } else if (ignoredElements.has(name)) this.#ignored = { name, depth: 1 };
    else if (name === "title") this.#isTitle = true;
    else if (name === "head") this.#isHead = true;
    else if (name === "body") {
      this.#isHead = false;
      this.#isTitle = false;
    } else if (/^h[1-6]$/.test(name)) {
      this.#closeSection();
      this.#heading = { level: Number(name.slice(1)), text: "" };
    } else this.#addSeparator(name, "\n- ");
  }

  closeTag(name: string): void {
    if (this.#ignored) {
      if (this.#ignored.name === name) this.#ignored.depth -= 1;
      if (this.#ignored.depth === 0) this.#ignored = undefined;
    } else if (name === "title") this.#isTitle = false;
    else if (name === "head") this.#isHead = false;
    else if (/^h[1-6]$/.test(name)) this.#closeHeading();
    else this.#addSeparator(name, "\n");
  }

  /** Closes an element such as `<svg/>`; otherwise all text up to an end tag would be ignored. */
  closeSelfClosingTag(): void {
    if (this.#ignored?.name === this.#lastOpened) this.closeTag(this.#lastOpened);
  }

  finish(fallbackTitle: string): DocumentText {
    this.#closeHeading();
    this.#closeSection();
    const first = this.#sections.find(({ heading }) => heading !== "")?.heading;
    const title = collapseWhitespace(this.#title ?? "") || first || fallbackTitle;
    return { title, sections: this.#sections };
  }

  #addSeparator(name: string, listItem: string): void {
    if (this.#heading) this.#heading.text += " ";
    else if (blockElements.has(name)) this.#body += name === "li" ? listItem : "\n";
    else if (name === "td" || name === "th") this.#body += " ";
  }

  #closeHeading(): void {
    if (!this.#heading) return;
    const { level, text } = this.#heading;
    this.#heading = undefined;
    this.#headings.length = Math.min(this.#headings.length, level - 1);
    this.#headings[level - 1] = collapseWhitespace(text);
  }

  #closeSection(): void {
    const text = removeSoftHyphens(this.#body)
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
  return removeSoftHyphens(text).replaceAll(/\s+/g, " ").trim();
}

/** Removes soft hyphens, because one in the middle of a word would hide the word from searches. */
function removeSoftHyphens(text: string): string {
  return text.replaceAll("\u00ad", "");
}
