import type { CliIo } from "./io.ts";

/** The characters that end a control sequence early, move the cursor, or change the order of the displayed text. */
const unsafeCharacters =
  "\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F\\u061C\\u200E\\u200F\\u2028-\\u202E\\u2066-\\u2069";
const unsafe = new RegExp(`[${unsafeCharacters}]`);
/** Matches a control sequence of the command line's own colours and styles, or one unsafe character. */
// oxlint-disable-next-line no-control-regex -- the pattern matches control sequences
const candidates = new RegExp(`\\u001B\\[(?:0|[12]|22|3[1-6]|39|90)m|[${unsafeCharacters}]`, "g");
// oxlint-disable-next-line no-control-regex -- see above
const logCandidates = new RegExp(`\\u001B\\[[0-9;]*m|[${unsafeCharacters}]`, "g");
const eraseLine = "\r\u001b[K";

/**
 * Wraps the streams of the process so that text from servers, files and apps cannot control the terminal. Of the
 * control sequences, only those for colours and for erasing a progress line are printed. Every other unsafe character
 * is printed as an escape, which is also valid in JSON. Bytes, such as those of a backup, are written unchanged.
 */
export function withCleanOutput(io: CliIo): CliIo {
  return {
    ...io,
    // Getters are used, because a copy would keep the width that the terminal had at the start.
    get columns() {
      return io.columns;
    },
    get errorColumns() {
      return io.errorColumns;
    },
    write: (text) =>
      io.write(typeof text === "string" ? cleanText(text, io.outputIsTerminal) : text),
    writeError: (text) => io.writeError(cleanText(text, io.errorIsTerminal)),
  };
}

/**
 * Escapes unsafe characters. If the output is not a terminal, the control sequences for colours and for erasing a line
 * are escaped too.
 */
export function cleanText(text: string, isTerminal: boolean): string {
  const erasure = isTerminal && text.startsWith(eraseLine) ? eraseLine : "";
  const rest = text.slice(erasure.length);
  if (!unsafe.test(rest)) return text;
  return (
    erasure +
    rest.replaceAll("\r\n", "\n").replace(candidates, (found) => replace(found, isTerminal))
  );
}

/** Cleans a line of an app's log. The app's own colours stay; if there are any, the end of the line resets them. */
export function cleanLogLine(line: string): string {
  if (!unsafe.test(line)) return line;
  const cleaned = line
    .replaceAll("\r\n", "\n")
    .replace(logCandidates, (found) => replace(found, true));
  return cleaned.includes("\u001b[") ? `${cleaned}\u001b[0m` : cleaned;
}

/** Returns true if the text contains characters that `cleanText` escapes when the output is not a terminal. */
export function hasUnsafeCharacters(text: string): boolean {
  return unsafe.test(text);
}

function replace(found: string, isTerminal: boolean): string {
  if (found.length > 1 && isTerminal) return found;
  return `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}${found.slice(1)}`;
}
