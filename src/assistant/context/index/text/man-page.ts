import type { DocumentText, Section } from "./document-text.ts";
import { plainRoff } from "./roff-escapes.ts";

/** Arguments are joined without spaces, each in another font. */
const alternating = new Set(["BR", "RB", "BI", "IB", "IR", "RI", "SB"]);
const joined = new Set(["B", "I", "SM", "R", "UR", "MT", "TQ", "URL"]);
const breaks = new Set([
  "PP",
  "P",
  "LP",
  "TP",
  "HP",
  "sp",
  "Pp",
  "El",
  "Bl",
  "RS",
  "RE",
  "Bd",
  "Ed",
  "SY",
  "OP",
]);
const lineBreaks = new Set(["br", "EX", "EE", "nf", "fi", "YS", "D1", "Dl"]);
/** Macros of mdoc that may stand among the arguments of others, and print nothing themselves. */
const callable = new Set(
  "Ac Ad An Ao Ap Aq Ar Bc Bo Bq Brc Bro Brq Bsx Bx Cd Cm Dc Do Dq Dv Ec Em En Eo Er Es Ev Fa Fc Fn Fo Fr Ft Fx Ic In Lb Li Lk Ms Mt Nm No Ns Nx Oc Oo Op Ot Ox Pa Pc Pf Po Pq Qc Ql Qo Qq Sc Sm So Sq St Sx Sy Ta Tn Ux Va Vt Xc Xo Ud Bt".split(
    " ",
  ),
);

/**
 * A page of the manual (man or mdoc macros) as text. Not a formatter: macros that print nothing are
 * dropped, the others give their arguments, in one walk over the lines. Undefined where it is no page.
 */
export function readManPage(source: string): DocumentText | undefined {
  const page = new ManPage();
  const lines = source.replaceAll("\\\n", "").split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const request = /^[.'][ \t]*([A-Za-z]{1,3}|\\")?(?:[ \t]+(.*)|$)/.exec(line);
    if (!/^[.']/.test(line)) page.text(plainRoff(line));
    else if (request) {
      const name = request[1] ?? "";
      if (name === "de" || name === "am" || name === "ig") at = endOfDefinition(lines, at);
      else if (name === "TS") at = page.table(lines, at);
      else page.request(name, request[2] ?? "");
    }
  }
  return page.end();
}

function endOfDefinition(lines: readonly string[], from: number): number {
  const end = lines.findIndex((line, at) => at > from && /^\.\s*\.\s*$/.test(line));
  return end === -1 ? from : end;
}

class ManPage {
  readonly #sections: Section[] = [];
  #name: string | undefined;
  #own = "";
  #heading = "";
  #isHeadingNext: "section" | "subsection" | undefined;
  #section = "";
  #body = "";

  /** A line that is no request. */
  text(line: string): void {
    if (this.#name === undefined) return;
    if (this.#isHeadingNext !== undefined && line.trim() !== "") {
      this.#head(line.trim(), this.#isHeadingNext);
      return;
    }
    this.#body += /^\s*$/.test(line) ? "\n\n" : `${line.trimEnd()}\n`;
  }

  request(name: string, rest: string): void {
    if (name === "TH" || name === "Dt") {
      const [title = "", section = ""] = argumentsOf(rest);
      this.#name = section === "" ? title.toLowerCase() : `${title.toLowerCase()}(${section})`;
    } else if (this.#name === undefined) return;
    else if (name === "SH" || name === "Sh") this.#headRequest(rest, "section");
    else if (name === "SS" || name === "Ss") this.#headRequest(rest, "subsection");
    else if (alternating.has(name)) this.text(argumentsOf(rest).join(""));
    else if (joined.has(name)) {
      if (rest !== "") this.text(argumentsOf(rest).join(" "));
    } else if (name === "IP") this.#paragraph(argumentsOf(rest)[0] ?? "");
    else if (name === "It") this.#paragraph(this.#mdoc(argumentsOf(rest)));
    else if (breaks.has(name)) this.#paragraph("");
    else if (lineBreaks.has(name)) this.#body += "\n";
    else if (name === "if" || name === "ie") {
      // What is for a terminal is for us.
      const kept = /^n\s+(?!\\\{)(.*)$/.exec(rest)?.[1];
      if (kept !== undefined && !/^[.']/.test(kept)) this.text(plainRoff(kept));
    } else if (/^[A-Z][a-z]$|^Brq$/.test(name)) this.#mdocRequest(name, argumentsOf(rest));
  }

  /** Rows between `.TS` and `.TE`; the lines up to the one that ends in a dot say how they are set. */
  table(lines: readonly string[], from: number): number {
    let isBody = false;
    for (let at = from + 1; at < lines.length; at += 1) {
      const line = lines[at] ?? "";
      if (/^\.\s*TE/.test(line)) return at;
      if (isBody && !/^[.'_=]/.test(line) && !/^T[{}]/.test(line))
        this.text(plainRoff(line).replaceAll(/T[{}]|[\t|]+/g, " "));
      else if (/\.\s*$/.test(line) && !/^[.']/.test(line)) isBody = true;
      else if (/^\.\s*T&/.test(line)) isBody = false;
    }
    return lines.length;
  }

  end(): DocumentText | undefined {
    if (this.#name === undefined) return undefined;
    this.#close();
    // The section NAME says `ls - list directory contents`.
    const line = this.#sections.find(({ heading }) => heading.toUpperCase() === "NAME")?.text ?? "";
    const says = /\s[-–—]+\s+(.+)/s.exec(line)?.[1] ?? this.#own;
    const about = says.replaceAll(/\s+/g, " ").trim().slice(0, 200);
    return {
      title: about === "" ? this.#name : `${this.#name} - ${about}`,
      sections: this.#sections,
    };
  }

  #headRequest(rest: string, level: "section" | "subsection"): void {
    const text = argumentsOf(rest).join(" ").trim();
    if (text === "") {
      this.#isHeadingNext = level;
      return;
    }
    this.#head(text, level);
  }

  #head(text: string, level: "section" | "subsection"): void {
    this.#close();
    this.#isHeadingNext = undefined;
    if (level === "section") this.#section = text;
    this.#heading =
      level === "section" || this.#section === "" ? text : `${this.#section} > ${text}`;
  }

  #paragraph(tag: string): void {
    this.#body += tag === "" ? "\n\n" : `\n\n${tag}\n`;
  }

  #mdocRequest(name: string, words: readonly string[]): void {
    if (name === "Os" || name === "Dd" || name === "Bk" || name === "Ek" || name === "Sm") return;
    if (name === "Nd") {
      this.#own = words.join(" ");
      this.text(`- ${this.#own}`);
      return;
    }
    const own =
      words.length === 0 && name === "Nm" ? [this.#name?.replace(/\(.*/, "") ?? ""] : words;
    const text = this.#mdoc([name, ...own]);
    if (text !== "") this.text(text);
  }

  #mdoc(words: readonly string[]): string {
    let out = "";
    let isFlag = false;
    for (let at = 0; at < words.length; at += 1) {
      const word = words[at] ?? "";
      if (word === "Fl") isFlag = true;
      else if (word === "Xr") {
        out += ` ${words[at + 1] ?? ""}(${words[at + 2] ?? ""})`;
        at += 2;
      } else if (!callable.has(word)) {
        const isMark = /^[.,;:)\]!?]$/.test(word);
        out += `${isMark ? "" : " "}${isFlag && !isMark ? "-" : ""}${word}`;
        isFlag = false;
      }
    }
    return out.trim();
  }

  #close(): void {
    const text = this.#body
      .replaceAll(/[ \t]+\n/g, "\n")
      .replaceAll(/\n{3,}/g, "\n\n")
      .trim();
    this.#body = "";
    if (text !== "") this.#sections.push({ heading: this.#heading, text });
  }
}

/** The arguments of a request: words, or texts in double quotes. A comment ends them. */
function argumentsOf(rest: string): string[] {
  const found: string[] = [];
  const pattern = /"((?:[^"]|"")*)"?|((?:\\ |\\[^ ]|[^\s\\])+)|(\\)/g;
  for (const match of rest.replace(/\s*\\".*$/, "").matchAll(pattern)) {
    const text = match[1]?.replaceAll('""', '"') ?? match[2] ?? "";
    found.push(plainRoff(text));
  }
  return found;
}
