import { BerthError } from "../base/errors.ts";
import type { Resource } from "../resources/resource.ts";

/**
 * A caller of the API must not make Berth read folders of the server: only who can write a file
 * there may name one. What a file has named may be repeated. Throws BerthError `invalid_request`.
 */
export function refuseServerFolder(
  fields: Readonly<Record<string, unknown>>,
  stored: Resource<"App"> | undefined,
): void {
  const local = localOf(fields["source"]);
  if (local === undefined || local === localOf(stored?.spec.source)) return;
  throw new BerthError(
    "invalid_request",
    "source.local: a folder of the server can only be named by a file in its specs folder",
    { hint: "upload the folder: berth deploy DIR" },
  );
}

function localOf(source: unknown): unknown {
  return typeof source === "object" && source !== null && "local" in source
    ? (source.local ?? undefined)
    : undefined;
}
