import type { SpecIssue } from "../base/errors.ts";
import { formatPointer } from "./json-pointer.ts";
import type { Manifest } from "./kinds.ts";

/** Matches control characters, and characters that end a line or change the direction of the text around them. */
const unprintable = /[\p{Cc}\u2028-\u202E\u2066-\u2069]/u;

/** Fields of an App that may contain unprintable characters: the app's programs or visitors read their text. */
const freeFields =
  /^\/spec\/((env|build\/args|entrypoint|command|healthCheck\/command|ingress\/maintenance)\/|(build\/inline|files\/\d+\/content)$)/;

/**
 * Checks that the labels of a resource, and the names, paths and addresses of an App, can be printed. Unprintable
 * characters could control the terminal of a reader, or show a path that differs from the one that the engine uses.
 */
export function checkPrintable({ kind, metadata, spec }: Manifest): SpecIssue[] {
  const issues: SpecIssue[] = [];
  const visit = (value: unknown, path: readonly string[]) => {
    if (typeof value === "string") {
      const pointer = formatPointer(path);
      const found = freeFields.test(pointer) ? undefined : unprintable.exec(value)?.[0];
      if (found !== undefined) {
        const message = `contains the character ${formatCodePoint(found)}, which cannot be printed`;
        issues.push({ path: pointer, message });
      }
      return;
    }
    if (typeof value !== "object" || value === null) return;
    for (const [key, item] of Object.entries(value)) visit(item, [...path, key]);
  };
  visit(metadata.labels, ["metadata", "labels"]);
  if (kind === "App") visit(spec, ["spec"]);
  return issues;
}

function formatCodePoint(character: string): string {
  return `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
