import { ConflictError } from "../base/errors.ts";
import { ORIGIN_ANNOTATION } from "../resources/resource.ts";
import { STACK_LABEL } from "../resources/stack.ts";
import { isFileManager } from "./field-managers.ts";
import type { StoredResource } from "./resource-table.ts";
import type { ApplyIntent } from "./store.ts";

/**
 * Throws ConflictError `conflict` if a document of another origin would take over an App: a document of another import
 * or template, or, if an import or template made the App, a document that was written by hand. The same applies to a
 * document that would take the App out of its stack. The file that declares an App may change its own document. A patch is never refused, because it names a change instead of a whole App.
 */
export function assertOriginKept(existing: StoredResource, intent: ApplyIntent): void {
  if (intent.kind !== "App" || intent.mode !== "replace" || intent.takeOver) return;
  const given = intent.annotations?.[ORIGIN_ANNOTATION] ?? undefined;
  const own = existing.annotations[ORIGIN_ANNOTATION];
  const stack = findLeftStack(existing, intent);
  if (given === own && stack === undefined) return;
  const declarers = [intent.manager, ...(intent.takeOverFrom ?? [])];
  if (declarers.some((manager) => existing.managers[manager]?.declares)) return;
  if (given === own)
    throw new ConflictError("conflict", `App ${existing.name} belongs to the stack ${stack}`, {
      hint: `to change this app, set metadata.stack: ${stack}; to take it out of the stack, use --force, or a request with ?force=true that contains no other App`,
      details: { stack, manager: findDeclarer(existing) ?? null },
    });
  const isNamesake = getProject(given) !== undefined && getProject(given) === getProject(own);
  throw new ConflictError(
    "conflict",
    isNamesake
      ? `App ${existing.name} was made by the import of another file, whose project is called ${getProject(own)} too`
      : `App ${existing.name} ${describeMaker(existing) ?? "was made by hand"}`,
    {
      hint: isNamesake
        ? "import this file as another stack: --stack NAME; if it is the same project in another place, take over one app after the other: --force, or ?force=true with this App alone"
        : own === undefined || given !== undefined
          ? "choose another name, delete the app, or take this one app over: --force, or ?force=true with this App alone"
          : `to change this app, add the annotation ${ORIGIN_ANNOTATION}: ${own}; to take it over, use --force, or ?force=true with this App alone`,
      details: { origin: own ?? null, manager: findDeclarer(existing) ?? null },
    },
  );
}

/** Returns the project of an origin; undefined for an origin that is no import. */
function getProject(origin: string | undefined): string | undefined {
  return /^import:(.+?)(?:@[0-9a-f]+)?$/.exec(origin ?? "")?.[1];
}

/**
 * Returns the managers that lose their fields to a document that takes over the App. Spec files keep their fields until
 * the files change.
 */
export function listReplacedManagers(existing: StoredResource, intent: ApplyIntent): string[] {
  const isTakeOver =
    intent.takeOver === true &&
    (existing.annotations[ORIGIN_ANNOTATION] !== intent.annotations?.[ORIGIN_ANNOTATION] ||
      findLeftStack(existing, intent) !== undefined);
  return isTakeOver ? Object.keys(existing.managers).filter((name) => !isFileManager(name)) : [];
}

/** Returns the stack of an App that the document puts into another stack, or into none; otherwise undefined. */
function findLeftStack(existing: StoredResource, intent: ApplyIntent): string | undefined {
  const stack = existing.labels[STACK_LABEL];
  return stack === (intent.labels?.[STACK_LABEL] ?? undefined) ? undefined : stack;
}

/**
 * Returns the end of a message about an App, which names the file, import or template that made the App, or the App's
 * stack; undefined for an App without a stack that was made by hand.
 */
export function describeMaker(existing: StoredResource): string | undefined {
  const declarer = findDeclarer(existing);
  if (declarer !== undefined) return `is declared by the file ${declarer.slice("file:".length)}`;
  const origin = existing.annotations[ORIGIN_ANNOTATION];
  const project = getProject(origin);
  if (project !== undefined) return `was made by the import of the project ${project}`;
  const [, template] = /^template:(.+)$/.exec(origin ?? "") ?? [];
  if (template !== undefined) return `was made from the template ${template}`;
  if (origin !== undefined) return `was made by ${origin}`;
  const stack = existing.labels[STACK_LABEL];
  return stack === undefined ? undefined : `belongs to the stack ${stack}`;
}

function findDeclarer(existing: StoredResource): string | undefined {
  return Object.entries(existing.managers).find(([, { declares }]) => declares)?.[0];
}
