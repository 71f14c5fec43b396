import type { DataClass } from "../data-class.ts";

/** The class of what search finds, by the kind of its provenance label (`mail:inbox` is of the kind `mail`). */
const classByKind: Readonly<Record<string, DataClass>> = {
  file: "files",
  mail: "mail",
  calendar: "calendar",
  memory: "memory",
  screen: "screen",
};

/**
 * What a request would hold. `prompt` always, and with it the turns before, which the frontend wrote down; what
 * search found by its labels, `files` for a kind that nobody knows; `files` for whatever tools gave, since an app may
 * have read it anywhere.
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
