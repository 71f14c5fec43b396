import type { DataClass } from "../data-class.ts";

/** The data class of search results by the kind of their provenance label (`mail:inbox` has the kind `mail`). */
const classByKind: Readonly<Record<string, DataClass>> = {
  file: "files",
  mail: "mail",
  calendar: "calendar",
  memory: "memory",
  screen: "screen",
};

/**
 * Returns the data classes that a request contains: always `prompt`, which includes earlier turns; the classes of the
 * search results, with `files` for unknown kinds; and `files` for tool results, because an app may have read its data
 * anywhere.
 */
export function getDataClasses(
  provenance: readonly string[],
  hasToolResults: boolean,
): readonly DataClass[] {
  const found = provenance.map((label) => getLabelClass(label));
  const classes: readonly DataClass[] = [
    "prompt",
    ...found,
    ...(hasToolResults ? (["files"] as const) : []),
  ];
  return [...new Set(classes)];
}

function getLabelClass(label: string): DataClass {
  const [kind = ""] = label.split(":", 1);
  return Object.hasOwn(classByKind, kind) ? (classByKind[kind] ?? "files") : "files";
}
