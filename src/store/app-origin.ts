import { ConflictError } from "../base/errors.ts";
import { ORIGIN_ANNOTATION } from "../resources/resource.ts";
import { isFileManager } from "./field-managers.ts";
import type { StoredResource } from "./resource-table.ts";
import type { ApplyIntent } from "./store.ts";

/**
 * Throws ConflictError `conflict` if a document of another origin would take over an App: a document of another import
 * or template, or, if an import or template made the App, a document that was written by hand. The file that declares
 * an App may change its own document. A patch is never refused, because it names a change instead of a whole App.
 */
export function assertOriginKept(existing: StoredResource, intent: ApplyIntent): void {
  if (intent.kind !== "App" || intent.mode !== "replace" || intent.takeOver) return;
  const given = intent.annotations?.[ORIGIN_ANNOTATION] ?? undefined;
  const own = existing.annotations[ORIGIN_ANNOTATION];
  if (given === own) return;
  const declarers = [intent.manager, ...(intent.takeOverFrom ?? [])];
  if (declarers.some((manager) => existing.managers[manager]?.declares)) return;
  throw new ConflictError(
    "conflict",
    `App ${existing.name} ${describeMaker(existing) ?? "was made by hand"}`,
    {
      hint:
        own === undefined || given !== undefined
          ? "choose another name, delete the app, or take this one app over: --force, or ?force=true with this App alone"
          : `to change this app, add the annotation ${ORIGIN_ANNOTATION}: ${own}; to take it over, use --force, or ?force=true with this App alone`,
      details: { origin: own ?? null, manager: findDeclarer(existing) ?? null },
    },
  );
}

/**
 * Returns the managers that lose their fields to a document that takes over the App. Spec files keep their fields until
 * the files change.
 */
export function listReplacedManagers(existing: StoredResource, intent: ApplyIntent): string[] {
  const isTakeOver =
    intent.takeOver === true &&
    existing.annotations[ORIGIN_ANNOTATION] !== intent.annotations?.[ORIGIN_ANNOTATION];
  return isTakeOver ? Object.keys(existing.managers).filter((name) => !isFileManager(name)) : [];
}

/**
 * Returns the end of a message about an App, which names the file, import or template that made the App; undefined if
 * the App was made by hand.
 */
export function describeMaker(existing: StoredResource): string | undefined {
  const declarer = findDeclarer(existing);
  if (declarer !== undefined) return `is declared by the file ${declarer.slice("file:".length)}`;
  const origin = existing.annotations[ORIGIN_ANNOTATION];
  const [, kind, name = ""] = /^(import|template):(.+)$/.exec(origin ?? "") ?? [];
  if (kind === "import") return `was made by the import of the project ${name}`;
  if (kind === "template") return `was made from the template ${name}`;
  return origin === undefined ? undefined : `was made by ${origin}`;
}

function findDeclarer(existing: StoredResource): string | undefined {
  return Object.entries(existing.managers).find(([, { declares }]) => declares)?.[0];
}
