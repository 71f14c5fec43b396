import { execFileSync } from "node:child_process";
import { lstatSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { gunzipSync } from "node:zlib";
import { decodeText } from "../../src/assistant/context/index/text/decode-text.ts";
import type { DocumentText } from "../../src/assistant/context/index/text/document-text.ts";
import { readManPage } from "../../src/assistant/context/index/text/man-page.ts";

export interface Page {
  /** `cp.1`. */
  readonly name: string;
  readonly document: DocumentText;
}

/**
 * The English pages, sections 1, 4, 5, 7 and 8, of the packages that every Debian has (priority required,
 * important or standard), read from where they are installed: nothing of them is in this repository.
 * Empty where there is no dpkg, or the pages were left out, as in small images.
 */
export function readManual(): Page[] {
  return pageFiles().flatMap((file) => {
    const text = decodeText(gunzipSync(readFileSync(file)));
    const document = text === undefined ? undefined : readManPage(text);
    const name = basename(file, ".gz");
    return document && document.sections.length > 0 ? [{ name, document }] : [];
  });
}

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
