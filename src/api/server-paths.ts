import { BerthError } from "../base/errors.ts";
import type { Resource } from "../resources/resource.ts";

/**
 * Refuses a change of `source.local` to another folder of the server. Only spec files may name such a folder, because
 * their authors can write files on the server anyway. Throws BerthError `invalid_request`.
 */
export function assertNoNewServerFolder(
  fields: Readonly<Record<string, unknown>>,
  stored: Resource<"App"> | undefined,
): void {
  const local = getLocalFolder(fields["source"]);
  if (local === undefined || local === getLocalFolder(stored?.spec.source)) return;
  throw new BerthError(
    "invalid_request",
    "source.local: a folder of the server can only be named by a file in its specs folder",
    { hint: "upload the folder: berth deploy DIR" },
  );
}

function getLocalFolder(source: unknown): unknown {
  return typeof source === "object" && source !== null && "local" in source
    ? (source.local ?? undefined)
    : undefined;
}
