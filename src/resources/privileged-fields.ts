import { BerthError, ConflictError } from "../base/errors.ts";
import { formatDottedPath, formatPointer } from "./json-pointer.ts";

/** A field of an App that reaches outside of the app's own containers, volumes and network. */
export type PrivilegedField =
  /** The field mounts a file or folder of the machine, which may be a socket or a device. */
  | { readonly type: "hostPath"; readonly pointer: string; readonly path: string }
  /**
   * The field makes Berth build an image from a folder of the machine, and thereby copies the folder into the image.
   */
  | { readonly type: "localSource"; readonly pointer: string; readonly path: string };

/**
 * Lists the privileged fields of an App's spec. Also accepts the unvalidated spec of a template, whose values may be
 * placeholders. Only this function decides which fields are privileged. Berth has no other privileged fields, because
 * no spec can request a privileged container, host namespaces, capabilities or devices.
 */
export function listPrivilegedFields(
  spec: Readonly<Record<string, unknown>>,
  base: readonly string[] = ["spec"],
): readonly PrivilegedField[] {
  const { volumes, source } = spec;
  const fields: PrivilegedField[] = [];
  for (const [index, volume] of (Array.isArray(volumes) ? volumes : []).entries()) {
    const path = getMember(volume, "hostPath");
    if (path === undefined) continue;
    const pointer = formatPointer([...base, "volumes", String(index), "hostPath"]);
    fields.push({ type: "hostPath", pointer, path: toText(path) });
  }
  const local = getMember(source, "local");
  if (local !== undefined) {
    const pointer = formatPointer([...base, "source", "local"]);
    fields.push({ type: "localSource", pointer, path: toText(local) });
  }
  return fields;
}

/**
 * The fields of an App that say whether, how often and within which limits it runs. Every other field may change what
 * an App does or who reaches it.
 */
export const lifecycleFields: ReadonlySet<string> = new Set([
  "running",
  "suspend",
  "replicas",
  "resources",
  "rollout",
  "restart",
  "stopGracePeriod",
]);

/** Thrown for a write or a deletion that the writer is not permitted to make. */
export class PrivilegeError extends BerthError {
  /** The JSON Pointer, within the resource, of the field whose write was refused. */
  readonly path: string;

  constructor(path: string, message: string, hint: string) {
    super("forbidden", `${formatDottedPath(path)}: ${message}`, { hint });
    this.path = path;
  }
}

/** A field that no writer with the scope `admin` has set or confirmed. */
export interface UncheckedField {
  /** The JSON Pointer of the field within the resource, such as /spec/command. */
  readonly path: string;
  /** The name of the writer who has set the field; undefined if the writer is unknown. */
  readonly author: string | undefined;
  /** The other resource that has the field, such as `secret "db"`; undefined for a field of the App itself. */
  readonly of?: string;
}

const NAMED_MAX = 10;

/**
 * Thrown if an App would have a privileged field together with fields that only writers without the scope `admin` have
 * set.
 */
export class UncheckedFieldsError extends ConflictError {
  /** The privileged field, as a JSON Pointer. */
  readonly path: string;

  constructor(path: string, subject: string, fields: readonly UncheckedField[]) {
    const named = fields.slice(0, NAMED_MAX).map(describeField).join(", ");
    const more = fields.length > NAMED_MAX ? ` and ${fields.length - NAMED_MAX} more` : "";
    super("conflict", `${subject}, but no one with the scope admin has checked ${named}${more}`, {
      hint: "check these fields; then remove them, or include them in this write with the scope admin (with their present values to keep them); write the fields of other resources before this app",
      details: { fields },
    });
    this.path = path;
  }
}

function describeField({ path, author, of }: UncheckedField): string {
  const what = of === undefined ? "" : ` of ${of}`;
  return `${formatDottedPath(path)}${what} (set by ${author ?? "an unknown writer"})`;
}

/** Returns a value as text. In a template, which is not validated as an App, a path may have any type. */
function toText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function getMember(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key) ?? undefined;
}
