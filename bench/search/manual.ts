import { execFileSync } from "node:child_process";
import { lstatSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { gunzipSync } from "node:zlib";
import type {
  DocumentText,
  Section,
} from "../../src/assistant/context/index/text/document-text.ts";

export interface Page {
  /** The file's name, such as `cp.1`. */
  readonly name: string;
  readonly document: DocumentText;
}

/**
 * Reads the machine's English manual pages of the sections 1, 4, 5, 7 and 8 that belong to Debian packages of
 * priority required, important or standard. Returns an empty list if there is no dpkg, or if the pages are not
 * installed, as in small images.
 */
export function readManual(): Page[] {
  return pageFiles().flatMap((file) => {
    const name = basename(file, ".gz");
    const document = readPage(gunzipSync(readFileSync(file)).toString("utf8"), name);
    return document.sections.length > 0 ? [{ name, document }] : [];
  });
}

/** Macros of man and mdoc that begin a paragraph. */
const paragraphMacros = new Set("PP P LP TP TQ IP HP Pp It Bl El Bd Ed D1 Dl EX EE".split(" "));
/** Macros of mdoc that may occur among the arguments of other macros. */
const inlineMacros = new Set(
  "Ac Ad An Ao Ap Aq Ar Bc Bo Bq Brc Bro Brq Cd Cm Dc Do Dq Dv Em Er Ev Fa Fl Fn Fx Ic Li Lk Mt Nm No Ns Op Oc Oo Os Pa Pc Pf Po Pq Qc Ql Qo Qq Sc So Sq St Sx Sy Ta Tn Ux Va Vt Xc Xo Xr".split(
    " ",
  ),
);

/** Extracts headings and text from the source of a page. Macros are removed and their arguments are kept. */
function readPage(source: string, fileName: string): DocumentText {
  const sections: Section[] = [];
  let section = "";
  let heading = "";
  let body: string[] = [];
  let name = fileName.replace(/\.(\d.*)$/, "($1)");
  const close = () => {
    const text = body
      .join("\n")
      .replaceAll(/\n{3,}/g, "\n\n")
      .trim();
    if (text !== "") sections.push({ heading, text });
    body = [];
  };
  // Definitions of macros, and text that is never printed, are removed first.
  for (const line of source
    .replaceAll(/^[.'][ \t]*(?:de1?|am|ig)\b[^]*?^\.\.[^\n]*$/gm, "")
    .split("\n")) {
    const [, macro, rest = ""] = /^[.'][ \t]*([^ \t]*)[ \t]*(.*)$/.exec(line) ?? [];
    if (macro === undefined) body.push(readEscapes(line));
    else if (/^S[Hh]$/.test(macro)) {
      close();
      section = readArguments(rest);
      heading = section;
    } else if (/^S[Ss]$/.test(macro)) {
      close();
      heading = `${section} > ${readArguments(rest)}`;
    } else if (macro === "Nd") body.push(`- ${readArguments(rest)}`);
    else if (/^(?:TH|Dt)$/.test(macro)) {
      const [title = "", number = ""] = readArguments(rest).split(" ");
      name = `${title.toLowerCase()}(${number})`;
    } else {
      if (paragraphMacros.has(macro)) body.push("");
      // Only macros have text as arguments. Requests of roff itself, whose names are in lower case, have none.
      if (/^[A-Z]/.test(macro) && macro !== "Dd" && macro !== "Os") body.push(readArguments(rest));
    }
  }
  close();
  const summary = /\s[-–—]+\s+([^]*)$/.exec(sections[0]?.text ?? "")?.[1];
  const title = summary === undefined ? name : `${name} - ${summary.replaceAll(/\s+/g, " ")}`;
  return { title, sections };
}

function readArguments(text: string): string {
  return (text.match(/"(?:[^"]|"")*"|[^ \t]+/g) ?? [])
    .filter((word) => !inlineMacros.has(word))
    .map((word) => readEscapes(word.replace(/^"(.*)"$/, "$1")))
    .join(" ");
}

function readEscapes(text: string): string {
  return text
    .replace(/\\["#].*$/, "")
    .replaceAll(/\\[f*nFmM](?:\([^]{2}|\[[^\]]*\]|[^([])/g, "")
    .replaceAll(/\\s[-+]?\d/g, "")
    .replaceAll(/\\\(([^]{2})|\\\[([^\]]*)\]/g, (_, pair, long) => characters[pair ?? long] ?? " ")
    .replaceAll(/\\[-~0 ]/g, (escape) => (escape === "\\-" ? "-" : " "))
    .replaceAll("\\e", "\\")
    .replaceAll(/\\[&|^%:/,c)]/g, "");
}

const characters: Readonly<Record<string, string>> = {
  aq: "'",
  cq: "'",
  oq: "'",
  dq: '"',
  lq: '"',
  rq: '"',
  em: "-",
  en: "-",
  hy: "-",
  ti: "~",
  ha: "^",
  rs: "\\",
};

function pageFiles(): string[] {
  try {
    const format = "--showformat=${Package} ${Priority}\\n";
    const packages = run("dpkg-query", ["--show", format])
      .filter((line) => / (?:required|important|standard)$/.test(line))
      .map((line) => line.split(" ")[0] ?? "");
    const files = run("dpkg", ["--listfiles", ...packages]);
    const pages = files.filter((file) => /^\/usr\/share\/man\/man[14578]\/.*\.gz$/.test(file));
    return [...new Set(pages)]
      .filter((file) => lstatSync(file, { throwIfNoEntry: false })?.isFile() === true)
      .toSorted();
  } catch {
    return [];
  }
}

function run(program: string, args: readonly string[]): string[] {
  const output = execFileSync(program, args, { encoding: "utf8", maxBuffer: 2 ** 26 });
  return output.split("\n");
}
